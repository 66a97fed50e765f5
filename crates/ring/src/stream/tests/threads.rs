//! The two ends in two threads.
#![allow(clippy::disallowed_methods)] // real threads are the point

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const TOTAL: u32 = if cfg!(miri) { 20_000 } else { 8 << 20 };

/// A reproducible sequence.
pub(super) struct Lcg(pub(super) u64);

impl Lcg {
    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// The stack's thread: sends `total` bytes up, some out of order, and takes as many, with every
/// buffer as small as can be. Does something else in between.
pub(super) fn run_stack(
    stack: &mut StackStreams,
    slot: u32,
    total: u32,
    mut between: impl FnMut(&mut StackStreams),
) {
    let mut random = Lcg(1);
    let (mut sent, mut taken) = (0, 0);
    while sent < total || taken < total {
        between(stack);
        stack.turn_to(slot);
        let n = (1 + random.below(700)).min(total - sent);
        let bytes = counting(sent, n);
        let half = n / 2;
        let late = stack.write_at(slot, half, &bytes[half as usize..]);
        if late.is_ok() && stack.write_at(slot, 0, &bytes[..half as usize]).is_ok() {
            stack.commit(slot, n);
            sent += n;
        } else {
            thread::yield_now();
        }
        if random.below(4) == 0 {
            stack.trim(slot, false);
        }
        if random.below(50) == 0 {
            stack.set_send_limit(slot, 1 + random.below(9000));
        }
        let offset = random.below(100).min(stack.send_len(slot));
        let len = random.below(3000);
        let seen = joined(stack.peek(slot, offset, len));
        assert_eq!(seen, counting(taken + offset, seen.len() as u32));
        let acked = offset + seen.len() as u32;
        stack.consume(slot, acked);
        taken += acked;
        stack.show();
    }
}

/// The application's thread: the same from the other side.
pub(super) fn run_app(mut app: AppStreams, total: u32) -> AppStreams {
    let mut random = Lcg(2);
    let (mut written, mut read) = (0, 0);
    let mut buf = vec![0; 6000];
    while written < total || read < total {
        let len = random.below(6000) as usize;
        let n = app.read(0, &mut buf[..len]) as u32;
        assert_eq!(buf[..n as usize], counting(read, n));
        read += n;
        let len = random.below(2000).min(total - written);
        let n = app.write(0, &counting(written, len)) as u32;
        written += n;
        if random.below(4) == 0 {
            app.sweep(1);
        }
        if n == 0 {
            thread::yield_now();
        }
    }
    app
}

#[test]
fn every_byte_arrives_through_tiny_buffers() {
    let (mut stack, app) = pair(1, 64);
    stack.open(0, limits(9000, 9000)).unwrap();
    let other = thread::spawn(move || run_app(app, TOTAL));
    run_stack(&mut stack, 0, TOTAL, |_| ());
    let mut app = other.join().unwrap();
    stack.trim(0, false);
    app.trim(0);
    assert_eq!((stack.recv_bytes_in_use(), app.send_bytes_in_use()), (0, 0));
}

/// Both ends call anything with anything. What they see does not matter: that nothing is torn apart
/// does.
#[test]
fn misuse_from_two_threads() {
    let (mut stack, mut app) = pair(2, 32);
    let done = &AtomicBool::new(false);
    let rounds = if cfg!(miri) { 300 } else { 100_000 };
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Lcg(3);
            let mut buf = [0; 3000];
            while !done.load(Ordering::Relaxed) {
                let (slot, n) = (random.below(3), random.below(3000));
                match random.below(8) {
                    0 => app.release(slot),
                    1 => drop(app.skip(slot, n)),
                    2 => assert!(app.read(slot, &mut buf[..n as usize]) <= n as usize),
                    3 => assert!(app.write(slot, &buf[..n as usize]) <= n as usize),
                    4 => {
                        app.sweep(2);
                    }
                    5 => drop(app.poll_starved()),
                    6 => drop(app.window_update_due(slot)),
                    _ => assert!(app.peek(slot, &mut buf) <= 3000),
                }
            }
        });
        let mut random = Lcg(4);
        for _ in 0..rounds {
            let (slot, n) = (random.below(3), random.below(3000));
            match random.below(9) {
                0 => drop(stack.open(slot, limits(n, n * 3))),
                1 => drop(stack.close(slot)),
                2 => stack.commit(slot, n),
                3 => drop(stack.write_at(slot, n, &[7; 900])),
                4 => stack.consume(slot, n),
                5 => drop(stack.trim(slot, n % 2 == 0)),
                6 => stack.set_recv_limit(slot, n * 4),
                7 => stack.sweep(2),
                _ => assert!(joined(stack.peek(slot, n / 2, n)).len() <= n as usize),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
