//! `mtcp replay make`: a log that has the statistics asked for.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use replay::log::Format;
use replay::make::{Arrivals, Maker, Wanted};

use crate::fail::Failure;
use crate::output;
use crate::signals::Stop;

use super::files::{NewLog, Progress};

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatName {
    /// A JSON object a line
    Json,
    /// A table
    Csv,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Json => Self::Json,
            FormatName::Csv => Self::Csv,
        }
    }
}

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Process {
    /// Independently of each other
    Poisson,
    /// At equal distances
    Uniform,
}

/// Makes a log to given statistics. By default they are those of the workload that the paper
/// replays, as far as it tells them: 2.8 million requests in 3 minutes, median 1.7 KB, mean 40 KB.
#[derive(Args, Debug)]
pub(crate) struct MakeArgs {
    /// Transactions
    #[arg(long, value_name = "N", default_value_t = Wanted::default().requests)]
    requests: u64,
    /// Seconds from the first beginning to the last [default: 180 for each 2800000 requests]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Median size of responses, bytes
    #[arg(long, value_name = "BYTES", default_value_t = Wanted::default().median_bytes)]
    median: f64,
    /// Mean size of responses, bytes
    #[arg(long, value_name = "BYTES", default_value_t = Wanted::default().mean_bytes)]
    mean: f64,
    /// Largest response, bytes
    #[arg(long, value_name = "BYTES", default_value_t = Wanted::default().largest_bytes)]
    largest: u64,
    /// When requests begin
    #[arg(long, value_enum, default_value_t = Process::Poisson)]
    arrivals: Process,
    /// Share of response bytes in chunks that came before, 0 to 0.99
    #[arg(long, value_name = "SHARE", default_value_t = Wanted::default().redundancy)]
    redundancy: f64,
    /// Transactions open at a time, on average
    #[arg(long, value_name = "N", default_value_t = Wanted::default().concurrency)]
    concurrency: f64,
    /// Transactions of a connection, on average
    #[arg(long, value_name = "N", default_value_t = Wanted::default().per_connection)]
    per_connection: f64,
    /// What is random depends on it alone
    #[arg(long, value_name = "N", default_value_t = Wanted::default().seed)]
    seed: u64,
    /// File to write; its name ends in .csv for a table [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How to write it, whatever the name of the file
    #[arg(long, value_enum)]
    format: Option<FormatName>,
}

impl MakeArgs {
    /// Makes the log; whether all of it is there.
    pub(super) fn run(&self) -> anyhow::Result<bool> {
        let wanted = self.wanted();
        let maker = Maker::new(wanted).map_err(|(cause, remedy)| Failure::error(cause, remedy))?;
        let stop = Stop::watch(|| {})?;
        let mut log = NewLog::create(self.out.as_deref(), self.format.map(Format::from))?;
        let progress = Progress::new(Some(wanted.requests));
        let mut made = 0;
        for transaction in maker {
            if stop.requested() {
                break;
            }
            log.write(&transaction)?;
            made += 1;
            progress.show(made);
        }
        drop(progress);
        log.finish()?;
        let whole = made == wanted.requests;
        if !whole {
            let all = wanted.requests;
            output::note(&format!(
                "mtcp: stopped after {made} of {all} transactions: run it again for all"
            ));
        }
        Ok(whole)
    }

    fn wanted(&self) -> Wanted {
        let usual = Wanted::default();
        let share = self.requests as f64 / usual.requests as f64;
        Wanted {
            requests: self.requests,
            seconds: self.seconds.unwrap_or(usual.seconds * share),
            median_bytes: self.median,
            mean_bytes: self.mean,
            largest_bytes: self.largest,
            arrivals: match self.arrivals {
                Process::Poisson => Arrivals::Poisson,
                Process::Uniform => Arrivals::Uniform,
            },
            redundancy: self.redundancy,
            concurrency: self.concurrency,
            per_connection: self.per_connection,
            seed: self.seed,
        }
    }
}
