//! A path between two kernels' interfaces, longer and worse than a veth pair: a rate, a delay, a queue, faults by seed.
//!
//! Where the kernel has no netem: both ends are TAP interfaces, and a thread here carries the frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use io::Port;
use io::tap::{TapConfig, TapPort};
use wire::frame::{FrameSink, TxMeta};
use wire::impair::{Impairer, Impairments};

use crate::Namespace;

/// Longest sleep while the other interface may have got a frame.
const GLANCE: Duration = Duration::from_micros(200);

/// What the frames meet, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bits per second.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// Bytes that may wait for the line; what comes on top is lost.
    pub queue: usize,
    /// Besides: loss and so on. A delay here adds to the other.
    pub faults: Impairments,
}

/// A running path; ends when dropped.
#[derive(Debug)]
pub struct Path {
    stop: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

impl Path {
    /// Makes the interface `name` in both namespaces and carries frames between them.
    pub fn between(left: &Namespace, right: &Namespace, name: &str, shape: Shape) -> Self {
        let mut carrier = Carrier {
            ends: [open(left, name), open(right, name)],
            lines: [1, 2].map(|seed| Line::new(shape, seed)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let carrier = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                carrier.turn();
            }
        });
        Self {
            stop,
            carrier: Some(carrier),
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(carrier) = self.carrier.take() {
            // If it panicked, the test has failed by what it saw of that.
            let _ = carrier.join();
        }
    }
}

fn open(namespace: &Namespace, name: &str) -> TapPort {
    let mut ports = namespace.enter(|| TapPort::open(&TapConfig::new(name)).unwrap());
    // Nobody here finishes checksums.
    namespace.run("ethtool", &format!("-K {name} tx off gso off gro off"));
    ports.remove(0)
}

/// Both directions.
struct Carrier {
    ends: [TapPort; 2],
    lines: [Line; 2],
}

impl Carrier {
    fn turn(&mut self) {
        let now = Instant::now();
        let [left, right] = &mut self.ends;
        let [to_right, to_left] = &mut self.lines;
        let moved = to_right.carry(now, left, right) | to_left.carry(now, right, left);
        if !moved {
            let next = self.lines.iter().filter_map(Line::next).min();
            let until = next.map_or(GLANCE, |at| at.saturating_duration_since(now).min(GLANCE));
            // A namespace that goes away takes its interface along; the test is ending then.
            let _ = self.ends[0].wait(Some(until), None);
        }
    }
}

/// One direction: what is on its way, in the order of arrival.
struct Line {
    shape: Shape,
    faults: Impairer,
    /// When the line has sent all that it was given.
    free_at: Instant,
    flying: VecDeque<(Instant, Vec<u8>)>,
    /// Frames to use again.
    spare: Vec<Vec<u8>>,
}

impl Line {
    fn new(shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            faults: Impairer::new(shape.faults, seed),
            free_at: Instant::now(),
            flying: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    fn next(&self) -> Option<Instant> {
        self.flying.front().map(|(at, _)| *at)
    }

    /// Whether there was anything to do.
    fn carry(&mut self, now: Instant, from: &mut TapPort, to: &mut TapPort) -> bool {
        let taken = from.receive(|frames| {
            for frame in frames {
                self.take(now, frame.bytes);
            }
        });
        let given = self.deliver(now, to);
        taken > 0 || given
    }

    fn take(&mut self, now: Instant, bytes: &[u8]) {
        let waiting = self.free_at.saturating_duration_since(now);
        let waiting = waiting.as_nanos() * u128::from(self.shape.rate) / 8_000_000_000;
        let verdict = self.faults.decide(bytes.len());
        if verdict.drop || waiting as usize + bytes.len() > self.shape.queue {
            return;
        }
        let time = bytes.len() as u64 * 8_000_000_000 / self.shape.rate;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(time);
        let arrival = self.free_at + self.shape.delay + verdict.delay;
        for _ in 0..verdict.copies {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(bytes);
            if let Some((index, mask)) = verdict.corrupt {
                frame[index] ^= mask;
            }
            let place = self.flying.partition_point(|(at, _)| *at <= arrival);
            self.flying.insert(place, (arrival, frame));
        }
    }

    fn deliver(&mut self, now: Instant, to: &mut TapPort) -> bool {
        let mut any = false;
        while self.next().is_some_and(|at| at <= now) {
            let Some((_, frame)) = self.flying.front() else {
                break;
            };
            let sent = to.send(|space| {
                let len = frame.len().min(space.len());
                space[..len].copy_from_slice(&frame[..len]);
                TxMeta {
                    len,
                    ..TxMeta::default()
                }
            });
            if sent {
                any = true;
                self.spare.extend(self.flying.pop_front().map(|(_, f)| f));
            } else {
                // The port's burst is full.
                let _ = to.flush();
            }
        }
        let _ = to.flush();
        any
    }
}
