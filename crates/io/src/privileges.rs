//! The capabilities that opening a link takes, and those that it is better with (capabilities(7)).

use rustix::thread::CapabilitySet;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// As a set.
    pub set: CapabilitySet,
    /// Its name.
    pub name: &'static str,
    /// The links that cannot be opened without it; empty: all can.
    pub links: &'static str,
}

const fn privilege(set: CapabilitySet, name: &'static str, links: &'static str) -> Privilege {
    Privilege { set, name, links }
}

/// All of them.
pub const PRIVILEGES: [Privilege; 5] = [
    privilege(CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN", "AF_XDP and TAP"),
    privilege(
        CapabilitySet::NET_RAW,
        "CAP_NET_RAW",
        "AF_XDP and AF_PACKET",
    ),
    privilege(CapabilitySet::BPF, "CAP_BPF", "AF_XDP"),
    // Programs in traffic control, which compare pointers.
    privilege(CapabilitySet::PERFMON, "CAP_PERFMON", ""),
    // All frames, whatever the limit on locked memory.
    privilege(CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK", ""),
];

/// What some link cannot be opened without.
pub const NEEDED: CapabilitySet = union(true);

/// The same, and what links are better with.
pub const USEFUL: CapabilitySet = union(false);

const fn union(only_needed: bool) -> CapabilitySet {
    let mut all = CapabilitySet::empty();
    let mut at = 0;
    while at < PRIVILEGES.len() {
        if !only_needed || !PRIVILEGES[at].links.is_empty() {
            all = all.union(PRIVILEGES[at].set);
        }
        at += 1;
    }
    all
}

/// Whether who has these may do what `one` allows: CAP_SYS_ADMIN stands for those that were cut out
/// of it (Linux 5.8).
pub fn allows(own: CapabilitySet, one: CapabilitySet) -> bool {
    let of_admin = CapabilitySet::BPF | CapabilitySet::PERFMON;
    own.contains(one) || of_admin.contains(one) && own.contains(CapabilitySet::SYS_ADMIN)
}

/// What this thread may do now.
pub fn own() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrator_of_the_system_may_load_programs() {
        let admin = CapabilitySet::SYS_ADMIN;
        assert!(allows(admin, CapabilitySet::BPF) && allows(admin, CapabilitySet::PERFMON));
        assert!(!allows(admin, CapabilitySet::NET_ADMIN));
        assert!(allows(CapabilitySet::BPF, CapabilitySet::BPF));
    }

    #[test]
    fn what_is_needed_is_useful() {
        assert!(USEFUL.contains(NEEDED) && USEFUL != NEEDED);
        assert_eq!(NEEDED.bits(), 1 << 12 | 1 << 13 | 1 << 39);
        assert_eq!(USEFUL.bits(), NEEDED.bits() | 1 << 14 | 1 << 38);
    }
}
