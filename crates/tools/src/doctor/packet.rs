//! What AF_PACKET takes.

use mtcp::privileges::{allows, own};
use rustix::thread::CapabilitySet;

use super::capabilities;
use super::check::Check;
use super::interface;
use super::system;

/// All that is to say about packet sockets on interface `name`.
pub(crate) fn check(name: &str) -> Vec<Check> {
    let mut checks = vec![
        kernel(system::version()),
        capabilities::check(Some("AF_PACKET")),
        behind_tap(),
    ];
    checks.extend(interface::plain(name));
    checks
}

/// Whether the kernel has packet sockets as we use them.
fn kernel(version: Option<(u32, u32)>) -> Check {
    match version {
        Some((major, minor)) if (major, minor) >= (6, 6) => {
            Check::ok("kernel", format!("{major}.{minor}"))
        }
        Some((major, minor)) if (major, minor) >= (4, 20) => Check::warn(
            "kernel",
            format!(
                "{major}.{minor}: it sees what comes for our addresses, too, and sends it on where it forwards"
            ),
            "keep forwarding off on the interface, or use Linux 6.6 or newer",
        ),
        Some((major, minor)) => Check::fail(
            "kernel",
            format!("{major}.{minor} lacks PACKET_IGNORE_OUTGOING"),
            "use Linux 4.20 or newer, or tap:NAME",
        ),
        None => Check::warn(
            "kernel",
            "its version is not known",
            "AF_PACKET needs Linux 4.20 or newer",
        ),
    }
}

/// Whether the program that keeps the kernel from our frames can be loaded.
fn behind_tap() -> Check {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::PERFMON;
    let what = "program behind the tap";
    if needed.iter().all(|one| allows(own(), one)) {
        return Check::ok(what, "the kernel is kept from what is ours");
    }
    Check::warn(
        what,
        "not without CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON: the kernel sees what is ours, too, and sends it on where it forwards",
        "add cap_net_admin,cap_bpf,cap_perfmon, or keep forwarding off on the interface",
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_kernel_is_new_enough_or_says_what_that_costs() {
        let states = [(4, 19), (4, 20), (6, 5), (6, 6), (7, 0)].map(|version| {
            let Check { state, .. } = kernel(Some(version));
            state
        });
        assert!(matches!(
            states,
            [State::Fail, State::Warn, State::Warn, State::Ok, State::Ok]
        ));
    }
}
