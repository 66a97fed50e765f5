//! The ways that were found last. Most connections are from few hosts, and each asks three times:
//! for its SYN, for the answer to it, and for its control block. Most connections that we open are
//! to few hosts.

use crate::flow::FlowKey;

use super::path::Path;

/// Places, by both addresses: one host may talk with several addresses of ours.
const PLACES: usize = 16;

/// See the module. Nothing that a path says ever changes.
#[derive(Debug)]
pub(super) struct Ways {
    places: [(FlowKey, Path); PLACES],
}

impl Ways {
    pub const fn new() -> Self {
        Self {
            places: [(FlowKey::NONE, Path::NOWHERE); PLACES],
        }
    }

    /// Whether the way from the local to the remote host of `key` was [put](Self::put) here and no
    /// other in its place.
    #[inline]
    pub fn has(&self, key: &FlowKey) -> bool {
        let (known, path) = &self.places[place(key)];
        // An empty place is the way of a key without addresses, which what others wrote may have.
        known.has_hosts_of(key) && path.mtu > 0
    }

    /// The way of `key`, if it [has](Self::has) one.
    #[inline]
    pub fn at(&self, key: &FlowKey) -> &Path {
        &self.places[place(key)].1
    }

    pub fn put(&mut self, key: &FlowKey, path: &Path) {
        self.places[place(key)] = (*key, *path);
    }
}

#[inline]
fn place(key: &FlowKey) -> usize {
    usize::from(key.host_ends()) % PLACES
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn key(local: [u8; 4], remote: [u8; 4], port: u16) -> FlowKey {
        FlowKey::new(
            SocketAddr::from((local, 80)),
            SocketAddr::from((remote, port)),
        )
    }

    fn path(key: &FlowKey, mtu: u16) -> Path {
        Path {
            src: key.local().ip(),
            next_hop: key.remote().ip(),
            mtu,
            ..Path::NOWHERE
        }
    }

    fn find<'a>(ways: &'a Ways, key: &FlowKey) -> Option<&'a Path> {
        ways.has(key).then(|| ways.at(key))
    }

    #[test]
    fn one_host_may_use_several_of_our_addresses() {
        let mut ways = Ways::new();
        let keys: Vec<FlowKey> = (1..5)
            .map(|n| key([10, 0, 0, n], [10, 0, 0, 9], 1))
            .collect();
        for key in &keys {
            ways.put(key, &path(key, 1500));
        }
        assert!(keys.iter().all(|key| ways.has(key)));
    }

    #[test]
    fn nobody_has_a_way_at_first() {
        let ways = Ways::new();
        assert!(!ways.has(&key([10, 0, 0, 1], [10, 0, 0, 9], 1)));
        assert!(!ways.has(&FlowKey::NONE));
    }

    #[test]
    fn a_way_is_that_of_two_hosts_whatever_their_ports() {
        let mut ways = Ways::new();
        let known = key([10, 0, 0, 1], [10, 0, 0, 2], 1);
        ways.put(&known, &path(&known, 1500));
        let again = key([10, 0, 0, 1], [10, 0, 0, 2], 2);
        assert_eq!(find(&ways, &again), Some(&path(&known, 1500)));
        let from_elsewhere = key([10, 0, 0, 3], [10, 0, 0, 2], 1);
        assert_eq!(find(&ways, &from_elsewhere), None);
        // In the same place.
        let to_elsewhere = key([10, 0, 0, 1], [10, 0, 0, 18], 1);
        assert_eq!(find(&ways, &to_elsewhere), None);
        ways.put(&to_elsewhere, &path(&to_elsewhere, 1400));
        assert_eq!(find(&ways, &to_elsewhere).map(|path| path.mtu), Some(1400));
        assert_eq!(find(&ways, &known), None);
    }
}
