//! What the hot paths cost: `cargo bench -p ring`. One thread, warm caches.
#![allow(missing_docs, clippy::expect_used)]

use std::hint::black_box;

use divan::Bencher;
use ring::park::{parker, wake_fd};
use ring::pool::Pool;
use ring::region::PagePolicy;
use ring::spsc;
use ring::stream::{AppStreams, Limits, StackStreams, StreamsConfig, streams};

/// Operations per measured call, so that its own cost does not count.
const BATCH: usize = 64;

fn main() {
    divan::main();
}

#[divan::bench(counters = [BATCH])]
fn spsc_push_pop(bencher: Bencher) {
    let (mut sender, mut receiver) = spsc::channel::<u64>(256);
    bencher.bench_local(|| {
        for value in 0..BATCH as u64 {
            let _ = sender.push(black_box(value));
            black_box(receiver.pop());
        }
    });
}

#[divan::bench(counters = [BATCH])]
fn spsc_staged_burst(bencher: Bencher) {
    let (mut sender, mut receiver) = spsc::channel::<[u64; 4]>(256);
    bencher.bench_local(|| {
        for value in 0..BATCH as u64 {
            let _ = sender.stage(black_box([value; 4]));
        }
        sender.publish();
        while let Some(value) = receiver.pop() {
            black_box(value);
        }
    });
}

fn pair() -> (StackStreams, AppStreams) {
    let config = StreamsConfig {
        slots: 16,
        recv_pool_bytes: 1 << 24,
        send_pool_bytes: 1 << 24,
        max_buffer: 1 << 20,
        prefault: 0,
    };
    let (mut stack, app) = streams(&config).expect("memory");
    let limits = Limits {
        recv: 1 << 16,
        send: 1 << 16,
    };
    stack.open(3, limits).expect("a slot");
    (stack, app)
}

#[divan::bench(args = [64, 1460], counters = [BATCH])]
fn receive(bencher: Bencher, bytes: usize) {
    let (mut stack, mut app) = pair();
    let segment = vec![7; bytes];
    let mut buf = vec![0; bytes];
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            let _ = stack.write_at(3, 0, black_box(&segment));
            stack.commit(3, bytes as u32);
            black_box(app.read(3, &mut buf));
        }
    });
}

#[divan::bench(args = [64, 1460], counters = [BATCH])]
fn send(bencher: Bencher, bytes: usize) {
    let (mut stack, mut app) = pair();
    let segment = vec![7; bytes];
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            black_box(app.write(3, black_box(&segment)));
            black_box(stack.peek(3, 0, 1460));
            stack.consume(3, bytes as u32);
            black_box(stack.app_wants_space(3));
        }
    });
}

/// A connection's whole life: opened, 64 bytes in, 64 bytes out, everything given back.
#[divan::bench(counters = [BATCH])]
fn short_transaction(bencher: Bencher) {
    let (mut stack, mut app) = pair();
    let limits = Limits {
        recv: 1 << 16,
        send: 1 << 16,
    };
    let mut buf = [0; 64];
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            let _ = stack.open(5, limits);
            let _ = stack.write_at(5, 0, &[7; 64]);
            stack.commit(5, 64);
            app.read(5, &mut buf);
            app.write(5, &buf);
            black_box(stack.peek(5, 0, 1460));
            stack.consume(5, 64);
            app.release(5);
            stack.close(5);
        }
    });
}

#[divan::bench(counters = [BATCH])]
fn pool_allocate_free(bencher: Bencher) {
    let mut pool = Pool::new(1 << 24, 8 << 20, PagePolicy::Small).expect("memory");
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            if let Some(block) = pool.allocate(black_box(2048)) {
                pool.free(block);
            }
        }
    });
}

#[divan::bench(counters = [BATCH])]
fn wake_who_is_awake(bencher: Bencher) {
    let (_sleeper, waker) = parker();
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            black_box(waker.unpark());
        }
    });
}

#[divan::bench]
fn wake_through_the_descriptor(bencher: Bencher) {
    let (mut sleeper, waker) = wake_fd().expect("a descriptor");
    bencher.bench_local(|| {
        sleeper.prepare();
        waker.wake();
        sleeper.finish()
    });
}
