//! What is known of the paths to hosts (RFC 1191 §3, RFC 8201 §4): the largest packet that gets
//! through, for as long as that is believed.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip::SipHasher13;
use wire::time::Instant;

/// Hosts that are remembered at most. One that falls on the place of another takes it: what is
/// forgotten is found out again.
const PLACES: usize = 1024;
/// RFC 1191 §6.3, RFC 8201 §4: how long after a decrease a larger packet may be tried.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// How long what got through says that others do, too.
const PROOF: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Entry {
    dst: IpAddr,
    known: PathMtu,
}

/// What is known of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// When to forget it.
    pub until: Instant,
}

/// A table of fixed size, keyed so that nobody can choose whose place to take.
#[derive(Debug)]
pub struct PathMtus {
    entries: Vec<Option<Entry>>,
    /// The largest packets that got through of late.
    proofs: Vec<Option<Entry>>,
    hasher: SipHasher13,
    /// Nothing was ever learnt: the common case.
    empty: bool,
}

impl PathMtus {
    pub fn new(secret: &[u8; 32]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&secret[16..]);
        Self {
            entries: vec![None; PLACES],
            proofs: vec![None; PLACES],
            hasher: SipHasher13::new_with_key(&key),
            empty: true,
        }
    }

    fn place(&self, dst: IpAddr) -> usize {
        let mut hasher = self.hasher;
        dst.hash(&mut hasher);
        hasher.finish() as usize % PLACES
    }

    /// Whether nothing was ever learnt: then no path has a size that is known.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.empty
    }

    /// What is known of the path to `dst`.
    pub fn find(&self, now: Instant, dst: IpAddr) -> Option<PathMtu> {
        if self.empty {
            return None;
        }
        let entry = self.entries.get(self.place(dst)).copied().flatten()?;
        (entry.dst == dst && now < entry.known.until).then_some(entry.known)
    }

    /// A packet of `mtu` bytes has got through to `dst`.
    pub fn prove(&mut self, now: Instant, dst: IpAddr, mtu: u16) {
        if self.proven(now, dst).is_some_and(|proven| proven > mtu) {
            return;
        }
        let place = self.place(dst);
        let until = now + PROOF;
        let known = PathMtu { mtu, until };
        if let Some(entry) = self.proofs.get_mut(place) {
            *entry = Some(Entry { dst, known });
        }
    }

    /// The largest packet, bytes, that has got through to `dst` of late.
    pub fn proven(&self, now: Instant, dst: IpAddr) -> Option<u16> {
        let entry = self.proofs.get(self.place(dst)).copied().flatten()?;
        (entry.dst == dst && now < entry.known.until).then_some(entry.known.mtu)
    }

    /// Packets of `mtu` bytes get through to `dst`, and larger ones do not or have not been tried.
    pub fn learn(&mut self, now: Instant, dst: IpAddr, mtu: u16) {
        let place = self.place(dst);
        let until = now + LIFETIME;
        let known = PathMtu { mtu, until };
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = Some(Entry { dst, known });
            self.empty = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn is_forgotten_after_ten_minutes() {
        let mut paths = PathMtus::new(&[1; 32]);
        let dst = IpAddr::from([192, 0, 2, 1]);
        let start = Instant::from_millis(5000);
        assert_eq!(paths.find(start, dst), None);
        paths.learn(start, dst, 1400);
        let known = paths.find(start + Duration::from_secs(599), dst);
        assert_eq!(known.map(|known| known.mtu), Some(1400));
        assert_eq!(paths.find(start + LIFETIME, dst), None);
        assert_eq!(paths.find(start, IpAddr::from([192, 0, 2, 2])), None);
    }

    #[test]
    fn the_largest_that_got_through_counts_for_a_minute() {
        let mut paths = PathMtus::new(&[1; 32]);
        let dst = IpAddr::from([192, 0, 2, 1]);
        let start = Instant::from_millis(5000);
        assert_eq!(paths.proven(start, dst), None);
        paths.prove(start, dst, 1500);
        paths.prove(start + Duration::from_secs(1), dst, 1280);
        assert_eq!(
            paths.proven(start + Duration::from_secs(59), dst),
            Some(1500)
        );
        assert_eq!(paths.proven(start + PROOF, dst), None);
        paths.prove(start + PROOF, dst, 1280);
        assert_eq!(paths.proven(start + PROOF, dst), Some(1280));
        assert_eq!(paths.proven(start, IpAddr::from([192, 0, 2, 2])), None);
        assert_eq!(paths.find(start, dst), None);
    }

    #[test]
    fn holds_no_more_than_it_has_room_for() {
        let mut paths = PathMtus::new(&[1; 32]);
        let start = Instant::from_millis(5000);
        for n in 0..100_000 {
            paths.learn(start, IpAddr::V4(Ipv4Addr::from_bits(n)), 1400);
            paths.prove(start, IpAddr::V4(Ipv4Addr::from_bits(n)), 1500);
            paths.learn(start, IpAddr::V6(Ipv6Addr::from_bits(u128::from(n))), 1300);
        }
        assert_eq!((paths.entries.len(), paths.proofs.len()), (PLACES, PLACES));
        // The last one always has its place, and what is found belongs to who is asked for.
        let last = IpAddr::V6(Ipv6Addr::from_bits(99_999));
        assert_eq!(paths.find(start, last).map(|known| known.mtu), Some(1300));
    }
}
