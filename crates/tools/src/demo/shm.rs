//! The demonstration without privileges: client and server over shared memory, the kernel's
//! loopback beside them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::directory::Directory;
use crate::machine::two_cores;
use crate::output;
use crate::process::start;
use crate::programs::program;
use crate::signals::Stop;

use super::measure::{MEASURES, Measure, load, same, speed};

use super::size::Size;
use super::steps::{Rate, Steps, table};
use super::veth::stop_server;
use super::words::words;

/// The demonstration with all it needs.
struct Demo<'a> {
    directory: &'a Directory,
    program: String,
    size: Size,
    stop: &'a Stop,
    /// Clients so far; each has an address of its own, as each would be a machine of its own.
    clients: u32,
}

/// The port of the kernel's server, which an ordinary user may listen on.
const KERNEL_PORT: u16 = 18_077;

/// Runs it.
pub(super) fn run(
    steps: &mut Steps,
    directory: &Directory,
    size: Size,
    stop: &Stop,
) -> anyhow::Result<()> {
    let mut demo = Demo {
        directory,
        program: program()?,
        size,
        stop,
        clients: 0,
    };
    demo.transfers(steps);
    let rates = demo.rates(steps);
    if rates.iter().any(|rate| rate.ours.is_some()) {
        output::say(&table(
            "rates over shared memory; kernel over loopback",
            &rates,
        ));
    }
    Ok(())
}

impl Demo<'_> {
    fn path(&self, name: &str) -> String {
        self.directory.path(name).to_string_lossy().into_owned()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words(arguments));
        command
    }

    fn server_link(&self) -> String {
        format!(
            "--io shm:{} --addr 10.77.0.1/24 --addr fd77::1/64 --core {}",
            self.path("link"),
            two_cores().0
        )
    }

    fn client_link(&mut self) -> String {
        self.clients += 1;
        let host = 10 + self.clients;
        format!(
            "--io shm:{} --addr 10.77.0.{host}/24 --addr fd77::{host}/64 --core {}",
            self.path("link"),
            two_cores().1
        )
    }

    fn web(&self) -> String {
        format!("serve {} --upload {}", self.path(""), self.path("incoming"))
    }

    fn load(&mut self, arguments: &str) -> anyhow::Result<Value> {
        let link = self.client_link();
        load(
            self.command(&format!("load {arguments} {link}")),
            &[],
            self.stop,
        )
    }

    fn transfers(&mut self, steps: &mut Steps) {
        let arguments = format!("{} {}", self.web(), self.server_link());
        let started = steps.step("mtcp serve over shared memory", || {
            Ok((start(self.command(&arguments), self.stop)?, String::new()))
        });
        let Some(server) = started else { return };
        let (big, copy, uploaded) = (
            self.path("big"),
            self.path("copy"),
            self.path("incoming/uploaded"),
        );
        for (family, host) in [("IPv4", "10.77.0.1"), ("IPv6", "[fd77::1]")] {
            let megabytes = self.size.megabytes;
            steps.step(
                &format!("mtcp load fetches {megabytes} MB, {family}"),
                || {
                    let report = self.load(&format!("http://{host}/big -n 3 -o {copy}"))?;
                    let speed = speed(&report, megabytes);
                    let sum = same([Path::new(&copy), Path::new(&big)], self.stop)?;
                    Ok(((), format!("{speed:.0} MB/s, {sum}")))
                },
            );
            steps.step(&format!("mtcp load sends {megabytes} MB, {family}"), || {
                let report = self.load(&format!(
                    "http://{host}/uploaded -n 3 --method PUT --body {big}"
                ))?;
                let speed = speed(&report, megabytes);
                let sum = same([Path::new(&uploaded), Path::new(&big)], self.stop)?;
                Ok(((), format!("{speed:.0} MB/s, {sum}")))
            });
            let requests = self.size.requests;
            steps.step(
                &format!("mtcp load sends {requests} requests, 500 at a time, {family}"),
                || {
                    let report = self.load(&format!("http://{host}/small -n {requests} -c 500"))?;
                    Ok((
                        (),
                        format!(
                            "0 failed, {:.0} requests/s",
                            report["requests_per_s"].as_f64().unwrap_or_default()
                        ),
                    ))
                },
            );
        }
        stop_server(steps, server);
    }

    fn rates(&mut self, steps: &mut Steps) -> Vec<Rate> {
        let mut rates: Vec<Rate> = MEASURES.iter().map(|measure| measure.rate()).collect();
        for (measure, rate) in MEASURES.iter().zip(&mut rates) {
            rate.kernel = self.measure(steps, *measure, false);
            rate.ours = self.measure(steps, *measure, true);
        }
        rates
    }

    fn measure(&mut self, steps: &mut Steps, measure: Measure, ours: bool) -> Option<f64> {
        let title = format!(
            "{}: {}",
            if ours { "mTCP" } else { "kernel" },
            measure.what()
        );
        let (server_link, client_link, host) = if ours {
            (
                self.server_link(),
                self.client_link(),
                "10.77.0.1".to_owned(),
            )
        } else {
            let server = format!(
                "--io kernel --addr 127.0.0.1 --port {KERNEL_PORT} --core {}",
                two_cores().0
            );
            (
                server,
                format!("--io kernel --core {}", two_cores().1),
                format!("127.0.0.1:{KERNEL_PORT}"),
            )
        };
        steps.step(&title, || {
            let server = match (measure, ours) {
                (Measure::Raw, true) => format!("serve --raw 64/64 --port 9000 {server_link}"),
                (Measure::Raw, false) => format!("serve --raw 64/64 {server_link}"),
                _ => format!("{} {server_link}", self.web()),
            };
            let server = start(self.command(&server), self.stop)?;
            let arguments = measure.arguments(&host, self.size.seconds, &self.path("big"));
            // The kernel's server has the same port for everything.
            let arguments: Vec<&str> = arguments
                .iter()
                .map(|word| {
                    if !ours && word.ends_with(":9000") {
                        host.as_str()
                    } else {
                        word
                    }
                })
                .collect();
            let report = load(
                self.command(&format!("load {client_link}")),
                &arguments,
                self.stop,
            )?;
            server.stop();
            let value = measure.value(&report).unwrap_or_default();
            Ok((value, format!("{value:.0}")))
        })
    }
}
