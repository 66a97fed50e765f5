//! The client of a benchmark.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::net::nth_after;
use crate::serve::millis;
use crate::signals::Stop;
use crate::sockets::Sockets;

use super::flows::{Client, Plan};
use super::hold::Holder;
use super::work::{Work, WorkArgs};

/// Options of the client.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// Where the server listens
    target: SocketAddr,
    /// Take so many addresses from the server's on, so that ports do not run out
    #[arg(long, default_value_t = 1)]
    spread: u32,
    /// Seconds before the window
    #[arg(long, default_value_t = 0.5)]
    warm: f64,
    /// Seconds of the window
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// End the window with so many answered messages; fail if --seconds are over before
    #[arg(long)]
    responses: Option<u64>,
    /// Record response times
    #[arg(long)]
    latency: bool,
    /// Milliseconds between a response and the next message
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// Connections to begin per second, whether others end or not
    #[arg(long)]
    rate: Option<u32>,
    /// The server's process, and the daemon that it is attached to
    #[arg(long, value_delimiter = ',')]
    server_pid: Vec<u32>,
    /// The server's processor
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    link: LinkArgs,
}

impl ClientArgs {
    /// Runs the client; prints what it measured.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let plan = self.plan()?;
        let mut options = self.link.clone();
        options.room = self.work.room();
        options.prefault = self.work.prefault();
        match options.open()?.backend {
            Backend::Kernel(mut kernel) => Self::measure(&mut kernel, &plan),
            Backend::Stack(mut stack, _mtcp) => Self::measure(&mut *stack, &plan),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let targets: Option<Vec<SocketAddr>> = (0..self.spread.max(1))
            .map(|offset| {
                nth_after(self.target.ip(), offset)
                    .map(|ip| SocketAddr::new(ip, self.target.port()))
            })
            .collect();
        let window = |seconds, name| millis(seconds, name).map(Duration::from_millis);
        Ok(Plan {
            work: self.work,
            targets: targets.context("--spread leaves the address space")?,
            warm: window(self.warm, "--warm")?,
            window: window(self.seconds, "--seconds")?,
            responses: self.responses,
            latency: self.latency,
            pause: Duration::from_millis(self.pause),
            pace: self.rate.map(|rate| Duration::from_secs(1) / rate.max(1)),
            server_pids: self.server_pid.clone(),
            cores: [self.server_core, self.link.core.unwrap_or_default()],
        })
    }

    fn measure<S: Sockets>(sockets: &mut S, plan: &Plan) -> anyhow::Result<()> {
        let wake = sockets
            .waker()
            .context("cannot make a wake-up descriptor")?;
        let stop = Stop::watch(wake)?;
        let line = if plan.work.work == Work::Hold {
            let holder = Holder::new(sockets, plan.work, &plan.targets);
            holder.run(std::io::stdin().lock())?.to_string()
        } else {
            let outcome = Client::new(sockets, plan)?.run(&stop).map_err(|error| {
                Failure::error(format!("the link failed: {error}"), "see 'mtcp doctor'")
            })?;
            if let Some(wanted) = plan.responses.filter(|wanted| outcome.messages < *wanted) {
                let done = outcome.messages;
                return Err(Failure::error(
                    format!("only {done} of {wanted} messages were answered in time"),
                    "give it more --seconds",
                ));
            }
            serde_json::to_string(&outcome)?
        };
        sockets.finish(Duration::from_millis(100));
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }
}
