//! Which local addresses the sockets of a context have taken with `bind`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::SocketId;

/// One binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) socket: SocketId,
    pub(crate) addr: IpAddr,
    pub(crate) only_v6: bool,
    pub(crate) reuse_addr: bool,
    pub(crate) reuse_port: bool,
    pub(crate) listening: bool,
}

/// All bindings, by port.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    ports: HashMap<u16, Vec<Binding>>,
    /// First and last port that `bind` picks from.
    range: (u16, u16),
    /// Where the search for a free port goes on.
    next: u16,
}

impl Bindings {
    /// Starts looking for free ports, from the first to the last of `range`, at `seed`.
    pub(crate) fn new(range: (u16, u16), seed: u16) -> Self {
        let (first, last) = range;
        let others = last.saturating_sub(first);
        Self {
            ports: HashMap::new(),
            range,
            next: first + others.checked_add(1).map_or(seed, |count| seed % count),
        }
    }

    /// Whether `new` may have `port` beside those that have it.
    pub(crate) fn allows(&self, port: u16, new: &Binding) -> bool {
        let others = self.ports.get(&port).map_or(&[][..], Vec::as_slice);
        others
            .iter()
            .filter(|other| other.socket != new.socket)
            .all(|other| {
                !overlap(other, new)
                    || (other.reuse_port && new.reuse_port)
                    || (other.reuse_addr && new.reuse_addr && !other.listening)
            })
    }

    /// Takes `port`, or with 0 a free one. `None`: in use.
    pub(crate) fn take(&mut self, port: u16, new: Binding) -> Option<u16> {
        let port = if port == 0 { self.free_port()? } else { port };
        if !self.allows(port, &new) {
            return None;
        }
        let holders = self.ports.entry(port).or_default();
        holders.retain(|other| other.socket != new.socket);
        holders.push(new);
        Some(port)
    }

    /// The socket shares what it has at `local` otherwise from now on: as on Linux, what counts is
    /// what both say when the second comes.
    pub(crate) fn share(
        &mut self,
        local: SocketAddr,
        socket: SocketId,
        (reuse_addr, reuse_port): (bool, bool),
    ) {
        let holders = self.ports.get_mut(&local.port()).into_iter().flatten();
        for binding in holders.filter(|binding| binding.socket == socket) {
            (binding.reuse_addr, binding.reuse_port) = (reuse_addr, reuse_port);
        }
    }

    /// A port that nobody has at all.
    fn free_port(&mut self) -> Option<u16> {
        let (first, last) = self.range;
        for _ in first..=last {
            let port = self.next;
            self.next = if port >= last { first } else { port + 1 };
            if !self.ports.contains_key(&port) {
                return Some(port);
            }
        }
        None
    }

    /// Gives back what `socket` has at `local`.
    pub(crate) fn release(&mut self, local: SocketAddr, socket: SocketId) {
        if let Some(holders) = self.ports.get_mut(&local.port()) {
            holders.retain(|binding| binding.socket != socket);
            if holders.is_empty() {
                self.ports.remove(&local.port());
            }
        }
    }
}

