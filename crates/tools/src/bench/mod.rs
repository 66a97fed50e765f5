//! `mtcp bench`: the kernel and mTCP in turn, on the same two processors, with the same programs.

mod all;
mod baseline;
mod case;
mod chase;
pub(crate) mod end;
mod network;
mod noise;
mod options;
mod pairs;
mod place;
mod probe;
mod report;
mod served;
pub(crate) mod side;
pub(crate) mod statistics;
mod what;

use crate::directory::Directory;
use crate::output;
use crate::signals::Stop;

pub(crate) use options::BenchArgs;
use pairs::Runner;
use place::{Place, Setting};
use report::Report;

impl BenchArgs {
    /// Measures; whether every run went well.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        // Children end with their guards once a run sees the flag.
        let stop = Stop::watch(|| {})?;
        if self.all {
            return all::run(self, &self.into, &stop);
        }
        let report = self.measure(&stop)?;
        if let Some(directory) = &self.svg {
            let path = report.plot(directory, &report.plot_name())?;
            output::note(&format!("plotted to {}", path.display()));
        }
        let text = if self.json {
            format!("{}\n", report.json())
        } else {
            report.text()
        };
        output::print(&text)?;
        Ok(report.went_well() && !stop.requested())
    }

    fn measure(&self, stop: &Stop) -> anyhow::Result<Report> {
        let cases = self.cases()?;
        let cores = self.processors()?;
        let setting = Setting {
            link: self.link,
            mode: self.mode,
            client: self.client(),
            steer: self.steer,
            kernel_congestion: self.kernel_congestion,
            cores,
            daemon_core: self.daemon_core(cores),
        };
        crate::machine::raise_open_files();
        let directory = Directory::new("bench")?;
        let place = Place::new(setting, &directory)?;
        let baseline = place.baseline()?;
        let mut runner = Runner::new(place, self.pairs, stop);
        let cases = runner.run(cases);
        Ok(Report {
            what: self.what(),
            options: self.clone(),
            cores: setting.cores,
            noise: runner.noise().clone(),
            baseline,
            cases,
        })
    }
}
