//! Every interleaving (up to a few preemptions) of two threads over the cursor, the parking and the
//! streams: `RUSTFLAGS="--cfg loom" cargo test -p ring --release --test loom`.
#![cfg(loom)]
#![allow(missing_docs, clippy::unwrap_used)]

use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ring::announcement;
use ring::park::parker;
use ring::spsc;
use ring::stream::{AppStreams, Limits, StackStreams, Status, StreamsConfig, streams};

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

#[test]
fn a_queue_hands_over_what_was_staged() {
    model(4, || {
        let (mut sender, mut receiver) = spsc::channel(2);
        let other = thread::spawn(move || {
            for value in 1..=4u32 {
                while sender.stage(value).is_err() {
                    sender.publish();
                    thread::yield_now();
                }
                if value % 2 == 0 {
                    sender.publish();
                }
            }
        });
        for expected in 1..=4 {
            let value = loop {
                match receiver.pop() {
                    Some(value) => break value,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(value, expected);
        }
        other.join().unwrap();
        assert!(receiver.is_empty());
    });
}

/// Loom reports a deadlock when a wake-up is lost.
#[test]
fn no_wake_up_is_lost() {
    model(4, || {
        let (mut sender, mut receiver) = spsc::channel(2);
        let (mut sleeper, waker) = parker();
        let other = thread::spawn(move || {
            for value in 0..2u32 {
                sender.push(value).unwrap();
                waker.unpark();
            }
        });
        for expected in 0..2 {
            let value = loop {
                if let Some(value) = receiver.pop() {
                    break value;
                }
                sleeper.prepare();
                if receiver.is_empty() {
                    sleeper.park(None);
                } else {
                    sleeper.cancel();
                }
            };
            assert_eq!(value, expected);
        }
        other.join().unwrap();
    });
}

/// A doorbell: how often it has rung and was not heard.
#[derive(Default)]
struct Doorbell {
    rung: Mutex<u32>,
    rings: Condvar,
}

impl Doorbell {
    fn ring(&self) {
        *self.rung.lock().unwrap() += 1;
        self.rings.notify_one();
    }

    fn sleep(&self) -> loom::sync::MutexGuard<'_, u32> {
        let mut rung = self.rung.lock().unwrap();
        while *rung == 0 {
            rung = self.rings.wait(rung).unwrap();
        }
        rung
    }
}

/// As between a daemon and a program. Loom reports a deadlock when a ring is lost.
#[test]
fn a_doorbell_rings_once_for_each_sleep_that_something_is_published_in() {
    model(3, || {
        let (mut sender, mut receiver) = spsc::channel(2);
        let ours = Arc::new((AtomicU32::new(0), Doorbell::default()));
        let theirs = Arc::clone(&ours);
        let other = thread::spawn(move || {
            for value in 0..2u32 {
                sender.push(value).unwrap();
                if announcement::take(&theirs.0) {
                    theirs.1.ring();
                }
            }
        });
        let (word, doorbell) = &*ours;
        for expected in 0..2 {
            let value = loop {
                if let Some(value) = receiver.pop() {
                    break value;
                }
                announcement::announce(word, 0);
                if receiver.is_empty() {
                    drop(doorbell.sleep());
                }
                if announcement::end(word) {
                    *doorbell.sleep() -= 1;
                }
            };
            assert_eq!(value, expected);
        }
        other.join().unwrap();
        assert_eq!(*doorbell.rung.lock().unwrap(), 0, "rung, and nobody slept");
    });
}

/// Under loom the buffers are of 2, 8, 32… bytes.
fn pair(limit: u32) -> (StackStreams, AppStreams) {
    let config = StreamsConfig {
        slots: 2,
        recv_pool_bytes: 64,
        send_pool_bytes: 64,
        max_buffer: 32,
        prefault: 0,
    };
    let (mut stack, app) = streams(&config).unwrap();
    let limits = Limits {
        recv: limit,
        send: limit,
    };
    stack.open(0, limits).unwrap();
    (stack, app)
}

fn read_to_eof(app: &mut AppStreams) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buf = [0; 3];
    while !app.at_eof(0) {
        match app.read(0, &mut buf) {
            0 => thread::yield_now(),
            n => bytes.extend_from_slice(&buf[..n]),
        }
    }
    bytes
}

