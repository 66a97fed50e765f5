//! `mtcp bench`: the kernel and mTCP in turn, on the same two processors, with the same programs.

mod case;
pub(crate) mod end;
mod noise;
mod options;
mod pairs;
mod place;
mod probe;
mod report;
pub(crate) mod statistics;
mod what;

use std::io::Write as _;

use crate::directory::Directory;
use crate::signals::Stop;

pub(crate) use options::BenchArgs;
use pairs::Runner;
use place::Place;
use report::Report;

impl BenchArgs {
    /// Measures; whether every run went well.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        let cases = self.cases()?;
        let cores = self.processors()?;
        crate::machine::raise_open_files();
        // Children end with their guards once a run sees the flag.
        let stop = Stop::watch(|| {})?;
        let directory = Directory::new("bench")?;
        let place = Place::new(self.link, self.mode, cores, &directory)?;
        let mut runner = Runner::new(place, self.pairs, &stop);
        let measured = runner.run(cases);
        let report = Report {
            what: self.what,
            options: self,
            cores,
            noise: runner.noise(),
            cases: &measured,
        };
        let text = if self.json {
            format!("{}\n", report.json())
        } else {
            report.text()
        };
        // Nobody may be reading.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(measured.iter().all(|case| case.failures.is_empty()) && !stop.requested())
    }
}
