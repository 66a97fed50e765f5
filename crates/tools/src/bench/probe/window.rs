//! A run whose client measures for a while.

use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::process::output;
use crate::signals::Stop;

use crate::bench::end::outcome::Outcome;
use crate::bench::end::work::WorkArgs;
use crate::bench::place::Place;
use crate::bench::served::Served;
use crate::bench::side::Side;

/// A client takes so much longer than its window at most: it fills up, warms up, and closes what it
/// has.
const SLACK: Duration = Duration::from_secs(60);
/// Connections that may fail in a run that counts, by a thousand: a listener's backlog that
/// overflowed once is no reason to throw it away, and more than this is no measurement.
const FAILURES_PER_MILLE: u64 = 1;

/// What both ends do, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// What both ends do.
    pub(crate) work: WorkArgs,
    /// Seconds that count.
    pub(crate) seconds: f64,
    /// More options of the client.
    pub(crate) client: Vec<String>,
    /// The figures of a window, in the order of the case's metrics.
    pub(crate) figures: fn(&Outcome) -> Vec<f64>,
}

impl Window {
    /// Runs `side` once; its figures.
    ///
    /// # Errors
    /// An end could not start, took too long or lost connections.
    pub(crate) fn run(
        &self,
        place: &mut Place<'_>,
        side: Side,
        stop: &Stop,
    ) -> anyhow::Result<Vec<f64>> {
        let server = Served::start(place, side, &self.work, stop)?;
        let mut command = place.client(side, &self.work, server.first_line())?;
        command
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--server-pid", &server.pids()])
            .args(&self.client);
        let limit = SLACK + Duration::from_secs_f64(self.seconds);
        let text = output(command, limit, stop).context("the client")?;
        server.stop();
        let outcome: Outcome = serde_json::from_str(&text).context("the client said no outcome")?;
        check(&outcome, self.wanted())?;
        Ok((self.figures)(&outcome))
    }

    /// Connections that must be open when the window begins; at a fixed rate there are as many as
    /// it takes.
    fn wanted(&self) -> u32 {
        if self.client.iter().any(|word| word == "--rate") {
            0
        } else {
            self.work.concurrency
        }
    }
}

/// Refuses a run that did not measure what it should have, `wanted` connections at a time among it.
fn check(outcome: &Outcome, wanted: u32) -> anyhow::Result<()> {
    let Outcome {
        connections,
        messages,
        bytes,
        errors,
        ..
    } = outcome;
    if *connections == 0 && *messages == 0 && *bytes == 0 {
        bail!("nothing was transferred in the window ({errors} errors)");
    }
    // Some are always about to be replaced, and where they are short some end before the last is
    // there.
    if outcome.open * 2 < u64::from(wanted) {
        bail!(
            "only {} of {wanted} connections were open at a time: they end faster than others open, or the limit of open files (ulimit -n) is too low",
            outcome.open
        );
    }
    let all = outcome.open + connections;
    if errors * 1000 > all * FAILURES_PER_MILLE {
        bail!("{errors} connections failed, {connections} did not");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lost_connections_does_not_count() {
        let good = Outcome {
            connections: 100_000,
            messages: 100_000,
            errors: 1,
            ..Outcome::default()
        };
        assert!(check(&good, 0).is_ok());
        let lossy = Outcome {
            errors: 101,
            ..good
        };
        assert!(check(&lossy, 0).is_err());
        assert!(check(&Outcome::default(), 0).is_err());
        let few = Outcome { open: 49, ..lossy };
        let error = check(&few, 100).unwrap_err().to_string();
        assert!(error.contains("ulimit"), "{error}");
    }
}
