//! Which capabilities this process has.

use mtcp::privileges::{PRIVILEGES, Privilege, allows, own};
use rustix::thread::CapabilitySet;

use super::check::Check;

/// Whether this process may configure interfaces.
pub(crate) fn has_net_admin() -> bool {
    allows(own(), CapabilitySet::NET_ADMIN)
}

/// Whether the limit on locked memory does not hold for this process, or can be raised by it.
pub(crate) fn may_lock() -> bool {
    let enough = CapabilitySet::IPC_LOCK | CapabilitySet::SYS_RESOURCE;
    is_initial(&user_namespace()) && own().intersects(enough)
}

fn user_namespace() -> String {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// Whether `uid_map` is that of the first user namespace, which has all users.
fn is_initial(uid_map: &str) -> bool {
    let words: Vec<&str> = uid_map.split_ascii_whitespace().collect();
    matches!(words.as_slice(), [] | ["0", "0", "4294967295"])
}

/// What else counts for programs in the kernel.
pub(crate) fn programs() -> Vec<Check> {
    let mut checks = Vec::new();
    if !is_initial(&user_namespace()) {
        checks.push(Check::fail(
            "user namespace",
            "not the first: the kernel takes BPF programs from there only, whatever the capabilities",
            "start it outside, as a service with AmbientCapabilities or by setpriv; or shm:PATH",
        ));
    }
    checks.push(if allows(own(), CapabilitySet::PERFMON) {
        Check::ok("CAP_PERFMON", "yes: veth pairs of one queue go through traffic control")
    } else {
        Check::warn(
            "CAP_PERFMON",
            "no: frames of veth pairs come through XDP, which is slower there and needs more locked memory",
            "add cap_perfmon",
        )
    });
    checks
}

/// The capabilities of which `uses` names a use (`None`: all).
pub(crate) fn check(uses: Option<&str>) -> Check {
    let own = own();
    let is_needed = |one: &&Privilege| match uses {
        Some(wanted) => one.links.contains(wanted),
        None => !one.links.is_empty(),
    };
    let needed = PRIVILEGES.iter().filter(is_needed);
    let (present, missing): (Vec<&Privilege>, Vec<&Privilege>) =
        needed.partition(|one| allows(own, one.set));
    if missing.is_empty() {
        let names: Vec<&str> = present.iter().map(|one| one.name).collect();
        return Check::ok("capabilities", names.join(", "));
    }
    let names: Vec<String> = missing
        .iter()
        .map(|one| format!("no {} ({})", one.name, one.links))
        .collect();
    Check::fail(
        "capabilities",
        names.join(", "),
        "run as root, or 'setcap cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock+ep' on the program; shm:PATH needs none",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_namespace_has_all_users() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
    }
}
