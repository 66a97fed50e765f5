use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A ring as a kernel or a peer would map it, with indices anyone can write.
struct Memory {
    producer: AtomicU32,
    consumer: AtomicU32,
    entries: Vec<u64>,
}

impl Memory {
    fn at(index: u32, size: u32) -> Box<Self> {
        Box::new(Self {
            producer: AtomicU32::new(index),
            consumer: AtomicU32::new(index),
            entries: vec![0; size as usize],
        })
    }

    fn raw(&mut self) -> RawRing<u64> {
        RawRing {
            producer: &raw const self.producer,
            consumer: &raw const self.consumer,
            entries: self.entries.as_mut_ptr(),
            size: self.entries.len() as u32,
        }
    }

    fn ends(&mut self) -> (Producer<u64>, Consumer<u64>) {
        ends_of(self.raw())
    }
}

fn ends_of(raw: RawRing<u64>) -> (Producer<u64>, Consumer<u64>) {
    // SAFETY: the memory outlives both ends in every test, and there is one of each.
    unsafe {
        (
            Producer::from_raw(raw).unwrap(),
            Consumer::from_raw(raw).unwrap(),
        )
    }
}

#[test]
fn refuses_sizes_that_are_no_power_of_two() {
    for size in [0, 3, 6, 12] {
        let mut memory = Memory::at(0, size);
        // SAFETY: the memory outlives the end.
        assert!(unsafe { Producer::from_raw(memory.raw()) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { Consumer::from_raw(memory.raw()) }.is_none());
    }
}

#[test]
fn refuses_what_was_not_granted() {
    let mut memory = Memory::at(0, 4);
    let (mut producer, mut consumer) = memory.ends();
    assert!(!producer.write(0, 1), "free was not asked");
    producer.publish(1);
    assert_eq!(consumer.available(1), 0);
    assert_eq!(consumer.read(0), None);
    assert_eq!(producer.free(1), 4);
    assert!(producer.write(3, 9) && !producer.write(4, 9));
    producer.publish(99);
    assert_eq!(consumer.available(1), 4);
    assert_eq!(consumer.read(3), Some(9));
    consumer.release(99);
    assert_eq!(producer.outstanding(), 0);
}

#[test]
fn looks_at_the_other_index_only_when_needed() {
    let mut memory = Memory::at(0, 8);
    let (mut producer, mut consumer) = memory.ends();
    assert_eq!(producer.free(1), 8);
    for value in 0..4 {
        producer.push(value).unwrap();
    }
    assert_eq!(consumer.available(1), 4);
    consumer.release(4);
    assert_eq!(producer.free(4), 4, "known to be enough: not refreshed");
    assert_eq!(producer.free(5), 8, "refreshed");
}

proptest! {
    /// Any list of operations gives what a queue gives, across the wrap of the indices.
    #[test]
    fn behaves_as_a_queue(start in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()],
                          bits in 0u32..5,
                          ops in prop::collection::vec((any::<bool>(), 1u32..20), 1..200)) {
        let mut memory = Memory::at(start, 1 << bits);
        let (mut producer, mut consumer) = memory.ends();
        let mut oracle = VecDeque::new();
        let mut next = 0u64;
        for (produce, n) in ops {
            if produce {
                let free = producer.free(n).min(n);
                prop_assert_eq!(free, n.min((1 << bits) - oracle.len() as u32));
                for offset in 0..free {
                    prop_assert!(producer.write(offset, next));
                    oracle.push_back(next);
                    next += 1;
                }
                producer.publish(free);
            } else {
                let available = consumer.available(n).min(n);
                prop_assert_eq!(available, n.min(oracle.len() as u32));
                for offset in 0..available {
                    prop_assert_eq!(consumer.read(offset), oracle.pop_front());
                }
                consumer.release(available);
            }
        }
        prop_assert_eq!(producer.outstanding() as usize, oracle.len());
        prop_assert!(!producer.is_corrupt() && !consumer.is_corrupt());
    }

    /// Whatever the peer writes into its index, we stay inside the entries and never see more than
    /// there can be.
    #[test]
    fn survives_a_hostile_peer(start in any::<u32>(), indices in prop::collection::vec(any::<(u32, bool)>(), 1..60)) {
        let size = 8;
        let mut memory = Memory::at(start, size);
        let raw = memory.raw();
        let (mut producer, mut consumer) = ends_of(raw);
        // SAFETY: `memory` outlives the references.
        let (to_producer, to_consumer) = unsafe { (&*raw.producer, &*raw.consumer) };
        for (wild, near) in indices {
            let index = if near { start.wrapping_add(wild % 20).wrapping_sub(4) } else { wild };
            to_consumer.store(index, Ordering::Release);
            let free = producer.free(size + 1);
            prop_assert!(free <= size);
            for offset in 0..free {
                prop_assert!(producer.write(offset, 7));
            }
            producer.publish(free / 2);
            to_producer.store(index.wrapping_add(wild % 9), Ordering::Release);
            let available = consumer.available(size + 1);
            prop_assert!(available <= size);
            for offset in 0..available {
                prop_assert!(consumer.read(offset).is_some());
            }
            consumer.release(available / 2);
            prop_assert!(!producer.is_corrupt() || producer.push(1).is_err());
            prop_assert!(!consumer.is_corrupt() || consumer.pop().is_none());
        }
    }
}
