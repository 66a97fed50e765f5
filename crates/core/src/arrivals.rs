//! Which of several stacks a device gives a frame to.

use wire::toeplitz::{LONGEST, Toeplitz};

use crate::flow::FlowKey;

/// How the device that several stacks have a queue of spreads frames of TCP: by a hash of both
/// addresses and both ports, source before destination, which names an entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    hash: Toeplitz,
    /// Of each entry, whether it leads to this stack.
    here: Vec<bool>,
}

impl Arrivals {
    /// With the key of the hash, and of each entry of the table whether it leads to this stack.
    /// `None`: none does, or the key is too short.
    pub fn new(key: &[u8], here: Vec<bool>) -> Option<Self> {
        let hash = Toeplitz::new(key)?;
        here.contains(&true).then_some(Self { hash, here })
    }

    /// Whether segments of this connection come to this stack.
    pub(crate) fn has(&self, key: &FlowKey) -> bool {
        let (input, len) = input(key);
        let hash = self.hash.hash(input.get(..len).unwrap_or_default());
        let entry = hash as usize % self.here.len();
        self.here.get(entry).is_some_and(|here| *here)
    }
}

/// What is hashed of a segment from the other end, and how long that is.
fn input(key: &FlowKey) -> ([u8; LONGEST], usize) {
    let bytes = key.bytes();
    // An IPv4 address is the end of one of IPv6.
    let skipped = if key.is_ipv4() { 12 } else { 0 };
    let (local, remote) = (&bytes[skipped..16], &bytes[16 + skipped..32]);
    let (local_port, remote_port) = (&bytes[32..34], &bytes[34..]);
    let mut input = [0; LONGEST];
    let mut len = 0;
    for byte in [remote, local, remote_port, local_port]
        .into_iter()
        .flatten()
    {
        if let Some(place) = input.get_mut(len) {
            *place = *byte;
            len += 1;
        }
    }
    (input, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(local: &str, remote: &str) -> FlowKey {
        FlowKey::new(local.parse().unwrap(), remote.parse().unwrap())
    }

    /// In the order in which a frame from the other end has them.
    #[test]
    fn the_source_comes_first() {
        let (v4, len) = input(&key("1.2.3.4:258", "5.6.7.8:772"));
        assert_eq!(v4[..len], [5, 6, 7, 8, 1, 2, 3, 4, 3, 4, 1, 2]);
        let (v6, len) = input(&key("[::1]:258", "[::2]:772"));
        assert_eq!(len, LONGEST);
        assert_eq!((v6[15], v6[31]), (2, 1));
        assert_eq!(v6[32..], [3, 4, 1, 2]);
    }

    #[test]
    fn entries_say_whether_they_lead_here() {
        let all = Arrivals::new(&[7; 40], vec![true]).unwrap();
        assert!(all.has(&key("1.2.3.4:258", "5.6.7.8:772")));
        let half = Arrivals::new(&[7; 40], vec![true, false]).unwrap();
        let ports = 1000..2000;
        let here = ports.filter(|port| half.has(&key(&format!("1.2.3.4:{port}"), "5.6.7.8:772")));
        assert!((400..600).contains(&here.count()));
        assert_eq!(Arrivals::new(&[7; 8], vec![true]), None);
        assert_eq!(Arrivals::new(&[7; 40], vec![false]), None);
        assert_eq!(Arrivals::new(&[7; 40], Vec::new()), None);
    }
}
