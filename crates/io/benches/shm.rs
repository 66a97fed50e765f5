//! The shared-memory link between two threads, each pinned to a core of its own.
#![allow(clippy::unwrap_used)] // a bench that cannot run has nothing to tell

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use divan::Bencher;
use divan::counter::ItemsCount;
use io::Port;
use io::shm::{ShmConfig, ShmPort};
use rustix::thread::{CpuSet, sched_setaffinity};
use wire::frame::{FrameSink, TxMeta};

fn main() {
    divan::main();
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // On one core it runs all the same, only slower.
    let _ = sched_setaffinity(None, &set);
}

fn pair(slots: u32) -> (ShmPort, ShmPort) {
    let config = ShmConfig {
        slots,
        ..ShmConfig::default()
    };
    let (mut a, mut b) = ShmPort::pair(config).unwrap();
    (a.remove(0), b.remove(0))
}

fn send(port: &mut ShmPort, len: usize) -> bool {
    port.send(|frame| {
        if let Some(head) = frame.first_chunk_mut::<64>() {
            *head = [7; 64];
        }
        TxMeta {
            len,
            ..TxMeta::default()
        }
    })
}

/// Receives a burst, looking at each frame's headers.
fn receive(port: &mut ShmPort) -> usize {
    port.receive(|frames| {
        for frame in frames {
            divan::black_box(frame.bytes.first_chunk::<54>());
        }
    })
}

/// A thread that does `turn` until it is dropped.
struct Other {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Other {
    fn start(mut port: ShmPort, mut turn: impl FnMut(&mut ShmPort) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            pin(1);
            while !stopped.load(Ordering::Relaxed) {
                turn(&mut port);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Frames from one core to the other, in bursts of 64.
#[divan::bench(args = [64, 256, 1024], sample_count = 20)]
fn one_way(bencher: Bencher<'_, '_>, slots: u32) {
    const FRAMES: usize = 100_000;
    pin(0);
    let (mut a, b) = pair(slots);
    let _other = Other::start(b, |port| {
        if receive(port) == 0 {
            std::hint::spin_loop();
        }
    });
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        let mut sent = 0;
        while sent < FRAMES {
            let before = sent;
            while sent < FRAMES && sent - before < 64 && send(&mut a, 64) {
                sent += 1;
            }
            a.flush().unwrap();
        }
    });
}

/// One frame there and back: both sides spin.
#[divan::bench(sample_count = 20)]
fn ping_pong_spinning(bencher: Bencher<'_, '_>) {
    pin(0);
    let (mut a, b) = pair(1024);
    let _other = Other::start(b, |port| {
        if receive(port) > 0 {
            send(port, 64);
            port.flush().unwrap();
        }
    });
    bencher.bench_local(|| {
        send(&mut a, 64);
        a.flush().unwrap();
        while receive(&mut a) == 0 {
            std::hint::spin_loop();
        }
    });
}

/// One frame there and back: both sides sleep.
#[divan::bench(sample_count = 20)]
fn ping_pong_sleeping(bencher: Bencher<'_, '_>) {
    pin(0);
    let (mut a, b) = pair(1024);
    let timeout = Some(std::time::Duration::from_millis(10));
    let _other = Other::start(b, move |port| {
        if receive(port) > 0 {
            send(port, 64);
        }
        // The end of the bench closes the link.
        let _ = port.wait(timeout, None);
    });
    bencher.bench_local(|| {
        send(&mut a, 64);
        while receive(&mut a) == 0 {
            a.wait(timeout, None).unwrap();
        }
    });
}
