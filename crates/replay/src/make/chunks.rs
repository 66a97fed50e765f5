//! The names of chunks: some for the first time, some again.

use crate::content::CHUNK;
use crate::random::{Random, mix};
use crate::{Chunk, content};

use super::wanted::purpose;

/// Chunks that are repeated are taken from those that came before, mostly in runs, as parts of
/// objects are.
#[derive(Debug)]
pub(super) struct Chunks {
    redundancy: f64,
    seed: u64,
    random: Random,
    bytes: u64,
    repeated: u64,
    /// How many were named for the first time, by length in bytes less one.
    named: Vec<u64>,
}

/// A run of repeated chunks goes on in seven of eight cases.
const RUN: f64 = 7.0 / 8.0;
/// So many bytes more or less than asked for make it sure whether the next chunk is repeated.
const SLACK: f64 = 32.0 * CHUNK as f64;

impl Chunks {
    pub(super) fn new(redundancy: f64, seed: u64) -> Self {
        Self {
            redundancy,
            seed,
            random: Random::new(seed, purpose::CHUNKS),
            bytes: 0,
            repeated: 0,
            named: vec![0; CHUNK],
        }
    }

    /// The names of a response of `bytes`.
    pub(super) fn of(&mut self, bytes: u64) -> Vec<Chunk> {
        let mut names = Vec::with_capacity(content::chunks(bytes) as usize);
        let (mut left, mut run) = (bytes, None);
        while left > 0 {
            let length = left.min(CHUNK as u64) as usize;
            names.push(self.next(length, &mut run));
            left -= length as u64;
        }
        names
    }

    /// The name of the next chunk; `run`: which one follows the last one that was repeated.
    fn next(&mut self, length: usize, run: &mut Option<u64>) -> Chunk {
        self.bytes += length as u64;
        let known = self.named[length - 1];
        let missing = self.redundancy * self.bytes as f64 - self.repeated as f64;
        let chance = self.redundancy + missing / SLACK;
        let lucky = self.random.unit() < chance;
        let number = if known > 0 && self.redundancy > 0.0 && missing >= 0.0 && lucky {
            self.repeated += length as u64;
            let following = run.filter(|next| *next < known);
            following.unwrap_or_else(|| self.random.below(known))
        } else {
            self.named[length - 1] += 1;
            known
        };
        *run = (self.random.unit() < RUN).then_some(number + 1);
        self.name(number, length)
    }

    /// The name of chunk `number` of those with this length: digits without a meaning, as those of
    /// a digest have none.
    fn name(&self, number: u64, length: usize) -> Chunk {
        let mut word = mix(self.seed ^ mix(number ^ (length as u64) << 48));
        let mut name = [0; 20];
        for part in name.chunks_mut(8) {
            word = mix(word);
            part.copy_from_slice(&word.to_be_bytes()[..part.len()]);
        }
        Chunk::Sha1(name)
    }
}
