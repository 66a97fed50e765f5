//! Where the two ends run and how they reach each other.

use std::process::Command;

use anyhow::Context as _;

use crate::directory::Directory;
use crate::link::Mode;
use crate::programs::program;

use super::case::Side;
use super::end::work::WorkArgs;
use super::options::LinkKind;

/// Addresses of a server on the loopback: as many ports as one client can use are too few for one address.
const LOOPBACKS: u32 = 32;
/// Addresses of an mTCP server, for the same reason.
const ADDRESSES: u32 = 8;

/// Sockets of a kernel server, on any port that is free.
const KERNEL: [&str; 6] = ["--io", "kernel", "--addr", "0.0.0.0", "--port", "0"];

/// A place for runs; each run has a link of its own.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    program: String,
    directory: &'a Directory,
    mode: Mode,
    cores: [usize; 2],
    runs: u32,
    /// Clients of this run so far; each has an address of its own, as each would be a machine of its own.
    clients: u32,
}

impl<'a> Place<'a> {
    /// Prepares it.
    ///
    /// # Errors
    /// The link cannot be had here.
    pub(crate) fn new(
        link: LinkKind,
        mode: Mode,
        cores: [usize; 2],
        directory: &'a Directory,
    ) -> anyhow::Result<Self> {
        match link {
            LinkKind::Shm => {}
        }
        Ok(Self {
            program: program()?,
            directory,
            mode,
            cores,
            runs: 0,
            clients: 0,
        })
    }

    /// Processors of the server and of the client.
    pub(crate) fn cores(&self) -> [usize; 2] {
        self.cores
    }

    /// The server of the next run.
    pub(crate) fn server(&mut self, side: Side, work: &WorkArgs) -> Command {
        self.runs += 1;
        self.clients = 0;
        let mut command = Command::new(&self.program);
        command.arg("bench-server").args(work.words());
        command.args(["--core", &self.cores[0].to_string()]);
        match side {
            Side::Kernel => command.args(KERNEL),
            Side::KernelTuned => command.args(KERNEL).arg("--tuned"),
            Side::Mtcp => {
                let addresses = (1..=ADDRESSES).map(|host| format!("10.9.0.{host}/24"));
                let addresses: Vec<String> = addresses.collect();
                self.shm(&mut command, &addresses.join(","))
            }
        };
        command
    }

    /// Its client; `port` is what the server said.
    ///
    /// # Errors
    /// The server said something else.
    pub(crate) fn client(
        &mut self,
        side: Side,
        work: &WorkArgs,
        port: &str,
    ) -> anyhow::Result<Command> {
        let port: u16 = port.parse().context("the server named no port")?;
        self.clients += 1;
        let mut command = Command::new(&self.program);
        command.arg("bench-client").args(work.words());
        command
            .args(["--core", &self.cores[1].to_string()])
            .args(["--server-core", &self.cores[0].to_string()]);
        let (target, spread) = match side {
            Side::Kernel | Side::KernelTuned => {
                command.args(["--io", "kernel"]);
                ("127.0.0.1", LOOPBACKS)
            }
            Side::Mtcp => {
                let address = format!("10.9.0.{}/24", 200 + self.clients);
                self.shm(&mut command, &address);
                ("10.9.0.1", ADDRESSES)
            }
        };
        command
            .arg(format!("{target}:{port}"))
            .args(["--spread", &spread.to_string()]);
        Ok(command)
    }

    fn shm<'c>(&self, command: &'c mut Command, addresses: &str) -> &'c mut Command {
        let link = self.directory.path(&format!("link-{}", self.runs));
        command
            .arg("--io")
            .arg(format!("shm:{}", link.display()))
            .args(["--addr", addresses, "--mode", self.mode.name()])
    }
}
