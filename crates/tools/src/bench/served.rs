//! The server of a run, and the daemon that it attaches to, if it does.

use anyhow::Context as _;

use crate::process::{Running, start};
use crate::signals::Stop;

use super::end::work::WorkArgs;
use super::place::Place;
use super::side::Side;

/// Both end with this.
#[derive(Debug)]
pub(crate) struct Served {
    server: Running,
    daemon: Option<Running>,
    /// Whether the daemon's time is time of the server's processor.
    is_beside: bool,
}

impl Served {
    /// Starts what the next run of `side` needs.
    ///
    /// # Errors
    /// One of them could not start.
    pub(crate) fn start(
        place: &mut Place<'_>,
        side: Side,
        work: &WorkArgs,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        place.next_run();
        let daemon = place.daemon(side, work);
        let daemon = daemon.map(|command| start(command, stop).context("the daemon"));
        let daemon = daemon.transpose()?;
        let server = start(place.server(side, work), stop).context("the server")?;
        Ok(Self {
            server,
            daemon,
            is_beside: place.daemon_is_beside(),
        })
    }

    /// What the server said first.
    pub(crate) fn first_line(&self) -> &str {
        self.server.first_line()
    }

    /// The processes on the server's processor, for a command line.
    pub(crate) fn pids(&self) -> String {
        let daemon = self.daemon.as_ref().filter(|_| self.is_beside);
        match daemon {
            Some(daemon) => format!("{},{}", self.server.pid(), daemon.pid()),
            None => self.server.pid().to_string(),
        }
    }

    /// Asks them to stop: the server first, which the daemon serves.
    pub(crate) fn stop(self) {
        self.server.stop();
        if let Some(daemon) = self.daemon {
            daemon.stop();
        }
    }
}
