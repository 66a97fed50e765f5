//! Which capabilities this process has.

use super::check::Check;

/// `(bit, name, what needs it)` of capabilities(7).
const NEEDED: [(u32, &str, &str); 3] = [
    (NET_ADMIN, "CAP_NET_ADMIN", "AF_XDP and TAP"),
    (13, "CAP_NET_RAW", "AF_XDP"),
    (39, "CAP_BPF", "AF_XDP"),
];
const NET_ADMIN: u32 = 12;
const IPC_LOCK: u32 = 14;
const SYS_RESOURCE: u32 = 24;
const PERFMON: u32 = 38;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// The effective set in the text of `/proc/PID/status`.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

fn own() -> u64 {
    effective(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn has(set: u64, bit: u32) -> bool {
    set >> bit & 1 == 1 || ([BPF, PERFMON].contains(&bit) && set >> SYS_ADMIN & 1 == 1)
}

/// Whether this process may configure interfaces.
pub(crate) fn has_net_admin() -> bool {
    has(own(), NET_ADMIN)
}

/// Whether the limit on locked memory does not hold for this process, or can be raised by it.
pub(crate) fn may_lock() -> bool {
    let set = own();
    is_initial(&user_namespace()) && (has(set, IPC_LOCK) || has(set, SYS_RESOURCE))
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
    checks.push(if has(own(), PERFMON) {
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
    let set = own();
    let needed = NEEDED
        .iter()
        .filter(|(_, _, use_of)| uses.is_none_or(|wanted| use_of.contains(wanted)));
    let (present, missing): (Vec<_>, Vec<_>) = needed.partition(|(bit, ..)| has(set, *bit));
    if missing.is_empty() {
        let names: Vec<&str> = present.iter().map(|(_, name, _)| *name).collect();
        return Check::ok("capabilities", names.join(", "));
    }
    let names: Vec<String> = missing
        .iter()
        .map(|(_, name, use_of)| format!("no {name} ({use_of})"))
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
    fn the_effective_set_is_read() {
        assert_eq!(
            effective("Name:\tx\nCapInh:\t0\nCapEff:\t000001ffffffffff\n"),
            0x1ff_ffff_ffff
        );
        assert_eq!(effective("nonsense"), 0);
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(has(1 << SYS_ADMIN, BPF) && !has(1 << SYS_ADMIN, NET_ADMIN));
    }
}
