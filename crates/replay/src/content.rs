//! What a chunk expands to: bytes that depend on its name alone.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

/// Bytes of a chunk; the last one of a response may be shorter.
pub const CHUNK: usize = 4096;

/// Chunks of a response of `bytes`.
#[must_use]
pub fn chunks(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK as u64)
}

/// Fills `out`, at most [`CHUNK`] bytes, with the beginning of the content of the chunk with this
/// seed ([`Chunk::seed`](crate::Chunk::seed)).
pub fn expand(seed: u64, out: &mut [u8]) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // `fill_bytes` takes fewer bits for a last piece of four bytes: a beginning would not be one.
    let mut words = out.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&random.next_u64().to_le_bytes()[..rest.len()]);
}

/// Appends the content of a response from `offset` on to `out`, at most `limit` bytes; `seeds` are
/// those of all its chunks, `total` its length.
pub fn append(seeds: &[u64], total: u64, offset: u64, limit: usize, out: &mut Vec<u8>) {
    let end = total.min(offset.saturating_add(limit as u64));
    let mut at = offset;
    while at < end {
        let (index, from) = position(at);
        let Some(seed) = seeds.get(index) else { return };
        let to = CHUNK.min(from + (end - at) as usize);
        let start = out.len();
        // The generator has no random access: what is in front of `from` is made and thrown away.
        out.resize(start + to, 0);
        expand(*seed, &mut out[start..]);
        out.drain(start..start + from);
        at += (to - from) as u64;
    }
}

/// Compares what arrived at `offset` of a response with what its chunks expand to: the offset of
/// the first byte that differs, if there is one. `scratch` has [`CHUNK`] bytes.
pub fn compare(seeds: &[u64], offset: u64, mut arrived: &[u8], scratch: &mut [u8]) -> Option<u64> {
    let mut at = offset;
    while !arrived.is_empty() {
        let (index, from) = position(at);
        let Some(seed) = seeds.get(index) else {
            return Some(at);
        };
        let to = CHUNK.min(from + arrived.len());
        let (now, rest) = arrived.split_at(to - from);
        expand(*seed, &mut scratch[..to]);
        if scratch[from..to] != *now {
            let equal = now.iter().zip(&scratch[from..to]);
            return Some(at + equal.take_while(|(left, right)| left == right).count() as u64);
        }
        at += now.len() as u64;
        arrived = rest;
    }
    None
}

/// The chunk at an offset, and how far into it that is.
fn position(offset: u64) -> (usize, usize) {
    let chunk = CHUNK as u64;
    ((offset / chunk) as usize, (offset % chunk) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: [u64; 3] = [1, 2, 1];
    const TOTAL: u64 = 2 * 4096 + 100;

    fn whole() -> Vec<u8> {
        let mut out = Vec::new();
        append(&SEEDS, TOTAL, 0, usize::MAX, &mut out);
        out
    }

    #[test]
    fn equal_names_have_equal_content() {
        let content = whole();
        assert_eq!(content.len() as u64, TOTAL);
        assert_eq!(content[..100], content[8192..]);
        assert_ne!(content[..100], content[4096..4196]);
    }

    #[test]
    fn every_piece_is_that_of_the_whole() {
        let content = whole();
        for offset in [0, 1, 4095, 4096, 5000, 8191, 8192, 8291, 8292, 9000] {
            for limit in [0, 1, 100, 4096, 5000, 9000] {
                let mut out = b"before".to_vec();
                append(&SEEDS, TOTAL, offset, limit, &mut out);
                let from = content.len().min(offset as usize);
                let to = content.len().min(offset as usize + limit);
                assert_eq!(out[6..], content[from..to], "{offset} {limit}");
            }
        }
    }

    #[test]
    fn a_byte_that_differs_is_found_wherever_it_is() {
        let content = whole();
        let mut scratch = [0; CHUNK];
        for offset in [0, 1, 4095, 4096, 8192] {
            let arrived = &content[offset as usize..];
            assert_eq!(compare(&SEEDS, offset, arrived, &mut scratch), None);
            for wrong in [0, arrived.len() / 2, arrived.len() - 1] {
                let mut arrived = arrived.to_vec();
                arrived[wrong] ^= 1;
                let found = compare(&SEEDS, offset, &arrived, &mut scratch);
                assert_eq!(found, Some(offset + wrong as u64));
            }
        }
        let long = vec![0; 5000];
        assert_eq!(compare(&[], 0, &long, &mut scratch), Some(0));
    }

    #[test]
    fn content_is_the_same_for_ever() {
        // Both ends of a replay may be of different versions.
        let mut out = [0; 8];
        expand(7, &mut out);
        assert_eq!(u64::from_le_bytes(out), 0x0e2c_1a00_2aae_913d_u64);
    }
}
