//! The text form of impairments:
//! `loss=1%,reorder=0.5%,dup=1%,corrupt=1%,delay=5ms,jitter=1ms,seed=7`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest delay or jitter of a spec: more is a typing error, and would keep frames for ever.
const LONGEST: Duration = Duration::from_secs(60);

/// What to do to frames. Nothing by default. Probabilities are parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Impairments {
    /// Probability that a frame is lost.
    pub loss_ppm: u32,
    /// Probability that a frame arrives twice.
    pub duplicate_ppm: u32,
    /// Probability that a frame is held back, so that later ones overtake it.
    pub reorder_ppm: u32,
    /// Probability that a byte of a frame is changed.
    pub corrupt_ppm: u32,
    /// Delay of every frame.
    pub delay: Duration,
    /// Each frame is delayed by a random time up to this one more. Frames closer together than that
    /// change order.
    pub jitter: Duration,
    /// Seed of the decisions.
    pub seed: u64,
}

impl Impairments {
    /// Whether frames pass as they are.
    pub fn is_none(&self) -> bool {
        *self
            == Self {
                seed: self.seed,
                ..Self::default()
            }
    }
}

/// Why a text is not a spec; one line that quotes the offending part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    part: String,
    problem: &'static str,
}

impl SpecError {
    fn new(part: &str, problem: &'static str) -> Self {
        Self {
            part: part.to_owned(),
            problem,
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "impairment {:?}: {}", self.part, self.problem)
    }
}

impl std::error::Error for SpecError {}

/// Parses a comma-separated list of `loss`, `dup`, `reorder`, `corrupt` (percentages: `1%`,
/// `0.01%`), `delay`, `jitter` (`5ms`, `300us`, `1s`, `20000ns`) and `seed` (a number). An empty
/// text, and `none`, impair nothing.
impl FromStr for Impairments {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        if matches!(text.trim(), "" | "none") {
            return Ok(spec);
        }
        for part in text.split(',') {
            let part = part.trim();
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError::new(part, "expected KEY=VALUE"))?;
            let failed = |problem| SpecError::new(part, problem);
            match key.trim() {
                "loss" => spec.loss_ppm = percent(value).map_err(failed)?,
                "dup" | "duplicate" => spec.duplicate_ppm = percent(value).map_err(failed)?,
                "reorder" => spec.reorder_ppm = percent(value).map_err(failed)?,
                "corrupt" => spec.corrupt_ppm = percent(value).map_err(failed)?,
                "delay" => spec.delay = duration(value).map_err(failed)?,
                "jitter" => spec.jitter = duration(value).map_err(failed)?,
                "seed" => {
                    let seed = value.trim().parse();
                    spec.seed =
                        seed.map_err(|_| failed("the seed is a number from 0 to 2^64-1"))?;
                }
                _ => {
                    let known =
                        "unknown key; known are loss, dup, reorder, corrupt, delay, jitter, seed";
                    return Err(failed(known));
                }
            }
        }
        Ok(spec)
    }
}

fn percent(value: &str) -> Result<u32, &'static str> {
    let problem = "expected a percentage from 0% to 100%, as in 0.5%";
    let number = value.trim().strip_suffix('%').ok_or(problem)?;
    let number = decimal(number).ok_or(problem)?;
    // Two digits of a percentage are four of parts per million.
    let ppm = number * 10_000.0;
    if !(0.0..=1_000_000.0).contains(&ppm) {
        return Err(problem);
    }
    Ok(ppm.round() as u32)
}

fn duration(value: &str) -> Result<Duration, &'static str> {
    let problem = "expected a time with its unit, as in 5ms, 300us or 1s";
    let value = value.trim();
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let nanos_per_unit = match value.strip_prefix(digits) {
        Some("s") => 1e9,
        Some("ms") => 1e6,
        Some("us") => 1e3,
        Some("ns") => 1.0,
        _ => return Err(problem),
    };
    let nanos = decimal(digits).ok_or(problem)? * nanos_per_unit;
    if nanos > LONGEST.as_nanos() as f64 {
        return Err("at most 60s");
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// A plain decimal number: no sign, no exponent, no `inf`.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    text.parse().ok()
}

impl fmt::Display for Impairments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let Self {
            loss_ppm,
            duplicate_ppm,
            reorder_ppm,
            corrupt_ppm,
            delay,
            jitter,
            seed,
        } = *self;
        let rates = [
            ("loss", loss_ppm),
            ("dup", duplicate_ppm),
            ("reorder", reorder_ppm),
            ("corrupt", corrupt_ppm),
        ];
        for (key, ppm) in rates {
            if ppm != 0 {
                write!(f, "{key}={}%,", f64::from(ppm) / 10_000.0)?;
            }
        }
        for (key, time) in [("delay", delay), ("jitter", jitter)] {
            if !time.is_zero() {
                write!(f, "{key}={}ns,", time.as_nanos())?;
            }
        }
        write!(f, "seed={seed}")
    }
}
