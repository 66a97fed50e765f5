//! Ephemeral ports, hard to guess and far from their last use: the double-hash algorithm of
//! RFC 6056 §3.3.4.

use std::fmt;

use siphasher::sip::SipHasher13;

use crate::flow::FlowKey;

/// RFC 6056 §3.3.4 recommends a table of counters rather than one, so that connections to different
/// destinations do not reveal how many are made to others.
const COUNTERS: usize = 1024;
/// Destinations that are remembered, by the ends of their addresses and ports.
const RECENT: usize = 16;

/// Chooses the local port of a connection.
pub struct EphemeralPorts {
    first: u16,
    count: u32,
    hasher: SipHasher13,
    counters: Box<[u32; COUNTERS]>,
    /// What connections went to last: most go to few hosts.
    recent: Box<[Option<Towards>; RECENT]>,
}

/// F and G of RFC 6056 §3.3.4 for a destination.
#[derive(Clone, Copy)]
struct Towards {
    /// With the local port 0.
    ends: FlowKey,
    /// Where the ports start, counted from the first.
    offset: u32,
    /// Which counter it uses.
    counter: usize,
}

impl fmt::Debug for EphemeralPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("EphemeralPorts")
            .field("first", &self.first)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl EphemeralPorts {
    /// How far each counter is.
    pub fn counters(&self) -> Vec<u32> {
        self.counters.to_vec()
    }

    /// Goes on from where the counters of another process were.
    pub fn set_counters(&mut self, counters: &[u32]) {
        for (counter, &value) in self.counters.iter_mut().zip(counters) {
            *counter = value % self.count;
        }
    }

    /// Ports `range.0..=range.1` (in either order), port 0 left out.
    pub fn new(range: (u16, u16), secret: &[u8; 32]) -> Self {
        let first = range.0.min(range.1).max(1);
        let last = range.0.max(range.1).max(1);
        let mut key = [0; 16];
        key.copy_from_slice(&secret[16..]);
        Self {
            first,
            count: u32::from(last - first) + 1,
            hasher: SipHasher13::new_with_key(&key),
            counters: Box::new([0; COUNTERS]),
            recent: Box::new([None; RECENT]),
        }
    }

    /// A local port for `ends`, which have none: one that `is_free`. Asks about each port at most
    /// once, so that the whole range can be used towards every destination; `None` when all are
    /// taken. RFC 6056 §3.2-1, §3.3-1, §3.3-2.
    pub fn pick(&mut self, ends: &FlowKey, mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
        let Towards {
            offset, counter, ..
        } = self.towards(ends);
        for _ in 0..self.count {
            // All three are less than 65,536.
            let next = self.counters[counter];
            self.counters[counter] = self.wrapped(next + 1);
            let port = self.first + self.wrapped(offset + next) as u16;
            if is_free(port) {
                return Some(port);
            }
        }
        None
    }

    /// What is less than twice the number of ports, modulo that number: without a division.
    fn wrapped(&self, number: u32) -> u32 {
        if number < self.count {
            number
        } else {
            number - self.count
        }
    }

    fn towards(&mut self, ends: &FlowKey) -> Towards {
        let place = (usize::from(ends.host_ends()) ^ usize::from(ends.remote().port())) % RECENT;
        let known = self.recent[place].filter(|known| known.ends == *ends);
        known.unwrap_or_else(|| *self.recent[place].insert(self.hashed(ends)))
    }

    /// Different bits of one keyed hash are as good as two.
    #[inline(never)]
    fn hashed(&self, ends: &FlowKey) -> Towards {
        let mut input = [0; 37];
        // Unlike any other use of this key: the first byte is the domain.
        input[0] = b'F';
        input[1..].copy_from_slice(&ends.bytes());
        let hash = self.hasher.hash(&input);
        let counters = COUNTERS as u64;
        Towards {
            ends: *ends,
            offset: (hash / counters % u64::from(self.count)) as u32,
            counter: (hash % counters) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn between(local: &str, remote: &str) -> FlowKey {
        FlowKey::new(local.parse().unwrap(), remote.parse().unwrap())
    }

    fn to(port: u16) -> FlowKey {
        between("192.0.2.1:0", &format!("198.51.100.1:{port}"))
    }

    /// RFC 6056 §3.2-1.
    #[test]
    fn every_port_of_the_range_is_used_before_one_is_refused() {
        let mut ports = EphemeralPorts::new((40_000, 40_099), &[7; 32]);
        let mut used = BTreeSet::new();
        while let Some(port) = ports.pick(&to(80), |port| !used.contains(&port)) {
            assert!(used.insert(port));
        }
        assert!(used.iter().copied().eq(40_000..=40_099));
        assert_eq!(ports.pick(&to(80), |port| port == 40_042), Some(40_042));
    }

    /// RFC 6056 §3.3-2.
    #[test]
    fn successive_ports_to_one_destination_do_not_repeat_soon() {
        let mut ports = EphemeralPorts::new((32_768, 60_999), &[7; 32]);
        let picked: BTreeSet<_> = (0..28_232)
            .filter_map(|_| ports.pick(&to(80), |_| true))
            .collect();
        assert_eq!(picked.len(), 28_232);
    }

    #[test]
    fn a_destination_goes_on_where_it_was_after_others() {
        let (mut ports, mut alone) = (
            EphemeralPorts::new((1024, 65_535), &[7; 32]),
            EphemeralPorts::new((1024, 65_535), &[7; 32]),
        );
        let others = [
            to(81),
            between("192.0.2.2:0", "198.51.100.1:80"),
            between("192.0.2.1:0", "198.51.100.2:80"),
        ];
        for _ in 0..20 {
            let port = ports.pick(&to(80), |_| true);
            assert_eq!(port, alone.pick(&to(80), |_| true));
            for other in others {
                let port = ports.pick(&other, |_| true).unwrap();
                let mut fresh = EphemeralPorts::new((1024, 65_535), &[7; 32]);
                let first = fresh.pick(&other, |_| true).unwrap();
                assert!((first..first + 20).contains(&port));
            }
        }
    }

    /// RFC 6056 §3.3-1.
    #[test]
    fn destinations_and_secrets_start_at_different_places() {
        let starts = |secret: u8| -> Vec<_> {
            (1..=50)
                .map(|port| {
                    EphemeralPorts::new((1024, 65_535), &[secret; 32])
                        .pick(&to(port), |_| true)
                        .unwrap()
                })
                .collect()
        };
        assert!(starts(1).iter().collect::<BTreeSet<_>>().len() > 45);
        assert_ne!(starts(1), starts(2));
    }

    #[test]
    fn extreme_ranges_work() {
        assert_eq!(
            EphemeralPorts::new((0, 0), &[0; 32]).pick(&to(1), |_| true),
            Some(1)
        );
        assert_eq!(
            EphemeralPorts::new((5, 5), &[0; 32]).pick(&to(1), |_| true),
            Some(5)
        );
        let mut all = EphemeralPorts::new((65_535, 0), &[0; 32]);
        assert_eq!(all.pick(&to(1), |port| port == 65_535), Some(65_535));
        assert_eq!(all.pick(&to(1), |_| false), None);
    }
}