/// Whether one packet could be meant for both.
fn overlap(a: &Binding, b: &Binding) -> bool {
    let takes_all = |binding: &Binding, other: &Binding| {
        binding.addr.is_unspecified()
            && (binding.addr.is_ipv4() == other.addr.is_ipv4()
                || (binding.addr.is_ipv6() && !binding.only_v6))
    };
    a.addr == b.addr || takes_all(a, b) || takes_all(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u16 = 32_768;
    const LAST: u16 = 60_999;

    fn binding(socket: u32, addr: &str) -> Binding {
        Binding {
            socket: SocketId(socket),
            addr: addr.parse().unwrap(),
            only_v6: false,
            reuse_addr: false,
            reuse_port: false,
            listening: false,
        }
    }

    #[test]
    fn a_wildcard_overlaps_every_address_of_its_family() {
        let mut bindings = Bindings::new((FIRST, LAST), 0);
        assert_eq!(bindings.take(80, binding(0, "0.0.0.0")), Some(80));
        assert_eq!(bindings.take(80, binding(1, "10.0.0.1")), None);
        assert_eq!(bindings.take(80, binding(1, "fd00::1")), Some(80));
        assert_eq!(bindings.take(80, binding(2, "::")), None);
        assert_eq!(
            bindings.take(
                80,
                Binding {
                    only_v6: true,
                    ..binding(2, "::")
                }
            ),
            None
        );
        bindings.release("[fd00::1]:80".parse().unwrap(), SocketId(1));
        assert_eq!(
            bindings.take(
                80,
                Binding {
                    only_v6: true,
                    ..binding(2, "::")
                }
            ),
            Some(80)
        );
    }

    #[test]
    fn two_addresses_share_a_port() {
        let mut bindings = Bindings::new((FIRST, LAST), 0);
        assert_eq!(bindings.take(80, binding(0, "10.0.0.1")), Some(80));
        assert_eq!(bindings.take(80, binding(1, "10.0.0.2")), Some(80));
        assert_eq!(bindings.take(80, binding(2, "10.0.0.2")), None);
    }

    #[test]
    fn reuse_needs_both_sides_and_no_other_listener() {
        let reuse = |socket| Binding {
            reuse_addr: true,
            ..binding(socket, "0.0.0.0")
        };
        let listens = |socket| Binding {
            listening: true,
            ..reuse(socket)
        };
        let mut bindings = Bindings::new((FIRST, LAST), 0);
        assert_eq!(bindings.take(80, reuse(0)), Some(80));
        assert_eq!(bindings.take(80, binding(1, "0.0.0.0")), None);
        assert_eq!(bindings.take(80, reuse(1)), Some(80));
        // As on Linux, one that is bound beside it does not keep a socket from listening, one that
        // listens does.
        assert_eq!(bindings.take(80, listens(0)), Some(80));
        assert_eq!(bindings.take(80, listens(1)), None);
        assert_eq!(bindings.take(80, reuse(2)), None);
    }

    #[test]
    fn what_is_said_after_the_bind_counts() {
        let any = "0.0.0.0:80".parse().unwrap();
        let reuse = Binding {
            reuse_addr: true,
            ..binding(1, "0.0.0.0")
        };
        let mut bindings = Bindings::new((FIRST, LAST), 0);
        assert_eq!(bindings.take(80, binding(0, "0.0.0.0")), Some(80));
        assert_eq!(bindings.take(80, reuse), None);
        bindings.share(any, SocketId(0), (true, false));
        assert_eq!(bindings.take(80, reuse), Some(80));
        bindings.share(any, SocketId(0), (false, false));
        let third = Binding {
            socket: SocketId(2),
            ..reuse
        };
        assert_eq!(bindings.take(80, third), None);
    }

    #[test]
    fn reuse_port_shares_listeners() {
        let both = |socket| Binding {
            reuse_port: true,
            listening: true,
            ..binding(socket, "0.0.0.0")
        };
        let mut bindings = Bindings::new((FIRST, LAST), 0);
        assert_eq!(bindings.take(80, both(0)), Some(80));
        assert_eq!(bindings.take(80, both(1)), Some(80));
        assert_eq!(
            bindings.take(
                80,
                Binding {
                    listening: true,
                    ..binding(2, "0.0.0.0")
                }
            ),
            None
        );
    }

    #[test]
    fn free_ports_run_out_and_come_back() {
        let mut bindings = Bindings::new((FIRST, LAST), 65_535);
        let count = u32::from(LAST - FIRST) + 1;
        let mut seen = std::collections::HashSet::new();
        for socket in 0..count {
            let port = bindings.take(0, binding(socket, "0.0.0.0")).unwrap();
            assert!((FIRST..=LAST).contains(&port) && seen.insert(port));
        }
        assert_eq!(bindings.take(0, binding(count, "0.0.0.0")), None);
        bindings.release("0.0.0.0:40000".parse().unwrap(), SocketId(40_000));
        let holder = (0..count).find(|&s| {
            bindings.release("0.0.0.0:40000".parse().unwrap(), SocketId(s));
            !bindings.ports.contains_key(&40_000)
        });
        assert!(holder.is_some());
        assert_eq!(bindings.take(0, binding(count, "0.0.0.0")), Some(40_000));
    }
}
