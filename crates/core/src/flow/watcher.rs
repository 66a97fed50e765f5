//! Who has to know which flows there are ([`SynOffload`]), and hears of the end of each a while
//! later.

use std::collections::VecDeque;
use std::fmt;

use wire::syn_offload::SynOffload;
use wire::time::Instant;

/// A flow that has ended is known for so long, in milliseconds. Then no copies of its segments come
/// any more, or hardly any.
const KNOWN_FOR: u32 = 100;
/// So many that have ended are known at most; the oldest goes first.
const MOST: usize = 16 << 10;

/// A connection that is over leaves copies of its segments in the network. The answer of a link has
/// no clock in its initial sequence number: to a copy of the SYN it would be what it was, and
/// copies of all that followed would do as well as they did, and have the connection once more. The
/// number of our own answers is another then (RFC 9293 §3.4.1, RFC 6528 §3), so such a SYN is for
/// us.
pub(crate) struct Watcher {
    link: Box<dyn SynOffload>,
    /// The hashes of those that have ended, the oldest first, and when.
    ended: VecDeque<(u32, u32)>,
    /// Of the last so many it is not known when.
    undated: usize,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("ended", &self.ended.len())
            .finish_non_exhaustive()
    }
}

impl Watcher {
    pub fn new(link: Box<dyn SynOffload>) -> Self {
        Self {
            link,
            ended: VecDeque::with_capacity(MOST),
            undated: 0,
        }
    }

    pub fn link(&mut self) -> &mut (dyn SynOffload + 'static) {
        &mut *self.link
    }

    pub fn enter(&mut self, hash: u32) {
        self.link.enter(hash);
    }

    pub fn leave(&mut self, hash: u32) {
        if self.ended.len() == MOST {
            self.forget_oldest();
        }
        self.ended.push_back((hash, 0));
        self.undated += 1;
    }

    fn forget_oldest(&mut self) {
        if let Some((hash, _)) = self.ended.pop_front() {
            self.link.leave(hash);
            self.undated = self.undated.min(self.ended.len());
        }
    }

    /// What ended since the last time ended now at the latest.
    pub fn advance(&mut self, now: Instant) {
        let now = now.as_millis() as u32;
        for (_, when) in self.ended.iter_mut().rev().take(self.undated) {
            *when = now;
        }
        self.undated = 0;
        while let Some(&(_, when)) = self.ended.front()
            && now.wrapping_sub(when) >= KNOWN_FOR
        {
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use wire::syn_offload::SynRules;

    use super::*;

    /// Counts those who left.
    #[derive(Debug)]
    struct Link(Arc<AtomicUsize>);

    impl SynOffload for Link {
        fn start(&mut self, _: &SynRules) {}
        fn offer(&mut self, _: SocketAddrV4, _: bool) {}
        fn withdraw(&mut self, _: u16) {}
        fn enter(&mut self, _: u32) {}
        fn leave(&mut self, _: u32) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn those_that_ended_have_bounded_memory_and_time() {
        let left = Arc::new(AtomicUsize::new(0));
        let mut watcher = Watcher::new(Box::new(Link(Arc::clone(&left))));
        let memory = watcher.ended.capacity();
        for hash in 0..MOST as u32 + 3 {
            watcher.leave(hash);
        }
        assert_eq!(watcher.ended.capacity(), memory);
        assert_eq!(left.load(Ordering::Relaxed), 3);
        for (millis, gone) in [(1000, 3), (1099, 3), (1100, MOST + 3)] {
            watcher.advance(Instant::from_millis(millis));
            assert_eq!(left.load(Ordering::Relaxed), gone, "{millis}");
        }
    }
}
