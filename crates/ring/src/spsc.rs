//! A bounded queue from one thread to another, on the [cursor]. Allocates only when made.
//!
//! Entries are staged and published as one burst: one release store for any number of them. Neither
//! end blocks; to sleep until there is something, combine with [`crate::park`]. Dropping an end
//! does not tell the other.

use std::fmt;
use std::mem::MaybeUninit;

use crate::cursor;
use crate::sync::{Arc, AtomicU32, Padded};

/// Most entries a queue can have.
const MAX_CAPACITY: usize = 1 << 30;

struct Queue<T> {
    producer: Padded<AtomicU32>,
    consumer: Padded<AtomicU32>,
    entries: Box<[cursor::Entry<T>]>,
}

/// Makes a queue of `capacity` entries, rounded up to a power of two (at least 1, at most 2³⁰).
pub fn channel<T: Copy + Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.clamp(1, MAX_CAPACITY).next_power_of_two();
    let queue = Arc::new(Queue {
        producer: Padded(AtomicU32::new(0)),
        consumer: Padded(AtomicU32::new(0)),
        entries: (0..capacity)
            .map(|_| cursor::Entry::new(MaybeUninit::uninit()))
            .collect(),
    });
    let (producer, consumer) = (&raw const queue.producer.0, &raw const queue.consumer.0);
    // SAFETY: the queue does not move and outlives both cursors, for each is dropped with its `Arc`
    // at the latest; one producer and one consumer are made, and the producer publishes only what
    // it staged.
    let cursors = unsafe {
        (
            cursor::Producer::from_entries(producer, consumer, &queue.entries),
            cursor::Consumer::from_entries(producer, consumer, &queue.entries),
        )
    };
    let producer = Producer {
        cursor: cursors.0,
        staged: 0,
        _queue: Arc::clone(&queue),
    };
    let consumer = Consumer {
        cursor: cursors.1,
        _queue: queue,
    };
    (producer, consumer)
}

/// The sending end of a [`channel`].
pub struct Producer<T: Copy + Send> {
    cursor: cursor::Producer<T>,
    staged: u32,
    _queue: Arc<Queue<T>>,
}

// SAFETY: the cursor is `Send`; the `Arc` only keeps the queue alive, and its entries are `Send`
// values without a destructor.
unsafe impl<T: Copy + Send> Send for Producer<T> {}

impl<T: Copy + Send> Producer<T> {
    /// Writes one entry behind those staged already; the consumer does not see it before
    /// [`Self::publish`].
    ///
    /// # Errors
    /// The queue is full: the value comes back.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), T> {
        if self.cursor.free(self.staged + 1) <= self.staged {
            return Err(value);
        }
        self.cursor.write(self.staged, value);
        self.staged += 1;
        Ok(())
    }

    /// Makes everything staged visible to the consumer; returns how many entries that were.
    #[inline]
    pub fn publish(&mut self) -> u32 {
        let staged = std::mem::take(&mut self.staged);
        self.cursor.publish(staged);
        staged
    }

    /// Stages `value` and publishes everything staged.
    ///
    /// # Errors
    /// The queue is full: the value comes back, and what was staged stays staged.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        self.stage(value)?;
        self.publish();
        Ok(())
    }

    /// Entries that can be staged now, on top of those staged already.
    pub fn free(&mut self) -> u32 {
        self.cursor.free(u32::MAX) - self.staged
    }

    /// Entries staged and not published.
    pub fn staged(&self) -> u32 {
        self.staged
    }

    /// Entries the queue can hold.
    pub fn capacity(&self) -> u32 {
        self.cursor.size()
    }
}

impl<T: Copy + Send> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("spsc::Producer")
            .field("cursor", &self.cursor)
            .field("staged", &self.staged)
            .finish_non_exhaustive()
    }
}

/// The receiving end of a [`channel`].
pub struct Consumer<T: Copy + Send> {
    cursor: cursor::Consumer<T>,
    _queue: Arc<Queue<T>>,
}

// SAFETY: as for `Producer`.
unsafe impl<T: Copy + Send> Send for Consumer<T> {}

impl<T: Copy + Send> Consumer<T> {
    /// Takes the oldest published entry.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.cursor.pop()
    }

    /// Nothing is published.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.cursor.available(1) == 0
    }

    /// Entries published and not taken.
    pub fn len(&mut self) -> u32 {
        self.cursor.available(u32::MAX)
    }

    /// Entries the queue can hold.
    pub fn capacity(&self) -> u32 {
        self.cursor.size()
    }
}

impl<T: Copy + Send> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("spsc::Consumer")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
