//! Small files in memory, bounded, looked up by the request target as it came.

use std::collections::{HashMap, VecDeque};

use http1::conditional::Version;

/// A cached file.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Which version of the file.
    pub(crate) version: Version,
    /// Status line and header fields of a 200, without Date and Connection.
    pub(crate) head: Vec<u8>,
    /// The file.
    pub(crate) body: Vec<u8>,
    checked: u64,
}

/// The cache. The oldest go first.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: HashMap<Vec<u8>, Entry>,
    order: VecDeque<Vec<u8>>,
    bytes: usize,
    max_bytes: usize,
}

/// Largest file that is cached, bytes.
pub(crate) const MAX_FILE: u64 = 65_536;
/// How long a file is served without looking whether it changed, ms.
const FRESH: u64 = 1_000;
/// What an entry costs beside its bytes.
const OVERHEAD: usize = 256;

impl Cache {
    /// A cache of at most `max_bytes`; 0 caches nothing.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// The file at `target` if it was checked within the last second.
    pub(crate) fn fresh(&self, target: &[u8], now: u64) -> Option<&Entry> {
        self.entries
            .get(target)
            .filter(|entry| now < entry.checked + FRESH)
    }

    /// The file at `target` if it is still this `version`; it is fresh again then.
    pub(crate) fn revalidate(
        &mut self,
        target: &[u8],
        version: &Version,
        now: u64,
    ) -> Option<&Entry> {
        let entry = self.entries.get_mut(target)?;
        if entry.version != *version {
            return None;
        }
        entry.checked = now;
        Some(entry)
    }

    /// Puts a file in, replacing an older version of it.
    pub(crate) fn insert(
        &mut self,
        target: &[u8],
        version: Version,
        head: Vec<u8>,
        body: Vec<u8>,
        now: u64,
    ) {
        let cost = cost(target, &head, &body);
        if cost > self.max_bytes {
            return;
        }
        if let Some(old) = self.entries.remove(target) {
            self.bytes -= old.cost(target);
            self.order.retain(|other| other != target);
        }
        while self.bytes + cost > self.max_bytes {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some(old) = self.entries.remove(&oldest) {
                self.bytes -= old.cost(&oldest);
            }
        }
        self.bytes += cost;
        self.order.push_back(target.to_vec());
        self.entries.insert(
            target.to_vec(),
            Entry {
                version,
                head,
                body,
                checked: now,
            },
        );
    }
}

impl Entry {
    fn cost(&self, target: &[u8]) -> usize {
        cost(target, &self.head, &self.body)
    }
}

fn cost(target: &[u8], head: &[u8], body: &[u8]) -> usize {
    OVERHEAD + 2 * target.len() + head.len() + body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(modified: i64) -> Version {
        Version {
            modified,
            etag: "\"x\"".into(),
            length: 1000,
        }
    }

    #[test]
    fn the_bound_holds_and_the_oldest_go() {
        let mut cache = Cache::new(5_000);
        for file in 0..10u8 {
            cache.insert(&[file], version(0), Vec::new(), vec![file; 1000], 0);
            assert!(cache.bytes <= 5_000);
        }
        assert!(cache.fresh(&[0], 0).is_none());
        assert_eq!(
            cache.fresh(&[9], 0).map(|entry| entry.body.len()),
            Some(1000)
        );
        assert_eq!(cache.order.len(), cache.entries.len());
    }

    #[test]
    fn freshness_ends_and_versions_matter() {
        let mut cache = Cache::new(5_000);
        cache.insert(b"/a", version(1), Vec::new(), vec![1], 0);
        assert!(cache.fresh(b"/a", FRESH - 1).is_some());
        assert!(cache.fresh(b"/a", FRESH).is_none());
        assert!(cache.revalidate(b"/a", &version(2), FRESH).is_none());
        assert!(cache.revalidate(b"/a", &version(1), FRESH).is_some());
        assert!(cache.fresh(b"/a", FRESH + 1).is_some());
        cache.insert(b"/a", version(2), Vec::new(), vec![2], FRESH);
        assert_eq!(
            cache.fresh(b"/a", FRESH).map(|entry| entry.body.clone()),
            Some(vec![2])
        );
        assert_eq!(cache.order.len(), 1);
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let mut cache = Cache::new(0);
        cache.insert(b"/a", version(1), Vec::new(), Vec::new(), 0);
        assert!(cache.fresh(b"/a", 0).is_none());
    }
}