#[test]
fn growth_keeps_every_byte_readable() {
    model(3, || {
        let (mut stack, mut app) = pair(32);
        let other = thread::spawn(move || {
            stack.write_at(0, 0, &[1, 2]).unwrap();
            stack.commit(0, 2);
            // Out of order, grows to 8; the hole is filled after.
            stack.write_at(0, 1, &[4, 5]).unwrap();
            stack.write_at(0, 0, &[3]).unwrap();
            stack.commit(0, 3);
            // Perhaps to 32, perhaps with two outgrown.
            stack.write_at(0, 0, &[6, 7, 8, 9]).unwrap();
            stack.commit(0, 4);
            stack.set_status(0, Status::EOF);
            stack
        });
        assert_eq!(read_to_eof(&mut app), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut stack = other.join().unwrap();
        assert!(stack.trim(0, false));
        assert_eq!(stack.recv_bytes_in_use(), 0);
    });
}

/// An outgrown block goes to another slot only when its bytes were read.
#[test]
fn an_outgrown_block_is_not_reused_too_early() {
    model(3, || {
        let (mut stack, mut app) = pair(32);
        let other = thread::spawn(move || {
            stack.write_at(0, 0, &[1, 2]).unwrap();
            stack.commit(0, 2);
            stack.write_at(0, 0, &[3]).unwrap();
            stack.commit(0, 1);
            stack.trim(0, true);
            stack.reserve(1, Limits { recv: 2, send: 2 }).unwrap();
            stack.write_at(1, 0, &[8, 9]).unwrap();
            stack.set_status(0, Status::EOF);
        });
        assert_eq!(read_to_eof(&mut app), [1, 2, 3]);
        other.join().unwrap();
    });
}

#[test]
fn trim_and_reuse_never_race_with_the_reader() {
    model(2, || {
        let (mut stack, mut app) = pair(32);
        let other = thread::spawn(move || {
            for round in 0..3u8 {
                stack.write_at(0, 0, &[2 * round, 2 * round + 1]).unwrap();
                stack.commit(0, 2);
                stack.trim(0, false);
            }
            stack.set_status(0, Status::EOF);
        });
        assert_eq!(read_to_eof(&mut app), [0, 1, 2, 3, 4, 5]);
        other.join().unwrap();
    });
}

#[test]
fn peek_and_consume_race_with_growth_and_sweep() {
    model(2, || {
        let (mut stack, mut app) = pair(32);
        let other = thread::spawn(move || {
            for byte in 0..4u8 {
                assert_eq!(app.write(0, &[byte]), 1);
                app.sweep(1);
            }
        });
        let mut expected = 0;
        while expected < 4 {
            let seen = stack.peek(0, 0, 4).to_vec();
            for &byte in &seen {
                assert_eq!(byte, expected);
                expected += 1;
            }
            stack.consume(0, seen.len() as u32);
            thread::yield_now();
        }
        other.join().unwrap();
    });
}

#[test]
fn a_writer_that_came_up_short_is_always_told() {
    model(4, || {
        let (mut stack, mut app) = pair(2);
        assert_eq!(app.write(0, &[1, 2]), 2);
        let other = thread::spawn(move || app.write(0, &[3]));
        stack.consume(0, 1);
        let mut told = stack.app_wants_space(0);
        stack.consume(0, 1);
        told |= stack.app_wants_space(0);
        let written = other.join().unwrap();
        assert!(written == 1 || told);
    });
}

#[test]
fn a_released_slot_is_the_stacks_alone() {
    model(3, || {
        let (mut stack, mut app) = pair(8);
        stack.write_at(0, 0, &[1, 2, 3]).unwrap();
        stack.commit(0, 3);
        let other = thread::spawn(move || {
            let mut buf = [0; 2];
            assert_eq!(app.read(0, &mut buf), 2);
            app.release(0);
            // Nothing, or what the next life brings.
            app.read(0, &mut buf)
        });
        let limits = Limits { recv: 8, send: 8 };
        while stack.open(0, limits).is_err() {
            thread::yield_now();
        }
        stack.write_at(0, 0, &[9]).unwrap();
        stack.commit(0, 1);
        let n = other.join().unwrap();
        assert_eq!(stack.recv_unread(0) as usize, 1 - n);
    });
}
