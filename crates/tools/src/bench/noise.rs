//! How quiet the machine is: the same piece of work timed again and again, and what runs while
//! nothing should. And how near to each other the two processors are: a hypervisor may move them
//! while the benchmark runs, and what goes through memory shared by both takes several times as
//! long between caches that are far apart. And how long memory takes ([`chase`]).

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine;

use super::chase;
use super::end::usage::Usage;
use super::statistics::Series;

/// Steps of the calibration: some ten milliseconds.
const STEPS: u64 = 8_000_000;
/// How long nothing runs.
const PAUSE: Duration = Duration::from_millis(100);

/// Round trips of a cache line that are timed together, and how long to go on with that.
const ROUNDS: u32 = 1000;
const DISTANCE: Duration = Duration::from_millis(10);

/// What was seen between the runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    /// Milliseconds of the calibration, on both processors.
    calibration_ms: Series,
    /// Nanoseconds in which a cache line went from one processor to the other and back.
    distance_ns: Series,
    /// Nanoseconds of a load from more memory than the server's processor has cache of its own.
    load_ns: Series,
    /// Time of both processors while nothing of ours ran, nanoseconds. Summed up, because the
    /// kernel counts in steps of a tick.
    watched: u64,
    /// Of it, idle.
    idle: u64,
    /// Of it, taken by the hypervisor.
    steal: u64,
}

impl Noise {
    /// Looks once at both processors.
    pub(crate) fn sample(&mut self, cores: [usize; 2]) {
        for core in cores {
            self.calibration_ms.0.push(calibrate(core));
        }
        self.distance_ns.0.extend(distance(cores));
        self.load_ns.0.extend(chase::load_ns(cores[0]));
        let pid = std::process::id();
        let (start, before) = (Instant::now(), cores.map(|core| Usage::now(core, &[pid])));
        thread::sleep(PAUSE);
        let wall = start.elapsed().as_nanos() as u64;
        for (core, before) in cores.into_iter().zip(before) {
            let used = Usage::now(core, &[pid]).since(before);
            self.watched += wall;
            self.idle += used.idle;
            self.steal += used.steal;
        }
    }

    /// Percent of the time that both processors were busy while nothing of ours ran.
    fn others_percent(&self) -> f64 {
        let others = self.watched.saturating_sub(self.idle + self.steal);
        others as f64 * 100.0 / self.watched.max(1) as f64
    }

    /// Percent of the time that the hypervisor took.
    fn steal_percent(&self) -> f64 {
        self.steal as f64 * 100.0 / self.watched.max(1) as f64
    }

    /// Whether figures of this machine can be compared with those of another day: the calibration
    /// took the same time throughout, nobody else ran, and the hypervisor kept its hands off.
    pub(crate) fn quiet(&self) -> bool {
        self.slowdown_percent() < 10.0 && self.others_percent() < 5.0 && self.steal_percent() < 1.0
    }

    /// By how much the median calibration is slower than the fastest.
    fn slowdown_percent(&self) -> f64 {
        (self.calibration_ms.median() / self.calibration_ms.min() - 1.0) * 100.0
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "quiet": self.quiet(),
            "calibration_ms": {
                "median": self.calibration_ms.median(),
                "min": self.calibration_ms.min(),
                "max": self.calibration_ms.max(),
            },
            "cache_line_round_trip_ns": {
                "median": self.distance_ns.median(),
                "min": self.distance_ns.min(),
                "max": self.distance_ns.max(),
            },
            "load_from_8_mb_ns": {
                "median": self.load_ns.median(),
                "min": self.load_ns.min(),
                "max": self.load_ns.max(),
            },
            "others_percent": self.others_percent(),
            "steal_percent": self.steal_percent(),
        })
    }

    /// One line for people.
    pub(crate) fn text(&self) -> String {
        let verdict = if self.quiet() {
            "the machine was quiet"
        } else {
            "THE MACHINE WAS NOT QUIET: only the ratios mean something, and not much"
        };
        format!(
            "{verdict}: calibration {:.1} ms (fastest {:.1}, slowest {:.1}), others used {:.1}% of the two processors, the hypervisor {:.1}%{}{}",
            self.calibration_ms.median(),
            self.calibration_ms.min(),
            self.calibration_ms.max(),
            self.others_percent(),
            self.steal_percent(),
            span(
                "a cache line went from one to the other and back in",
                &self.distance_ns
            ),
            span("a load from 8 MB took", &self.load_ns),
        )
    }
}

