//! `mtcp load`: a load generator.

pub(crate) mod client;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod stats;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueEnum};
use mtcp::config::Cidr;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::machine::cpu_seconds;
use crate::net::{Url, nth_after};
use crate::output;
use crate::serve::millis;
use crate::serve::raw::Sizes;
use crate::signals::Stop;
use crate::sockets::Sockets;

use client::Client;
use plan::{Body, Plan, Target};
use progress::Meter;
use report::Report;
use stats::{Kind, Stats};

const EXAMPLES: &str = "Examples:
  mtcp load http://10.0.0.2/ --io kernel -c 500 -n 100000
  mtcp load http://10.0.0.1/big --io afxdp:veth0 --addr 10.0.0.2/24 -n 1 -o big
  mtcp load http://10.0.0.1/new --io shm:/tmp/link --addr 10.0.0.2/24 -n 1 --method PUT --body file
  mtcp load 127.0.0.1:9000 --raw 64/64 --io kernel -c 1000 -d 5 --reset --spread 32 --json";

/// What to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Method {
    Get,
    Head,
    Put,
}

/// Loads a server and measures it. Exits with 1 if any request failed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("length").required(true).args(["requests", "duration"])))]
pub(crate) struct LoadArgs {
    /// What to load, http://HOST[:PORT]/PATH or HOST:PORT; several are taken in turn
    #[arg(value_name = "URL", required = true)]
    urls: Vec<Url>,
    /// Connections at a time
    #[arg(short = 'c', long, value_name = "CONNECTIONS", default_value_t = 1)]
    connections: u32,
    /// Requests in all
    #[arg(short = 'n', long, value_name = "REQUESTS")]
    requests: Option<u64>,
    /// Seconds to run
    #[arg(short = 'd', long, value_name = "SECONDS", conflicts_with = "requests")]
    duration: Option<f64>,
    /// Many requests per connection
    #[arg(short = 'k', long)]
    keep_alive: bool,
    /// Seconds one request may take
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    timeout: f64,
    /// Method
    #[arg(long, value_enum, ignore_case = true, default_value_t = Method::Get)]
    method: Method,
    /// Send this file with every request
    #[arg(long, value_name = "FILE", required_if_eq("method", "PUT"))]
    body: Option<PathBuf>,
    /// Write the body of the first response to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Send REQUEST bytes and expect RESPONSE bytes, instead of HTTP
    #[arg(long, value_name = "REQUEST/RESPONSE", conflicts_with_all = ["body", "output", "method"])]
    raw: Option<Sizes>,
    /// Close with RST after the server closed, so that no port is left waiting
    #[arg(long)]
    reset: bool,
    /// Take so many addresses from each URL's on, so that ports do not run out
    #[arg(long, value_name = "N", default_value_t = 1)]
    spread: u32,
    /// Go on where no connection can be had: otherwise the run ends with the first ten that fail
    /// before one succeeds
    #[arg(long)]
    keep_going: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    link: LinkArgs,
}

