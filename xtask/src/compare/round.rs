//! One run of one program: a server and a client of it, or of the kernel.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::child::Stop;
use crate::end::End;

use super::namespaces::{DEVICES, Namespaces};

/// Processors of the server and of the client.
const CORES: [&str; 2] = ["0", "1"];
/// Addresses of the server, so that the client's ports do not run out.
const ADDRESSES: u32 = 8;
/// What both ends do: short connections, a message of 64 bytes each way.
const WORK: &str = "--work exchange --size 64 --messages 1 --concurrency 1000";
/// Connections that may fail, by a thousand.
const FAILURES: u64 = 1;

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Shared memory between two processes of the program.
    Shm,
    /// AF_XDP on a veth pair; the client is the kernel's.
    Afxdp,
}

/// What a client said, as far as it counts here; nanoseconds.
#[derive(Deserialize)]
struct Outcome {
    wall: u64,
    connections: u64,
    errors: u64,
    server: Usage,
}

#[derive(Deserialize)]
struct Usage {
    steal: u64,
    idle: u64,
    process: u64,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Connections per second.
    pub rate: f64,
    /// What the server's processor was busy for, whoever had it, nanoseconds per connection.
    pub core: f64,
    /// What the server's process ran for, nanoseconds per connection.
    pub process: f64,
}

/// Where runs take place.
pub struct Place<'a> {
    /// For links and what the ends say.
    pub directory: &'a Path,
    /// Seconds of a run that count.
    pub seconds: f64,
    /// For AF_XDP.
    pub namespaces: Option<Namespaces>,
    /// Set when the user asks to stop.
    pub stop: &'a Stop,
}

impl Place<'_> {
    /// Runs `program` over `link`.
    pub fn run(&self, program: &Path, link: Link) -> Result<Figures> {
        let scratch = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(self.directory)
            .context("cannot make a temporary directory")?;
        let scratch = scratch.path();
        let mut server = End::start(
            self.server(program, link, scratch)?,
            &scratch.join("server"),
        )?;
        let port = server.has_said(self.stop).context("the server")?;
        let mut client = self.client(program, link, scratch)?;
        client
            .arg(format!("10.9.0.1:{port}"))
            .args(["--spread", &ADDRESSES.to_string()])
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--server-core", CORES[0]])
            .args(["--server-pid", &server.id().to_string()]);
        let client = End::start(client, &scratch.join("client"))?;
        let said = client.finish(self.stop).context("the client")?;
        server.terminate();
        server.finish(self.stop).context("the server")?;
        figures(&said)
    }

    fn server(&self, program: &Path, link: Link, scratch: &Path) -> Result<Command> {
        let io = match link {
            Link::Shm => shm(scratch),
            Link::Afxdp => format!("afxdp:{}", DEVICES[0]),
        };
        let addresses = (1..=ADDRESSES).map(|host| format!("10.9.0.{host}/24"));
        let addresses = addresses.collect::<Vec<_>>().join(",");
        let mut command = self.command(program, link, 0)?;
        command.args(["bench-server", "--io", &io, "--addr", &addresses]);
        command.args(["--mode", "inline", "--core", CORES[0]]);
        command.args(WORK.split_whitespace());
        Ok(command)
    }

    fn client(&self, program: &Path, link: Link, scratch: &Path) -> Result<Command> {
        let mut command = self.command(program, link, 1)?;
        command.args(["bench-client", "--core", CORES[1]]);
        command.args(WORK.split_whitespace());
        match link {
            Link::Shm => {
                let io = shm(scratch);
                command.args(["--io", &io, "--addr", "10.9.0.201/24", "--mode", "inline"])
            }
            Link::Afxdp => command.args(["--io", "kernel", "--addr", "0.0.0.0"]),
        };
        Ok(command)
    }

    fn command(&self, program: &Path, link: Link, end: usize) -> Result<Command> {
        if link == Link::Shm {
            return Ok(Command::new(program));
        }
        let namespaces = self.namespaces.as_ref().context("no namespaces")?;
        Ok(namespaces.command(end, program))
    }
}

fn shm(scratch: &Path) -> String {
    format!("shm:{}", scratch.join("link").display())
}

fn figures(said: &str) -> Result<Figures> {
    let outcome: Outcome = serde_json::from_str(said).context("the client said no outcome")?;
    let Outcome {
        wall,
        connections,
        errors,
        server,
    } = outcome;
    ensure!(connections > 0, "no connection was finished");
    ensure!(
        errors * 1000 <= connections * FAILURES,
        "{errors} connections failed, {connections} did not"
    );
    // As `mtcp bench` reckons it: the timer ticks that count stolen time are coarse.
    let busy = wall.saturating_sub(server.idle + server.steal);
    let each = |nanos: u64| nanos as f64 / connections as f64;
    Ok(Figures {
        rate: connections as f64 * 1e9 / wall.max(1) as f64,
        core: each(busy.max(server.process)),
        process: each(server.process),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_a_client_says() {
        let said = |connections, errors| {
            format!(
                r#"{{"wall":2000000000,"connections":{connections},"messages":1,"bytes":1,"errors":{errors},"open":1,
                "server":{{"user":1,"system":1,"softirq":1,"steal":0,"idle":1000000000,"process":800000000}}}}"#
            )
        };
        let expected = Figures {
            rate: 500_000.0,
            core: 1000.0,
            process: 800.0,
        };
        assert_eq!(figures(&said(1_000_000, 7)).unwrap(), expected);
        assert!(figures(&said(1_000_000, 1001)).is_err());
        assert!(figures(&said(0, 0)).is_err());
        assert!(figures("").is_err());
    }
}
