//! `mtcp replay client`: sends the requests of a log when the log says, and compares what comes
//! back.

mod delays;
mod exchange;
mod flows;
mod meter;
mod plot;
mod report;
mod schedule;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::load::remedy;
use crate::machine::cpu_seconds;
use crate::net::{Url, nth_after};
use crate::output;
use crate::serve::millis;
use crate::signals::Stop;
use crate::sockets::Sockets;

use super::files::Log;
use flows::{Flows, Route};
use meter::Meter;
use report::Report;
use schedule::{Plan, Schedule};

const EXAMPLES: &str = "Examples:
  mtcp replay client log.jsonl http://10.0.0.2/ --io kernel
  mtcp replay client log.jsonl http://10.0.0.1/ --io shm:/tmp/link --addr 10.0.0.2/24 --copies 7 --json
  mtcp replay client log.jsonl http://10.0.0.2/ --io kernel --scale 0.1 --svg delay.svg";

/// Sends the requests of a log when the log says, to 'mtcp replay server' with the same log,
/// compares every byte, and reports how much longer each response took than in the log. Exits with
/// 1 if any transaction failed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClientArgs {
    /// Log to replay; - is standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Where the server is, http://HOST[:PORT]/
    #[arg(value_name = "URL")]
    url: Url,
    /// Copies of the log at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    copies: u32,
    /// Share of the log's connections, above 0 up to 1
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    scale: f64,
    /// Chooses the share
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ask for responses at once, rather than when they were there in the log: all of the time is
    /// extra then
    #[arg(long)]
    at_once: bool,
    /// Seconds that a transaction may take beyond its time in the log
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    timeout: f64,
    /// Take so many addresses from the URL's on, so that ports do not run out
    #[arg(long, value_name = "N", default_value_t = 1)]
    spread: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Plot the extra delay over time to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArgs,
}

impl ClientArgs {
    /// Replays the log; whether every transaction succeeded.
    pub(super) fn run(&self) -> anyhow::Result<bool> {
        let timeout = Duration::from_millis(millis(self.timeout, "--timeout")?);
        if !(self.scale > 0.0 && self.scale <= 1.0) {
            return Err(Failure::error(
                format!("--scale {} makes no sense", self.scale),
                "give a share of the log, above 0 up to 1; --copies makes it more",
            ));
        }
        let log = Log::open(&self.log)?;
        let link = self.link.open()?;
        let route = Route {
            targets: self.targets(&link.addresses)?,
            sources: link.addresses,
            timeout,
        };
        let plan = Plan {
            copies: self.copies.max(1),
            scale: self.scale,
            seed: self.seed,
            at_once: self.at_once,
            authority: self.url.authority(),
        };
        let schedule = Schedule::new(log, plan);
        match link.backend {
            Backend::Kernel(mut kernel) => self.replay(&mut kernel, schedule, route, link.label),
            Backend::Stack(mut stack, _mtcp) => {
                let result = self.replay(&mut *stack, schedule, route, link.label);
                match stack.link_error() {
                    Some(error) if result.is_err() => Err(anyhow::anyhow!("{error}")),
                    _ => result,
                }
            }
        }
    }

    fn replay<S: Sockets>(
        &self,
        sockets: &mut S,
        schedule: Schedule,
        route: Route,
        label: String,
    ) -> anyhow::Result<bool> {
        let waker = sockets.waker();
        let stop = Stop::watch(waker.context("cannot make a wake-up descriptor")?)?;
        let targets = route.targets.clone();
        let before = cpu_seconds();
        let (took, stats, delays) = {
            let mut flows = Flows::new(sockets, schedule, route)?;
            let took = flows.run(&stop, &Meter::new())?;
            (took, flows.stats, flows.delays)
        };
        let after = cpu_seconds();
        sockets.finish(Duration::from_millis(100));
        let report = Report {
            stats,
            delays,
            took,
            cpu: (after.0 - before.0, after.1 - before.1),
            label,
            copies: self.copies.max(1),
            scale: self.scale,
            stopped: stop.requested(),
        };
        self.tell(&report, &targets)?;
        Ok(report.stats.failed == 0 && (report.stats.succeeded > 0 || report.stopped))
    }

    fn tell(&self, report: &Report, targets: &[SocketAddr]) -> anyhow::Result<()> {
        let text = if self.json {
            report.json()
        } else {
            report.text()
        };
        output::print(&text)?;
        if let Some(path) = &self.svg {
            let title = format!("{} copies, {}", report.copies, report.label);
            plot::write(path, &title, report.delays.seconds())?;
        }
        if report.stats.is_dead() {
            let first = targets.first().map(SocketAddr::to_string);
            output::note(&format!(
                "mtcp: no connection to {} ({}): {}",
                first.unwrap_or_default(),
                report.stats.kinds_text(),
                remedy(&report.stats)
            ));
        }
        Ok(())
    }

    /// Every address of the server; `ours` are those that can reach them, any if empty.
    fn targets(&self, ours: &[IpAddr]) -> anyhow::Result<Vec<SocketAddr>> {
        let reachable =
            |ip: &IpAddr| ours.is_empty() || ours.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
        let first = self.url.resolve(reachable)?;
        if !reachable(&first.ip()) {
            return Err(Failure::error(
                format!("none of our addresses is of the family of {}", first.ip()),
                "add an --addr of its family",
            ));
        }
        let target = |offset| {
            let ip = nth_after(first.ip(), offset).ok_or_else(|| {
                Failure::error(
                    format!("--spread {} leaves the address space", self.spread),
                    "choose a smaller one",
                )
            })?;
            Ok(SocketAddr::new(ip, first.port()))
        };
        (0..self.spread.max(1)).map(target).collect()
    }
}
