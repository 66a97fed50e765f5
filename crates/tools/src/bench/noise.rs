//! How quiet the machine is: the same piece of work timed again and again, and what runs while nothing should.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine;

use super::end::usage::Usage;
use super::statistics::Series;

/// Steps of the calibration: some ten milliseconds.
const STEPS: u64 = 8_000_000;
/// How long nothing runs.
const PAUSE: Duration = Duration::from_millis(100);

/// What was seen between the runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    /// Milliseconds of the calibration, on both processors.
    calibration_ms: Series,
    /// Time of both processors while nothing of ours ran, nanoseconds. Summed up, because the kernel counts in steps of a tick.
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
        let pid = std::process::id();
        let (start, before) = (Instant::now(), cores.map(|core| Usage::now(core, pid)));
        std::thread::sleep(PAUSE);
        let wall = start.elapsed().as_nanos() as u64;
        for (core, before) in cores.into_iter().zip(before) {
            let used = Usage::now(core, pid).since(before);
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

    /// Whether figures of this machine can be compared with those of another day: the calibration took the same time throughout, nobody
    /// else ran, and the hypervisor kept its hands off.
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
            "{verdict}: calibration {:.1} ms (fastest {:.1}, slowest {:.1}), others used {:.1}% of the two processors, the hypervisor {:.1}%",
            self.calibration_ms.median(),
            self.calibration_ms.min(),
            self.calibration_ms.max(),
            self.others_percent(),
            self.steal_percent(),
        )
    }
}

/// Milliseconds that a fixed piece of work takes on a processor; NaN if it cannot run there.
fn calibrate(core: usize) -> f64 {
    let thread = std::thread::spawn(move || {
        machine::pin(core).ok()?;
        let start = Instant::now();
        let mut state = 1_u64;
        for step in 0..STEPS {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(step),
            );
        }
        Some(start.elapsed().as_secs_f64() * 1e3)
    });
    thread.join().ok().flatten().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_called_noise() {
        let quiet = Noise {
            calibration_ms: Series(vec![10.0, 10.1, 10.2]),
            watched: 1000,
            idle: 980,
            steal: 5,
        };
        assert!(quiet.quiet());
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
    fn a_sample_has_figures_of_both_processors() {
        let (first, second) = machine::two_cores();
        let mut noise = Noise::default();
        noise.sample([first, second]);
        assert_eq!(noise.calibration_ms.0.len(), 2);
        assert!(noise.calibration_ms.min() > 0.0);
        assert!(noise.watched >= 200_000_000);
    }
}
