//! Files to send, whose bytes say where they belong.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Bytes that differ by `seed` and place: a shift, a swap or a repetition of blocks shows.
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let word = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// The first `length` bytes of `seed`.
    pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Self::new(seed).fill(&mut bytes);
        bytes
    }
}

/// Writes `length` bytes of `seed` to a new file.
pub fn make(path: &Path, seed: u64, length: u64) {
    let mut noise = Noise::new(seed);
    let mut out = BufWriter::new(File::create(path).unwrap());
    let mut left = length;
    let mut buffer = vec![0; 64 * 1024];
    while left > 0 {
        let now = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        noise.fill(&mut buffer[..now]);
        out.write_all(&buffer[..now]).unwrap();
        left -= now as u64;
    }
    out.flush().unwrap();
}

/// How two files differ, if they do.
pub fn difference(one: &Path, other: &Path) -> Option<String> {
    let (mut a, mut b) = (open(one), open(other));
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut at = 0;
    loop {
        let (x, y) = (read_full(&mut a, &mut left), read_full(&mut b, &mut right));
        let same = left[..x]
            .iter()
            .zip(&right[..y])
            .take_while(|(x, y)| x == y);
        let same = same.count();
        if same < x.max(y) {
            let lengths = (
                open(one).metadata().unwrap().len(),
                open(other).metadata().unwrap().len(),
            );
            return Some(format!(
                "first difference at byte {} of {} and {}",
                at + same,
                lengths.0,
                lengths.1
            ));
        }
        if x == 0 {
            return None;
        }
        at += x;
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]).unwrap() {
            0 => break,
            read => filled += read,
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_and_placed() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        make(&a, 1, 200_001);
        make(&b, 1, 200_001);
        assert_eq!(difference(&a, &b), None);
        make(&b, 1, 200_000);
        assert!(difference(&a, &b).unwrap().contains("byte 200000"));
        make(&b, 2, 200_001);
        assert!(difference(&a, &b).unwrap().contains("byte 0"));
        let mut bytes = Noise::bytes(1, 200_001);
        bytes[150_000] ^= 1;
        std::fs::write(&b, &bytes).unwrap();
        assert!(difference(&a, &b).unwrap().contains("byte 150000"));
    }
}
