use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Word by word, as RFC 1071 §1 says it.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Equal as one's complement numbers: 0 and 0xffff are the same.
fn same(a: u16, b: u16) -> bool {
    a == b || (a == 0 && b == 0xffff) || (a == 0xffff && b == 0)
}

/// RFC 1071 §3.
#[test]
fn rfc_1071_example() {
    assert_eq!(
        sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        0xddf2
    );
}

/// RFC 1624 §4: the case that RFC 1141 got wrong.
#[test]
fn rfc_1624_example() {
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_known_ipv4_header() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    assert!(verify(&header));
    let mut zeroed = header;
    zeroed[10..12].fill(0);
    assert_eq!(checksum(&zeroed), 0xb861);
}

#[test]
fn the_sum_of_nothing_and_of_all_ones() {
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[0xff; 65_535]), naive(&[0xff; 65_535]));
    assert_eq!(sum(&vec![0xff; 1 << 20]), 0xffff);
}

proptest! {
    /// One's complement addition is addition modulo 65535, of whose two zeros only nothing but
    /// zeros has the one without bits.
    #[test]
    fn folding_keeps_the_remainder(sum in any::<u64>()) {
        for sum in [sum, sum >> 16, sum >> 31, sum >> 48, u64::MAX - (sum >> 60), sum / 0xffff * 0xffff] {
            let wanted = match sum % 0xffff {
                0 if sum > 0 => 0xffff,
                remainder => remainder as u16,
            };
            prop_assert_eq!(fold(sum), wanted);
        }
    }

    #[test]
    fn sum_is_the_naive_sum(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        prop_assert_eq!(sum(&bytes), naive(&bytes));
    }

    #[test]
    fn sum_20_is_the_naive_sum(header in any::<[u8; 20]>()) {
        prop_assert_eq!(sum_20(&header), naive(&header));
    }

    #[test]
    fn pieces_combine_at_any_split(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
        let at = at.min(bytes.len());
        let (first, second) = bytes.split_at(at);
        prop_assert_eq!(combine(sum(first), at, sum(second)), naive(&bytes));
    }

    #[test]
    fn update_is_recomputing(
        mut bytes in proptest::collection::vec(any::<u8>(), 4..200),
        at in 0usize..100,
        new in any::<u16>(),
        new32 in any::<u32>(),
    ) {
        let at = (at % (bytes.len() / 2)) * 2;
        let before = checksum(&bytes);
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert!(same(update(before, old, new), checksum(&bytes)));

        let before = checksum(&bytes);
        let old = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes[..4].copy_from_slice(&new32.to_be_bytes());
        prop_assert!(same(update_u32(before, old, new32), checksum(&bytes)));
    }

    #[test]
    fn v4_pseudo_header_is_that_of_rfc_9293(src in any::<Ipv4Addr>(), dst in any::<Ipv4Addr>(), len in any::<u16>()) {
        let [l0, l1] = len.to_be_bytes();
        let bytes = [&src.octets()[..], &dst.octets(), &[0, 6, l0, l1]].concat();
        let sum = pseudo_header(src.into(), dst.into(), Protocol::TCP, u32::from(len));
        prop_assert_eq!(sum, naive(&bytes));
    }

    #[test]
    fn v6_pseudo_header_is_that_of_rfc_8200(src in any::<Ipv6Addr>(), dst in any::<Ipv6Addr>(), len in any::<u32>()) {
        let tail = [&len.to_be_bytes()[..], &[0, 0, 0, 58]].concat();
        let bytes = [&src.octets()[..], &dst.octets(), &tail].concat();
        let sum = pseudo_header(src.into(), dst.into(), Protocol::ICMPV6, len);
        prop_assert_eq!(sum, naive(&bytes));
    }

    #[test]
    fn a_filled_segment_verifies_and_a_changed_bit_does_not(
        src in any::<Ipv6Addr>(),
        dst in any::<Ipv6Addr>(),
        mut segment in proptest::collection::vec(any::<u8>(), 20..200),
        bit in any::<proptest::sample::Index>(),
    ) {
        segment[16..18].fill(0);
        let sum = transport_checksum(src.into(), dst.into(), Protocol::TCP, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        prop_assert!(verify_transport(src.into(), dst.into(), Protocol::TCP, &segment));
        let bit = bit.index(segment.len() * 8);
        segment[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_transport(src.into(), dst.into(), Protocol::TCP, &segment));
    }
}
