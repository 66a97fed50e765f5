//! `mtcp serve`: a static web server, or fixed-size transactions.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod cache;
pub(crate) mod conn;
pub(crate) mod raw;
pub(crate) mod receive;
pub(crate) mod root;
pub(crate) mod server;
pub(crate) mod upload;
pub(crate) mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::machine::cpu_seconds;
use crate::output;
use crate::signals::Stop;
use crate::sockets::{Errno, Handle, Sockets};
use http1::request;

use access::AccessLog;
use raw::{Raw, Sizes};
use root::Root;
use server::{Limits, Protocol, Server, Totals};
use web::{Settings, Web};

const EXAMPLES: &str = "Examples:
  mtcp serve /srv/www --io afxdp:veth0 --addr 10.0.0.2/24 --addr fd00::2/64
  mtcp serve . --io shm:/tmp/link --addr 10.0.0.1/24 --upload ./incoming
  mtcp serve . --io kernel --port 8080
  mtcp serve --raw 64/64 --io kernel --port 9000 --core 0";

/// Serves the files of a directory over HTTP/1.1.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Directory to serve
    #[arg(value_name = "DIR", required_unless_present = "raw")]
    directory: Option<PathBuf>,
    /// Port to listen on; 0 picks one
    #[arg(long, value_name = "N", default_value_t = 80)]
    port: u16,
    /// Take files by PUT and put them here
    #[arg(long, value_name = "DIR")]
    upload: Option<PathBuf>,
    /// Largest upload, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 32)]
    max_upload: u64,
    /// Note each answer in this file, in the Common Log Format
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Answer each REQUEST bytes with RESPONSE bytes and close, instead of HTTP
    #[arg(long, value_name = "REQUEST/RESPONSE", conflicts_with_all = ["directory", "upload", "access_log"])]
    raw: Option<Sizes>,
    /// With --raw: leave the connection open for more requests
    #[arg(short = 'k', long, requires = "raw")]
    keep_alive: bool,
    /// Memory for small files, MB; 0 reads them anew each time
    #[arg(long, value_name = "MB", default_value_t = 64)]
    cache: usize,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 65_000)]
    max_connections: usize,
    /// Connections that may wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    backlog: u32,
    /// Seconds within which a request's head must arrive
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    header_timeout: f64,
    /// Seconds a connection may be idle
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    idle_timeout: f64,
    #[command(flatten)]
    link: LinkArgs,
}

/// What a server did, for the last line.
struct Summary {
    served: u64,
    refused: u64,
    bytes: u64,
}

impl ServeArgs {
    /// Serves until SIGINT or SIGTERM.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        // What concerns the command line only comes before anything is opened.
        let web = match &self.directory {
            Some(directory) if self.raw.is_none() => Some(self.web(directory)?),
            _ => None,
        };
        let link = self.link.open()?;
        let listen = self.link.listen_addresses(&link.addresses, self.port);
        match link.backend {
            Backend::Kernel(mut kernel) => self.serve(&mut kernel, web, &listen, &link.label),
            Backend::Stack(mut stack, _mtcp) => {
                let result = self.serve(&mut *stack, web, &listen, &link.label);
                match stack.link_error() {
                    Some(error) if result.is_err() => Err(anyhow::anyhow!("{error}")),
                    _ => result,
                }
            }
        }
    }

    fn web(&self, directory: &Path) -> anyhow::Result<Web> {
        let root = open_root(directory)?;
        let uploads = self.upload.as_deref().map(open_root).transpose()?;
        let settings = Settings {
            request: request::Limits::default(),
            header_timeout: millis(self.header_timeout, "--header-timeout")?,
            idle_timeout: millis(self.idle_timeout, "--idle-timeout")?,
            max_upload: self.max_upload,
            cache_bytes: self.cache.saturating_mul(1 << 20),
        };
        let access = self.access_log.as_deref().map(AccessLog::open);
        Ok(Web::new(root, uploads, access.transpose()?, settings))
    }

    fn serve<S: Sockets>(
        &self,
        sockets: &mut S,
        web: Option<Web>,
        listen: &[SocketAddr],
        label: &str,
    ) -> anyhow::Result<()> {
        let listeners = listen_all(sockets, listen, self.backlog)?;
        let waker = sockets
            .waker()
            .context("cannot make a wake-up descriptor")?;
        let stop = Stop::watch(waker)?;
        self.announce(sockets, &listeners, label)?;
        match (web, self.raw) {
            (Some(mut web), _) => {
                self.run_protocol(sockets, &mut web, listeners, &stop, |web, _| Summary {
                    served: web.served,
                    refused: web.refused,
                    bytes: web.outbox.total,
                })
            }
            (None, Some(sizes)) => {
                let mut raw = Raw::new(
                    sizes,
                    self.keep_alive,
                    millis(self.idle_timeout, "--idle-timeout")?,
                );
                self.run_protocol(sockets, &mut raw, listeners, &stop, |raw, _| Summary {
                    served: raw.served,
                    refused: 0,
                    bytes: raw.served * sizes.response as u64,
                })
            }
            (None, None) => Err(Failure::error(
                "nothing to serve",
                "name a directory or give --raw",
            )),
        }
    }

    /// One line that says where the server can be reached; programs wait for it.
    fn announce<S: Sockets>(
        &self,
        sockets: &S,
        listeners: &[Handle],
        label: &str,
    ) -> anyhow::Result<()> {
        let what = match (&self.directory, self.raw) {
            (_, Some(sizes)) => format!("raw {}/{}", sizes.request, sizes.response),
            (Some(directory), None) => directory.display().to_string(),
            (None, None) => String::new(),
        };
        let addresses = reached(sockets, listeners);
        output::say(&format!(
            "mtcp serve: listening on {addresses} ({label}): {what}"
        ));
        Ok(())
    }

    fn run_protocol<S: Sockets, P: Protocol>(
        &self,
        sockets: &mut S,
        protocol: &mut P,
        listeners: Vec<Handle>,
        stop: &Stop,
        summary: impl Fn(&P, &Totals) -> Summary,
    ) -> anyhow::Result<()> {
        let limits = Limits {
            connections: self.max_connections.max(1),
            stop_grace: Duration::from_secs(5),
        };
        let start = Instant::now();
        let result = Server::new(sockets, protocol, listeners, limits)
            .and_then(|mut server| server.run(stop));
        let totals = result.map_err(|error| {
            Failure::error(format!("the link failed: {error}"), "see 'mtcp doctor'")
        })?;
        sockets.finish(Duration::from_millis(200));
        let Summary {
            served,
            refused,
            bytes,
        } = summary(protocol, &totals);
        let (user, system) = cpu_seconds();
        output::say(&format!(
            "mtcp serve: {served} requests ({refused} errors), {} connections ({} reset, {} timed out), {bytes} bytes in {:.1} s; cpu {user:.2} s user, {system:.2} s system",
            totals.accepted,
            totals.aborted,
            totals.expired,
            start.elapsed().as_secs_f64(),
        ));
        Ok(())
    }
}