/// What took how long, with the fastest and the slowest; nothing if that was not seen.
fn span(what: &str, nanos: &Series) -> String {
    if nanos.0.is_empty() {
        return String::new();
    }
    let (median, min, max) = (nanos.median(), nanos.min(), nanos.max());
    format!("; {what} {median:.0} ns ({min:.0}-{max:.0})")
}

/// Milliseconds that a fixed piece of work takes on a processor; NaN if it cannot run there.
fn calibrate(core: usize) -> f64 {
    let time = machine::on(core, || {
        let start = Instant::now();
        let mut state = 1_u64;
        for step in 0..STEPS {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(step),
            );
        }
        start.elapsed().as_secs_f64() * 1e3
    });
    time.unwrap_or(f64::NAN)
}

/// Nanoseconds in which a cache line goes from one processor to the other and back, by the fastest
/// of many batches; `None` if it does not.
fn distance([here, there]: [usize; 2]) -> Option<f64> {
    let (line, over) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let other = (Arc::clone(&line), Arc::clone(&over));
    let echo = thread::spawn(move || machine::pin(there).map(|()| echo(&other.0, &other.1)));
    let fastest = thread::spawn(move || {
        let pinned = machine::pin(here);
        let fastest = pinned.ok().and_then(|()| call(&line));
        over.store(true, Ordering::Release);
        fastest
    });
    let fastest = fastest.join().ok().flatten();
    let echoed = echo.join().is_ok_and(|echoed| echoed.is_ok());
    fastest.filter(|_| echoed)
}

/// Answers each odd number with the next, until it is `over`.
fn echo(line: &AtomicU32, over: &AtomicBool) {
    loop {
        let number = line.load(Ordering::Acquire);
        if number % 2 == 1 {
            line.store(number + 1, Ordering::Release);
        } else if over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Sends odd numbers and waits for each answer. Nanoseconds for one, in the fastest batch; `None`
/// without a batch in time.
fn call(line: &AtomicU32) -> Option<f64> {
    let end = Instant::now() + DISTANCE;
    let mut fastest: Option<f64> = None;
    let mut number = 1;
    loop {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            line.store(number, Ordering::Release);
            let mut looks = 0_u32;
            while line.load(Ordering::Acquire) != number + 1 {
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 16) && Instant::now() > end {
                    return fastest;
                }
            }
            number += 2;
        }
        let each = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        fastest = Some(fastest.map_or(each, |fastest| fastest.min(each)));
        if Instant::now() > end {
            return fastest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_called_noise() {
        let quiet = Noise {
            calibration_ms: Series(vec![10.0, 10.1, 10.2]),
            distance_ns: Series(vec![50.0, 300.0]),
            load_ns: Series(vec![120.0]),
            watched: 1000,
            idle: 980,
            steal: 5,
        };
        assert!(quiet.quiet());
        assert!(
            quiet
                .text()
                .ends_with("; a load from 8 MB took 120 ns (120-120)")
        );
        assert!(!Noise::default().text().contains(" ns "));
        for noisy in [
            Noise {
                calibration_ms: Series(vec![10.0, 15.0, 15.0]),
                ..quiet.clone()
            },
            Noise {
                idle: 500,
                ..quiet.clone()
            },
            Noise {
                steal: 20,
                idle: 980,
                ..quiet.clone()
            },
        ] {
            assert!(!noisy.quiet() && noisy.text().contains("NOT QUIET"));
        }
    }

    #[test]
    fn whoever_gives_up_waiting_for_an_answer_leaves_nobody_behind() {
        // The last question is answered, or was never read: the echo ends in either case.
        for number in [1, 2] {
            echo(&AtomicU32::new(number), &AtomicBool::new(true));
        }
        let line = AtomicU32::new(0);
        assert_eq!(call(&line), None, "nobody answers");
        assert_eq!(line.load(Ordering::Acquire), 1);
    }

    #[test]
    fn a_sample_has_figures_of_both_processors() {
        let (first, second) = machine::two_cores();
        let mut noise = Noise::default();
        noise.sample([first, second]);
        assert_eq!(noise.calibration_ms.0.len(), 2);
        assert!(noise.calibration_ms.min() > 0.0);
        assert_eq!(noise.load_ns.0.len(), 1);
        assert!(noise.watched >= 200_000_000);
        // None on a busy machine.
        assert!(noise.distance_ns.0.iter().all(|ns| (1.0..1e6).contains(ns)));
    }
}
