//! All responses of a log, as small as a server needs them: 8 bytes for each 4 KB, and some 50 for
//! each transaction.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::Transaction;

#[derive(Clone, Copy, Debug)]
struct Entry {
    first_seed: u64,
    response_bytes: u64,
    duration_us: u64,
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Of the content of its chunks.
    pub seeds: &'a [u64],
    /// Of its body.
    pub bytes: u64,
    /// How long after its request it was there, microseconds.
    pub duration_us: u64,
}

/// The responses of a log, by the number of their transaction and by what was asked for.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: Vec<Entry>,
    seeds: Vec<u64>,
    by_target: HashMap<u64, u64>,
}

impl Catalogue {
    /// Takes the next transaction of the log.
    pub fn add(&mut self, transaction: &Transaction) {
        let number = self.entries.len() as u64;
        let key = key(transaction.target().as_bytes());
        self.by_target.entry(key).or_insert(number);
        self.entries.push(Entry {
            first_seed: self.seeds.len() as u64,
            response_bytes: transaction.response_bytes,
            duration_us: transaction.duration_us(),
        });
        self.seeds.extend(transaction.seeds());
    }

    /// Transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The response of the transaction with this number, counted from 0.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<Response<'_>> {
        let entry = self.entries.get(usize::try_from(number).ok()?)?;
        let chunks = crate::content::chunks(entry.response_bytes);
        let range = entry.first_seed as usize..(entry.first_seed + chunks) as usize;
        Some(Response {
            seeds: self.seeds.get(range)?,
            bytes: entry.response_bytes,
            duration_us: entry.duration_us,
        })
    }

    /// The first transaction that asked for this target.
    #[must_use]
    pub fn find(&self, target: &[u8]) -> Option<u64> {
        self.by_target.get(&key(target)).copied()
    }
}

/// Stands for a target: of those of a log, no two have the same but by a chance of one in 2^20.
fn key(target: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    target.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::example;

    #[test]
    fn a_response_is_found_by_number_and_by_target() {
        let mut catalogue = Catalogue::default();
        let none = Transaction {
            url: "/none".into(),
            response_bytes: 0,
            chunks: Vec::new(),
            ..example()
        };
        for transaction in [&example(), &none, &example()] {
            catalogue.add(transaction);
        }
        assert_eq!(catalogue.len(), 3);
        let seeds: Vec<u64> = example().seeds().collect();
        let expected = Response {
            seeds: &seeds,
            bytes: 5000,
            duration_us: 250_000,
        };
        assert_eq!(catalogue.get(0), Some(expected));
        assert_eq!(catalogue.get(2), Some(expected));
        assert_eq!(catalogue.get(1).map(|none| none.seeds.len()), Some(0));
        assert_eq!(catalogue.get(3), None);
        assert_eq!(catalogue.find(b"/none"), Some(1));
        assert_eq!(catalogue.find(example().target().as_bytes()), Some(0));
        assert_eq!(catalogue.find(b"/absent"), None);
    }
}