/// Listens at each of `addresses`.
pub(crate) fn listen_all<S: Sockets>(
    sockets: &mut S,
    addresses: &[SocketAddr],
    backlog: u32,
) -> anyhow::Result<Vec<Handle>> {
    let mut listeners = Vec::new();
    for address in addresses {
        match sockets.listen(*address, backlog.max(1)) {
            Ok(listener) => listeners.push(listener),
            // A machine without IPv6, asked for everything.
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
                if address.ip().is_unspecified() && !listeners.is_empty() => {}
            Err(error) => return Err(listen_failure(*address, error)),
        }
    }
    Ok(listeners)
}

/// Where `listeners` can be reached, in words.
pub(crate) fn reached<S: Sockets>(sockets: &S, listeners: &[Handle]) -> String {
    let addresses: Vec<String> = listeners
        .iter()
        .filter_map(|listener| sockets.local_addr(*listener).ok())
        .map(|address| address.to_string())
        .collect();
    addresses.join(" and ")
}

fn open_root(directory: &Path) -> anyhow::Result<Root> {
    Root::new(directory).map_err(|error| {
        Failure::error(
            format!("cannot open directory '{}': {error}", directory.display()),
            "name a directory that this user may read",
        )
    })
}

/// A time-out in seconds as milliseconds.
pub(crate) fn millis(seconds: f64, option: &str) -> anyhow::Result<u64> {
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err(Failure::error(
            format!("{option} {seconds} makes no sense"),
            "give seconds, 0.001 to 86400",
        ));
    }
    Ok((seconds * 1000.0) as u64)
}

fn listen_failure(address: SocketAddr, error: Errno) -> anyhow::Error {
    let (cause, remedy) = match error {
        Errno::ADDRINUSE => (
            format!("address {address} is in use"),
            "stop the program that listens there or choose another --port".to_owned(),
        ),
        Errno::ADDRNOTAVAIL => (
            format!("address {} is not one of this machine", address.ip()),
            "choose another --addr".to_owned(),
        ),
        Errno::ACCESS if address.port() > 1023 || rustix::process::geteuid().is_root() => (
            format!("the host's firewall keeps port {} closed", address.port()),
            "open it there, or to everybody with --ignore-firewall".to_owned(),
        ),
        Errno::ACCESS | Errno::PERM => (
            format!("port {} is reserved", address.port()),
            "run as root or choose a --port above 1023".to_owned(),
        ),
        other => (
            format!("cannot listen on {address}: {other}"),
            "see 'mtcp doctor'".to_owned(),
        ),
    };
    Failure::error(cause, remedy)
}
