use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Op {
    Stage(u8),
    Publish,
    Pop(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1u8..12).prop_map(Op::Stage),
        Just(Op::Publish),
        (1u8..12).prop_map(Op::Pop)
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_queue(capacity in 0usize..20, ops in prop::collection::vec(op(), 1..200)) {
        let (mut producer, mut consumer) = channel(capacity);
        let size = capacity.max(1).next_power_of_two();
        prop_assert_eq!(producer.capacity() as usize, size);
        let (mut published, mut staged) = (VecDeque::new(), VecDeque::new());
        let mut next = 0u32;
        for op in ops {
            match op {
                Op::Stage(n) => for _ in 0..n {
                    let fits = published.len() + staged.len() < size;
                    prop_assert_eq!(producer.stage(next).is_ok(), fits);
                    if fits {
                        staged.push_back(next);
                        next += 1;
                    }
                },
                Op::Publish => {
                    prop_assert_eq!(producer.publish() as usize, staged.len());
                    published.append(&mut staged);
                }
                Op::Pop(n) => for _ in 0..n {
                    prop_assert_eq!(consumer.pop(), published.pop_front());
                },
            }
            prop_assert_eq!(consumer.len() as usize, published.len());
            prop_assert_eq!(consumer.is_empty(), published.is_empty());
            prop_assert_eq!(producer.free() as usize, size - published.len() - staged.len());
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // two real threads are the point
fn two_threads_hand_over_everything_in_order() {
    const COUNT: u64 = if cfg!(miri) { 500 } else { 500_000 };
    let (mut producer, mut consumer) = channel::<(u64, u64)>(64);
    let sender = std::thread::spawn(move || {
        for value in 0..COUNT {
            while producer.stage((value, !value)).is_err() {
                producer.publish();
                std::thread::yield_now();
            }
            if value % 7 == 0 {
                producer.publish();
            }
        }
        producer.publish();
    });
    for value in 0..COUNT {
        let got = loop {
            match consumer.pop() {
                Some(got) => break got,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(got, (value, !value));
    }
    sender.join().unwrap();
    assert!(consumer.pop().is_none());
}

#[test]
fn survives_the_other_end() {
    let (mut producer, consumer) = channel(2);
    drop(consumer);
    producer.push(1).unwrap();
    producer.push(2).unwrap();
    assert_eq!(producer.push(3), Err(3));
    let (producer, mut consumer) = channel::<u8>(2);
    drop(producer);
    assert_eq!(consumer.pop(), None);
}
