//! Runs all sides of a case in turn, so that whatever the machine does meets all of them.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::signals::Stop;

use super::case::{Case, Measured};
use super::noise::Noise;
use super::place::Place;

/// Runs cases.
pub(crate) struct Runner<'a> {
    place: Place<'a>,
    pairs: u32,
    stop: &'a Stop,
    noise: Noise,
}

impl<'a> Runner<'a> {
    /// Each side so many times.
    pub(crate) fn new(place: Place<'a>, pairs: u32, stop: &'a Stop) -> Self {
        Self {
            place,
            pairs,
            stop,
            noise: Noise::default(),
        }
    }

    /// What the machine did meanwhile.
    pub(crate) fn noise(&self) -> &Noise {
        &self.noise
    }

    /// Runs all of `cases`, or as many as there is time for until somebody asks to stop.
    pub(crate) fn run(&mut self, cases: Vec<Case>) -> Vec<Measured> {
        let runs: usize = cases.iter().map(|case| case.sides.len()).sum();
        let bar = bar(runs as u64 * u64::from(self.pairs));
        let measured = cases.into_iter().map(|case| self.measure(case, &bar));
        let measured = measured.collect();
        bar.finish_and_clear();
        measured
    }

    fn measure(&mut self, case: Case, bar: &ProgressBar) -> Measured {
        let mut measured = Measured::new(case);
        let mut sides: Vec<usize> = (0..measured.case.sides.len()).collect();
        for _ in 0..self.pairs {
            if self.stop.requested() {
                break;
            }
            sides.retain(|&side| self.side(&mut measured, side, bar));
        }
        measured
    }

    /// One run of the side at `index`; false if it failed. The others go on without it: the figures
    /// that it has are those of the first pairs, so that all are still in step.
    fn side(&mut self, measured: &mut Measured, index: usize, bar: &ProgressBar) -> bool {
        let Some(side) = measured.case.sides.get(index).copied() else {
            return false;
        };
        bar.set_message(format!("{}: {}", measured.case.title, side.title()));
        self.noise.sample(self.place.cores());
        let result = measured.case.probe.run(&mut self.place, side, self.stop);
        bar.inc(1);
        match result {
            Ok(values) => {
                let row = measured.values.get_mut(index).into_iter().flatten();
                for (series, value) in row.zip(values) {
                    series.0.push(value);
                }
                true
            }
            Err(error) => {
                let failure = format!("{}, {}: {error:#}", measured.case.title, side.title());
                measured.failures.push(failure);
                false
            }
        }
    }
}

/// A bar on a terminal, nothing elsewhere.
fn bar(length: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left  {msg}") {
        bar.set_style(style);
    }
    bar
}
