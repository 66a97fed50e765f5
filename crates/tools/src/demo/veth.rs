//! The demonstration as root: AF_XDP on a veth pair, the kernel at the other end.

use std::path::Path;
use std::process::Command;

use crate::directory::Directory;
use crate::machine::two_cores;
use crate::output;
use crate::process::{Running, start};
use crate::programs::program;
use crate::signals::Stop;

use super::lab::{KERNEL_SERVER, KERNEL_THERE, Lab, OUR_NETWORK};
use super::measure::{MEASURES, Measure, ab, curl, load, same, speed};

use super::size::Size;
use super::steps::{Rate, Steps, table};
use super::words::words;

/// Last part of the addresses that mTCP owns.
const OURS: u32 = 1;

/// The demonstration with all it needs.
struct Demo<'a> {
    lab: Lab,
    directory: &'a Directory,
    program: String,
    size: Size,
    stop: &'a Stop,
}

/// Whose server is measured.
#[derive(Clone, Copy)]
enum Measured {
    Ours,
    Kernel,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    v6: bool,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "IPv4",
        v6: false,
    },
    Family {
        name: "IPv6",
        v6: true,
    },
];

impl Family {
    /// The address ending in `host`, as in a URL.
    fn host(self, host: u32) -> String {
        if self.v6 {
            format!("[fd77::{host}]")
        } else {
            format!("{OUR_NETWORK}.{host}")
        }
    }
}

/// Runs it.
pub(super) fn run(
    steps: &mut Steps,
    directory: &Directory,
    size: Size,
    stop: &Stop,
) -> anyhow::Result<()> {
    let program = program()?;
    let made = steps.step("two network namespaces joined by a veth pair", || {
        Ok((Lab::new()?, String::new()))
    });
    let Some(lab) = made else { return Ok(()) };
    let demo = Demo {
        lab,
        directory,
        program,
        size,
        stop,
    };
    demo.serve(steps);
    demo.fetch(steps);
    let rates = demo.rates(steps);
    if rates.iter().any(|rate| rate.ours.is_some()) {
        output::say(&table(
            "rates to the kernel's client, a veth pair each",
            &rates,
        ));
        output::say(
            "mTCP: AF_XDP on one pair. Kernel: a pair of its own. Both pairs are as the kernel makes them.",
        );
    }
    Ok(())
}

impl Demo<'_> {
    fn path(&self, name: &str) -> String {
        self.directory.path(name).to_string_lossy().into_owned()
    }

    /// `mtcp` in the namespace of mTCP's interface.
    fn ours(&self, arguments: &str) -> Command {
        let mut command = self.lab.in_ours(&self.program);
        command.args(words(arguments));
        command
    }

    /// `mtcp` in the kernel's namespace.
    fn theirs(&self, arguments: &str) -> Command {
        let mut command = self.lab.in_theirs(&self.program);
        command.args(words(arguments));
        command
    }

    /// Options for AF_XDP with the addresses ending in `host`.
    fn link(host: u32) -> String {
        format!(
            "--io afxdp:mtcp0 --addr {OUR_NETWORK}.{host}/24 --addr fd77::{host}/64 --core {}",
            two_cores().0
        )
    }

    fn web(&self) -> String {
        format!("serve {} --upload {}", self.path(""), self.path("incoming"))
    }

    /// mTCP serves, the kernel's programs fetch.
    fn serve(&self, steps: &mut Steps) {
        let started = steps.step("mtcp serve over AF_XDP", || {
            Ok((
                start(
                    self.ours(&format!("{} {}", self.web(), Self::link(OURS))),
                    self.stop,
                )?,
                String::new(),
            ))
        });
        let Some(server) = started else { return };
        for family in FAMILIES {
            let title = format!(
                "the kernel's curl fetches {} MB, {}",
                self.size.megabytes, family.name
            );
            steps.step(&title, || {
                let url = format!("http://{}/big", family.host(OURS));
                let copy = self.directory.path("copy");
                Ok((
                    (),
                    curl(
                        self.lab.in_theirs("curl"),
                        &url,
                        &copy,
                        &self.directory.path("big"),
                        self.stop,
                    )?,
                ))
            });
            let title = format!(
                "the kernel's ab sends {} requests, 500 at a time, {}",
                self.size.requests, family.name
            );
            steps.step(&title, || {
                let url = format!("http://{}/small", family.host(OURS));
                Ok((
                    (),
                    ab(
                        self.lab.in_theirs("ab"),
                        &url,
                        self.size.requests,
                        self.stop,
                    )?,
                ))
            });
        }
        stop_server(steps, server);
    }

    /// The kernel serves, mTCP fetches.
    fn fetch(&self, steps: &mut Steps) {
        let arguments = format!("{} --io kernel --port 80", self.web());
        let started = steps.step("a kernel server at the other end", || {
            Ok((start(self.theirs(&arguments), self.stop)?, String::new()))
        });
        let Some(server) = started else { return };
        for (offset, family) in (0..).zip(FAMILIES) {
            let title = format!(
                "mtcp load over AF_XDP fetches {} MB, {}",
                self.size.megabytes, family.name
            );
            steps.step(&title, || {
                let copy = self.path("copy");
                let url = format!("http://{}/big", family.host(KERNEL_THERE));
                let command = self.ours(&format!(
                    "load {url} -n 3 -o {copy} {}",
                    Self::link(10 + offset)
                ));
                let report = load(command, &[], self.stop)?;
                let speed = speed(&report, self.size.megabytes);
                let sum = same([Path::new(&copy), &self.directory.path("big")], self.stop)?;
                Ok(((), format!("{speed:.0} MB/s, {sum}")))
            });
        }
        drop(server);
    }

    /// The same client against the kernel's server and against ours, in turn.
    fn rates(&self, steps: &mut Steps) -> Vec<Rate> {
        let mut rates: Vec<Rate> = MEASURES.iter().map(|measure| measure.rate()).collect();
        for (measure, rate) in MEASURES.iter().zip(&mut rates) {
            rate.kernel = self.measure(steps, *measure, Measured::Kernel);
            rate.ours = self.measure(steps, *measure, Measured::Ours);
        }
        rates
    }

    fn measure(&self, steps: &mut Steps, measure: Measure, who: Measured) -> Option<f64> {
        let (name, link, host) = match who {
            Measured::Ours => ("mTCP", Self::link(OURS), FAMILIES[0].host(OURS)),
            Measured::Kernel => (
                "kernel",
                format!("--io kernel --core {}", two_cores().0),
                KERNEL_SERVER.to_owned(),
            ),
        };
        let title = format!("{name}: {}", measure.what());
        steps.step(&title, || {
            let server = match measure {
                Measure::Raw => format!("serve --raw 64/64 --port 9000 {link}"),
                _ => format!("{} {link}", self.web()),
            };
            let server = start(self.ours(&server), self.stop)?;
            let arguments = measure.arguments(&host, self.size.seconds, &self.path("big"));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let report = load(
                self.theirs(&format!("load --io kernel --core {}", two_cores().1)),
                &arguments,
                self.stop,
            )?;
            server.stop();
            let value = measure.value(&report).unwrap_or_default();
            Ok((value, format!("{value:.0}")))
        })
    }
}

/// Stops a server, which is a step of its own: it must end well.
pub(super) fn stop_server(steps: &mut Steps, server: Running) {
    steps.step("the server stops when asked to", || {
        anyhow::ensure!(server.stop(), "it did not end well");
        Ok(((), String::new()))
    });
}
