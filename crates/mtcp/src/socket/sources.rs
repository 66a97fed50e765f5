//! Addresses that connections come from, where several are to take turns.

use std::net::{IpAddr, SocketAddr};

use super::SourceRange;

/// Which source address comes next.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// All of one family; empty: as routes say.
    addresses: Vec<IpAddr>,
    next: usize,
}

impl Sources {
    /// Those of `range` that are among `ours`.
    pub(crate) fn within(range: SourceRange, ours: &[IpAddr]) -> Self {
        let mut addresses: Vec<IpAddr> = ours
            .iter()
            .copied()
            .filter(|&addr| is_within(range, addr))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self { addresses, next: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The next one of the family of `remote`.
    pub(crate) fn next(&mut self, remote: SocketAddr) -> Option<SocketAddr> {
        let place = self.next.checked_rem(self.addresses.len())?;
        let addr = *self.addresses.get(place)?;
        if addr.is_ipv4() != remote.is_ipv4() {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        Some(SocketAddr::new(addr, 0))
    }
}

/// Whether `addr` is one of the `count` addresses from `base` on.
fn is_within(range: SourceRange, addr: IpAddr) -> bool {
    let SourceRange { base, count } = range;
    match (base, addr) {
        (IpAddr::V4(base), IpAddr::V4(addr)) => {
            let place = addr.to_bits().checked_sub(base.to_bits());
            place.is_some_and(|place| place < count)
        }
        (IpAddr::V6(base), IpAddr::V6(addr)) => {
            let place = addr.to_bits().checked_sub(base.to_bits());
            place.is_some_and(|place| place < u128::from(count))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_take_turns() {
        let remote: SocketAddr = "10.0.0.9:80".parse().unwrap();
        let ours = ["10.0.0.4", "fd00::2", "10.0.0.2", "10.0.0.1", "10.0.1.1"];
        let ours = ours.map(|text| text.parse().unwrap());
        let range = |base: &str, count| SourceRange {
            base: base.parse().unwrap(),
            count,
        };
        let mut sources = Sources::within(range("10.0.0.1", 4), &ours);
        let taken: Vec<String> = (0..4)
            .map(|_| sources.next(remote).unwrap().to_string())
            .collect();
        assert_eq!(
            taken,
            ["10.0.0.1:0", "10.0.0.2:0", "10.0.0.4:0", "10.0.0.1:0"]
        );
        assert_eq!(sources.next("[fd00::1]:80".parse().unwrap()), None);
        assert_eq!(Sources::default().next(remote), None);
        // To the end of the address space and beyond.
        let sources = Sources::within(range("fd00::2", u32::MAX), &ours);
        assert_eq!(sources.addresses.len(), 1);
        let sources = Sources::within(range("10.0.0.2", u32::MAX), &ours);
        assert_eq!(sources.addresses.len(), 3);
    }
}