impl LoadArgs {
    /// Runs the load; whether every request succeeded.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        // What concerns the command line only comes before anything is opened.
        let timeout = Duration::from_millis(millis(self.timeout, "--timeout")?);
        let duration = self
            .duration
            .map(|seconds| millis(seconds, "-d").map(Duration::from_millis))
            .transpose()?;
        let body = self.body.as_ref().map(open_body).transpose()?;
        let output = self.output.as_ref().map(|path| {
            File::create(path).map_err(|error| {
                Failure::error(
                    format!("cannot write '{}': {error}", path.display()),
                    "choose another -o FILE",
                )
            })
        });
        let output = output.transpose()?;
        let link = self.link.open()?;
        let mut plan = Plan {
            targets: self.targets(&link.addresses, &link.networks, body.as_ref())?,
            sources: link.addresses,
            raw: self.raw,
            head: self.method == Method::Head,
            body,
            keep_alive: self.keep_alive,
            reset: self.reset,
            connections: self.connections.max(1) as usize,
            requests: self.requests,
            duration,
            timeout,
            keep_going: self.keep_going,
            output,
        };
        match link.backend {
            Backend::Kernel(mut kernel) => self.load(&mut kernel, &mut plan, link.label),
            Backend::Stack(mut stack, _mtcp) => {
                let result = self.load(&mut *stack, &mut plan, link.label);
                match stack.link_error() {
                    Some(error) if result.is_err() => Err(anyhow::anyhow!("{error}")),
                    _ => result,
                }
            }
        }
    }

    fn load<S: Sockets>(
        &self,
        sockets: &mut S,
        plan: &mut Plan,
        label: String,
    ) -> anyhow::Result<bool> {
        let stop = Stop::watch(
            sockets
                .waker()
                .context("cannot make a wake-up descriptor")?,
        )?;
        let meter = Meter::new(plan);
        let before = cpu_seconds();
        let result = Client::new(sockets, plan)?.run(&stop, &meter);
        meter.finish();
        let after = cpu_seconds();
        let (stats, took) = result.map_err(|error| {
            Failure::error(format!("the link failed: {error}"), "see 'mtcp doctor'")
        })?;
        sockets.finish(Duration::from_millis(100));
        let report = Report {
            stats,
            took,
            cpu: (after.0 - before.0, after.1 - before.1),
            label,
        };
        let text = if self.json {
            report.json() + "\n"
        } else {
            report.text()
        };
        output::print(&text)?;
        if !plan.keep_going && report.stats.is_dead() {
            output::note(&dead(plan, &report.stats));
        }
        Ok(report.stats.failed == 0 && (report.stats.succeeded > 0 || stop.requested()))
    }

    /// Every server with the request for it; `ours` are the addresses that can reach them, any if
    /// empty, and `networks` those on the link.
    fn targets(
        &self,
        ours: &[IpAddr],
        networks: &[Cidr],
        body: Option<&Body>,
    ) -> anyhow::Result<Vec<Target>> {
        let mut targets = Vec::new();
        for url in &self.urls {
            let reachable = |ip: &IpAddr| {
                ours.is_empty() || ours.iter().any(|own| own.is_ipv4() == ip.is_ipv4())
            };
            let first = url.resolve(reachable)?;
            if !reachable(&first.ip()) {
                return Err(Failure::error(
                    format!("none of our addresses is of the family of {}", first.ip()),
                    "add an --addr of its family",
                ));
            }
            for offset in 0..self.spread.max(1) {
                let ip = nth_after(first.ip(), offset).ok_or_else(|| {
                    Failure::error(
                        format!("--spread {} leaves the address space", self.spread),
                        "choose a smaller one",
                    )
                })?;
                targets.push(Target {
                    remote: SocketAddr::new(ip, first.port()),
                    routed: !networks.is_empty() && !networks.iter().any(|own| own.contains(ip)),
                    request: self.request(url, body),
                });
            }
        }
        Ok(targets)
    }

    fn request(&self, url: &Url, body: Option<&Body>) -> Vec<u8> {
        if let Some(sizes) = self.raw {
            return vec![b'q'; sizes.request];
        }
        let method = match self.method {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
        };
        let length = body
            .map(|body| format!("Content-Length: {}\r\n", body.length))
            .unwrap_or_default();
        let connection = if self.keep_alive {
            ""
        } else {
            "Connection: close\r\n"
        };
        format!("{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: mtcp-load\r\nAccept: */*\r\n{length}{connection}\r\n", url.target, url.authority()).into_bytes()
    }
}

/// Why the run ended, in one line.
fn dead(plan: &Plan, stats: &Stats) -> String {
    let targets: Vec<String> = plan
        .targets
        .iter()
        .take(3)
        .map(|target| target.remote.to_string())
        .collect();
    let more = if plan.targets.len() > targets.len() {
        ", …"
    } else {
        ""
    };
    format!(
        "mtcp: no connection to {}{more} ({}): {}; --keep-going goes on all the same",
        targets.join(", "),
        stats.kinds_text(),
        remedy(stats),
    )
}

/// What to do where no connection could be had.
pub(crate) fn remedy(stats: &Stats) -> &'static str {
    match stats.kinds.keys().next() {
        Some(Kind::NoRoute) => "give --gateway, or an --addr in its network",
        Some(Kind::NoGateway) => "see whether the gateway is right and on this link",
        Some(Kind::ConnectRefused) => "start the server, or name its port",
        _ => "see whether the host is up and on this link",
    }
}

fn open_body(path: &PathBuf) -> anyhow::Result<Body> {
    let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    match opened {
        Ok((file, metadata)) if metadata.is_file() => Ok(Body {
            file: OwnedFd::from(file),
            length: metadata.len(),
        }),
        Ok(_) => Err(Failure::error(
            format!("'{}' is no file", path.display()),
            "name a regular file with --body",
        )),
        Err(error) => Err(Failure::error(
            format!("cannot read '{}': {error}", path.display()),
            "name a readable file with --body",
        )),
    }
}
