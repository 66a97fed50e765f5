//! Frames held back: a fixed number of slots, in order of when they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wire::time::Instant;

/// When a frame is due; then which came first.
type Due = Reverse<(Instant, u64, u32)>;

#[derive(Debug)]
pub(super) struct Store {
    memory: Box<[u8]>,
    lens: Box<[usize]>,
    frame_len: usize,
    free: Vec<u32>,
    queue: BinaryHeap<Due>,
    /// Frames ever held.
    count: u64,
}

impl Store {
    /// Room for `slots` frames of up to `frame_len` bytes; memory is touched when used.
    pub(super) fn new(slots: u32, frame_len: usize) -> Self {
        Self {
            memory: vec![0; slots as usize * frame_len].into_boxed_slice(),
            lens: vec![0; slots as usize].into_boxed_slice(),
            frame_len,
            // The lowest slot on top, so that few frames use little memory.
            free: (0..slots).rev().collect(),
            queue: BinaryHeap::with_capacity(slots as usize),
            count: 0,
        }
    }

    /// Holds a copy of `bytes` until `due`, behind all that are due then already. False if there is
    /// no room.
    pub(super) fn hold(&mut self, bytes: &[u8], due: Instant) -> bool {
        if bytes.len() > self.frame_len {
            return false;
        }
        let Some(slot) = self.free.pop() else {
            return false;
        };
        let start = slot as usize * self.frame_len;
        if let Some(to) = self.memory.get_mut(start..start + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        if let Some(len) = self.lens.get_mut(slot as usize) {
            *len = bytes.len();
        }
        self.queue.push(Reverse((due, self.count, slot)));
        self.count += 1;
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the next frame that is due at `now` out of the order. Its bytes stay until it is
    /// [released](Self::release).
    pub(super) fn take(&mut self, now: Instant) -> Option<u32> {
        match self.queue.peek() {
            Some(Reverse((due, ..))) if *due <= now => {}
            _ => return None,
        }
        self.queue.pop().map(|Reverse((.., slot))| slot)
    }

    /// The next frame that is due at `now`, left where it is.
    pub(super) fn peek(&self, now: Instant) -> Option<&[u8]> {
        match self.queue.peek() {
            Some(Reverse((due, _, slot))) if *due <= now => Some(self.bytes(*slot)),
            _ => None,
        }
    }

    pub(super) fn bytes(&self, slot: u32) -> &[u8] {
        let start = slot as usize * self.frame_len;
        let len = self.lens.get(slot as usize).copied().unwrap_or(0);
        self.memory.get(start..start + len).unwrap_or_default()
    }

    /// Frees a slot that was taken.
    pub(super) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    fn pop(store: &mut Store, now: Instant) -> Option<Vec<u8>> {
        let slot = store.take(now)?;
        let bytes = store.bytes(slot).to_vec();
        store.release(slot);
        Some(bytes)
    }

    #[test]
    fn frames_come_out_when_due_and_in_order() {
        let mut store = Store::new(4, 8);
        assert!(store.hold(b"late", at(20)));
        assert!(store.hold(b"first", at(10)));
        assert!(store.hold(b"second", at(10)));
        assert_eq!(store.next_due(), Some(at(10)));
        assert_eq!(pop(&mut store, at(9)), None);
        assert_eq!(store.peek(at(10)), Some(&b"first"[..]));
        assert_eq!(pop(&mut store, at(15)).unwrap(), b"first");
        assert_eq!(pop(&mut store, at(15)).unwrap(), b"second");
        assert_eq!(pop(&mut store, at(15)), None);
        assert_eq!(pop(&mut store, at(20)).unwrap(), b"late");
    }

    #[test]
    fn a_full_store_refuses_until_a_slot_is_released() {
        let mut store = Store::new(1, 8);
        assert!(store.hold(b"a", at(0)));
        assert!(store.is_full());
        assert!(!store.hold(b"b", at(0)));
        assert!(pop(&mut store, at(0)).is_some());
        assert!(!store.hold(b"too long!", at(0)));
        assert!(store.hold(b"", at(0)));
    }
}
