//! `mtcp replay server`: answers the requests of a log with the content that its chunks expand to.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use replay::catalogue::Catalogue;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::machine::cpu_seconds;
use crate::output;
use crate::serve::server::{Limits, Server};
use crate::serve::{listen_all, millis, reached};
use crate::signals::Stop;
use crate::sockets::Sockets;

use super::answer::Answers;
use super::files::{Log, Progress};

const EXAMPLES: &str = "Examples:
  mtcp replay server log.jsonl --io afxdp:veth0 --addr 10.0.0.2/24
  mtcp replay server log.jsonl --io shm:/tmp/link --addr 10.0.0.1/24
  mtcp replay server log.jsonl --io kernel --port 8080";

/// Answers the requests of a log over HTTP/1.1. A response is as long as in the log, and has the
/// same content where the log names the same chunk; it begins when the logged response had ended,
/// unless the client asks for it at once.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServerArgs {
    /// Log whose responses to give; - is standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Port to listen on; 0 picks one
    #[arg(long, value_name = "N", default_value_t = 80)]
    port: u16,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    max_connections: usize,
    /// Connections that may wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    backlog: u32,
    /// Seconds a connection may be idle
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    idle_timeout: f64,
    #[command(flatten)]
    link: LinkArgs,
}

impl ServerArgs {
    /// Serves until SIGINT or SIGTERM.
    pub(super) fn run(&self) -> anyhow::Result<bool> {
        let idle = millis(self.idle_timeout, "--idle-timeout")?;
        let catalogue = read(&self.log)?;
        let link = self.link.open()?;
        let listen = self.link.listen_addresses(&link.addresses, self.port);
        let mut answers = Answers::new(catalogue, idle);
        match link.backend {
            Backend::Kernel(mut kernel) => {
                self.serve(&mut kernel, &mut answers, &listen, &link.label)
            }
            Backend::Stack(mut stack, _mtcp) => {
                let result = self.serve(&mut *stack, &mut answers, &listen, &link.label);
                match stack.link_error() {
                    Some(error) if result.is_err() => Err(anyhow::anyhow!("{error}")),
                    _ => result,
                }
            }
        }?;
        Ok(true)
    }

    fn serve<S: Sockets>(
        &self,
        sockets: &mut S,
        answers: &mut Answers,
        listen: &[std::net::SocketAddr],
        label: &str,
    ) -> anyhow::Result<()> {
        let listeners = listen_all(sockets, listen, self.backlog)?;
        let waker = sockets
            .waker()
            .context("cannot make a wake-up descriptor")?;
        let stop = Stop::watch(waker)?;
        output::say(&format!(
            "mtcp replay server: listening on {} ({label}): {} transactions of {}",
            reached(sockets, &listeners),
            answers.catalogue.len(),
            self.log.display()
        ));
        let limits = Limits {
            connections: self.max_connections.max(1),
            stop_grace: Duration::from_secs(5),
        };
        let start = Instant::now();
        let result = Server::new(sockets, answers, listeners, limits)
            .and_then(|mut server| server.run(&stop));
        let totals = result.map_err(|error| {
            Failure::error(format!("the link failed: {error}"), "see 'mtcp doctor'")
        })?;
        sockets.finish(Duration::from_millis(200));
        let (user, system) = cpu_seconds();
        output::say(&format!(
            "mtcp replay server: {} responses ({} refused), {} connections ({} reset, {} timed out), {} bytes in {:.1} s; cpu {user:.2} s user, {system:.2} s system",
            answers.served,
            answers.refused,
            totals.accepted,
            totals.aborted,
            totals.expired,
            answers.bytes,
            start.elapsed().as_secs_f64(),
        ));
        Ok(())
    }
}

fn read(path: &std::path::Path) -> anyhow::Result<Catalogue> {
    let mut log = Log::open(path)?;
    let progress = Progress::new(None);
    let mut catalogue = Catalogue::default();
    while let Some(transaction) = log.next()? {
        catalogue.add(&transaction);
        progress.show(catalogue.len() as u64);
    }
    if catalogue.is_empty() {
        return Err(Failure::error(
            format!("'{}' has no transactions", path.display()),
            "name a log that has, or make one with 'mtcp replay make'",
        ));
    }
    Ok(catalogue)
}
