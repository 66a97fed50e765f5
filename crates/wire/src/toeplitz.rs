//! The hash by which devices spread received frames over their queues (receive-side scaling):
//! Toeplitz, as Microsoft's RSS specification ("RSS hashing functions") has it.

/// Bytes of the longest input: two IPv6 addresses and two ports.
pub const LONGEST: usize = 36;
/// Bytes of a key for it: each bit of the input has 32 bits of the key, which begin where it is.
const KEY: usize = LONGEST + 4;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toeplitz([u8; KEY]);

impl Toeplitz {
    /// With the key of a device, as long as it is at least. `None`: it is too short for IPv6.
    pub fn new(key: &[u8]) -> Option<Self> {
        key.first_chunk().copied().map(Self)
    }

    /// The hash of at most [`LONGEST`] bytes: what is behind them does not count.
    pub fn hash(&self, input: &[u8]) -> u32 {
        let mut hash = 0;
        for (at, byte) in input.iter().take(LONGEST).enumerate() {
            let window = self.window(at);
            for bit in 0..8 {
                if byte & 0x80 >> bit != 0 {
                    hash ^= (window << bit >> 32) as u32;
                }
            }
        }
        hash
    }

    /// The 40 bits of the key that the byte at `at` meets, above 24 zeros.
    fn window(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk::<5>());
        let [a, b, c, d, e] = bytes.copied().unwrap_or_default();
        u64::from_be_bytes([a, b, c, d, e, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// That of "Verifying the RSS hash calculation" in Microsoft's documentation, as are the values
    /// below.
    const EXAMPLE: [u8; KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn ipv4_as_published() {
        let hash = Toeplitz::new(&EXAMPLE).unwrap();
        for (from, to, with_ports, without) in [
            (
                ("66.9.149.187", 2794_u16),
                ("161.142.100.80", 1766_u16),
                0x51cc_c178,
                0x323e_8fc2,
            ),
            (
                ("199.92.111.2", 14230),
                ("65.69.140.83", 4739),
                0xc626_b0ea,
                0xd718_262a,
            ),
            (
                ("24.19.198.95", 12898),
                ("12.22.207.184", 38024),
                0x5c2b_394a,
                0xd2d0_a5de,
            ),
        ] {
            let address = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
            let mut input = [address(from.0), address(to.0)].concat();
            assert_eq!(hash.hash(&input), without);
            input.extend(from.1.to_be_bytes());
            input.extend(to.1.to_be_bytes());
            assert_eq!(hash.hash(&input), with_ports);
        }
    }

    #[test]
    fn ipv6_as_published() {
        let hash = Toeplitz::new(&EXAMPLE).unwrap();
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let mut input = [
            address("3ffe:2501:200:1fff::7"),
            address("3ffe:2501:200:3::1"),
        ]
        .concat();
        assert_eq!(hash.hash(&input), 0x2cc1_8cd5);
        input.extend(2794_u16.to_be_bytes());
        input.extend(1766_u16.to_be_bytes());
        assert_eq!(hash.hash(&input), 0x4020_7d3d);
    }

    #[test]
    fn keys_and_inputs_of_any_length_are_taken() {
        assert_eq!(Toeplitz::new(&EXAMPLE[1..]), None);
        let long = [&EXAMPLE[..], &[7; 12]].concat();
        assert_eq!(Toeplitz::new(&long), Toeplitz::new(&EXAMPLE));
        let hash = Toeplitz::new(&EXAMPLE).unwrap();
        assert_eq!(hash.hash(&[]), 0);
        assert_eq!(hash.hash(&[9; 100]), hash.hash(&[9; LONGEST]));
    }
}
