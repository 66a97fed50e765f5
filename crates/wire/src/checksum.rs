//! The Internet checksum
//! (RFC 1071), its incremental update (RFC 1624) and pseudo-headers (RFC 9293 §3.1, RFC 8200 §8.1).
//!
//! A *sum* here is the folded one's complement sum of big-endian 16-bit words, not inverted. A
//! *checksum* is its inverse, which is what a header holds. All functions work on values;
//! `to_be_bytes` puts a checksum into a header.

use std::net::IpAddr;

use crate::ip::Protocol;

mod wide;

use wide::STEP;

/// Folds the carries of a wide sum of 16-bit words back into 16 bits.
pub const fn fold(sum: u64) -> u16 {
    // Each half is added to the other, and the carry out of the lower sum is what the upper one
    // gets around its end.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// One's complement sum of `bytes`; an odd last byte counts as the high half of a word.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // RFC 1071 §2(B): the sum does not depend on byte order, so sum native words and swap once at
    // the end.
    if bytes.len() < STEP {
        return u16::from_be(fold(sum_short(bytes)));
    }
    let (steps, rest) = bytes.as_chunks::<STEP>();
    u16::from_be(fold(wide::sum(steps) + sum_short(rest)))
}

/// The sum of a header of exactly 20 bytes: an IPv4 header without options, which every packet has.
#[inline]
pub fn sum_20(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let total = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    u16::from_be(fold(total))
}

/// The native-endian sum of fewer than [`STEP`] bytes.
#[inline]
fn sum_short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total = 0u64;
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    total + u64::from(u32::from_ne_bytes(last))
}

/// One's complement sum of two sums.
pub const fn add(a: u16, b: u16) -> u16 {
    fold(a as u64 + b as u64)
}

/// The sum of two adjacent pieces, of which the first is `first_len` bytes long: behind an odd
/// number of bytes the second piece's words lie across word boundaries, so its sum is byte-swapped
/// (RFC 1071 §2(A)).
pub const fn combine(first: u16, first_len: usize, second: u16) -> u16 {
    if first_len.is_multiple_of(2) {
        add(first, second)
    } else {
        add(first, second.swap_bytes())
    }
}

/// The checksum of `bytes` for headers without a pseudo-header (IPv4, ICMPv4), the checksum field
/// in `bytes` being 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Whether `bytes`, checksum field included, sum to all ones.
pub fn verify(bytes: &[u8]) -> bool {
    sum(bytes) == 0xffff
}

/// The new checksum when a word that it covers changes from `old` to `new` (RFC 1624 §3, equation
/// 3).
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// The new checksum when an aligned 32-bit field that it covers changes from `old` to `new`.
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let checksum = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update(checksum, old as u16, new as u16)
}

/// Sum of the pseudo-header of a segment of `len` bytes. If the address families differ, both are
/// summed as they are.
#[inline]
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: Protocol, len: u32) -> u16 {
    fold(
        address_sum(src)
            + address_sum(dst)
            + u64::from(len >> 16)
            + u64::from(len & 0xffff)
            + u64::from(protocol.0),
    )
}

#[inline]
fn address_sum(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            let (high, low) = ((bits >> 64) as u64, bits as u64);
            (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
        }
    }
}

/// The checksum of a transport segment whose checksum field is 0.
#[inline]
pub fn transport_checksum(src: IpAddr, dst: IpAddr, protocol: Protocol, segment: &[u8]) -> u16 {
    !add(
        pseudo_header(src, dst, protocol, segment.len() as u32),
        sum(segment),
    )
}

/// Whether the checksum in a transport segment is right.
/// RFC 8200 §8.1-1.
#[inline]
pub fn verify_transport(src: IpAddr, dst: IpAddr, protocol: Protocol, segment: &[u8]) -> bool {
    transport_checksum(src, dst, protocol, segment) == 0
}

#[cfg(test)]
mod tests;
