//! What the program that counts does: pairs of it talk over a shared-memory link, which needs no
//! privileges.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::Stop;
use crate::end::End;

/// Addresses of the server and of its client.
const IPV4: [&str; 2] = [
    "10.9.0.1/24,10.9.0.2/24,10.9.0.3/24,10.9.0.4/24",
    "10.9.0.201/24",
];
const IPV6: [&str; 2] = [
    "fd00::1/64,fd00::2/64,fd00::3/64,fd00::4/64",
    "fd00::201/64",
];

/// The page that the web server has, and its bytes.
const PAGE: (&str, usize) = ("index.html", 4096);

/// Two ends, as words of `mtcp`.
struct Pair {
    title: &'static str,
    addresses: [&'static str; 2],
    server: &'static str,
    client: &'static str,
    /// Options of both.
    both: &'static str,
}

/// What stacks do. Short connections are trained for longest, because they have most to gain; the
/// others, so that they do not lose what short ones gain.
const PAIRS: [Pair; 12] = [
    Pair {
        title: "short connections",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 2 --spread 4 10.9.0.1:9000",
        both: "--concurrency 1000",
    },
    Pair {
        title: "short connections, IPv6",
        addresses: IPV6,
        server: "bench-server",
        client: "bench-client --seconds 1 --spread 4 [fd00::1]:9000",
        both: "--concurrency 1000",
    },
    Pair {
        title: "short connections, with a stack thread",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --spread 4 10.9.0.1:9000",
        both: "--concurrency 1000 --mode paired",
    },
    Pair {
        title: "short connections, 8,000 at a time",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --spread 4 10.9.0.1:9000",
        both: "--concurrency 8000",
    },
    Pair {
        title: "32 messages per connection",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 1 --spread 4 10.9.0.1:9000",
        both: "--concurrency 1000 --messages 32",
    },
    Pair {
        title: "messages of 8,192 bytes",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --spread 4 10.9.0.1:9000",
        both: "--concurrency 1000 --size 8192",
    },
    Pair {
        title: "connections that are reset",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --spread 4 10.9.0.1:9000",
        both: "--concurrency 1000 --work reset",
    },
    Pair {
        title: "one message after the other",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --latency 10.9.0.1:9000",
        both: "--messages 0",
    },
    Pair {
        title: "one bulk flow",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 10.9.0.1:9000",
        both: "--work stream",
    },
    Pair {
        title: "100 bulk flows, IPv6",
        addresses: IPV6,
        server: "bench-server",
        client: "bench-client --seconds 0.5 --spread 4 [fd00::1]:9000",
        both: "--work stream --concurrency 100",
    },
    Pair {
        title: "ten bulk flows over a link that loses and reorders",
        addresses: IPV4,
        server: "bench-server",
        client: "bench-client --seconds 0.5 10.9.0.1:9000",
        both: "--work stream --concurrency 10 --fault loss=0.5%,reorder=0.5%,seed=1",
    },
    Pair {
        title: "web server",
        addresses: IPV4,
        server: "serve . --port 9000",
        client: "load http://10.9.0.1:9000/ --spread 4 -c 100 -d 1 --json",
        both: "",
    },
];

/// Runs all pairs of `program`, which leave a file in `counts` for each process.
pub fn run(program: &Path, counts: &Path, stop: &Stop) -> Result<()> {
    let directory = scratch()?;
    let page = directory.path().join(PAGE.0);
    fs::write(&page, vec![b'x'; PAGE.1]).with_context(|| page.display().to_string())?;
    let place = Place {
        program,
        counts,
        directory: directory.path(),
        stop,
    };
    for (index, pair) in PAIRS.iter().enumerate() {
        println!("==> training: {}", pair.title);
        place.train(pair).with_context(|| pair.title)?;
        let there = super::counts::files(counts)?;
        let wanted = (index + 1) * 2;
        ensure!(
            there == wanted,
            "{}: {there} of {wanted} processes wrote down what they counted",
            pair.title
        );
    }
    Ok(())
}

/// A directory for what the ends write, besides what they counted.
pub(super) fn scratch() -> Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new().prefix("mtcp-pgo-").tempdir();
    directory.context("cannot make a temporary directory")
}

/// Where the program that counts runs, and where it leaves what it counted.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub program: &'a Path,
    pub counts: &'a Path,
    pub directory: &'a Path,
    pub stop: &'a Stop,
}

impl Place<'_> {
    fn train(&self, pair: &Pair) -> Result<()> {
        let link = tempfile::Builder::new()
            .prefix("link-")
            .tempdir_in(self.directory);
        let link = link.context("cannot make a temporary directory")?;
        let end = |name, words: &str, addresses| {
            let mut command = self.command(words, addresses, &link.path().join("link"));
            command.args(pair.both.split_whitespace());
            End::start(command, &link.path().join(name))
        };
        let [server, client] = pair.addresses;
        let mut server = end("server", pair.server, server)?;
        server.has_said(self.stop).context("the server")?;
        let client = end("client", pair.client, client)?;
        let said = client.finish(self.stop).context("the client")?;
        check(&said)?;
        server.terminate();
        server.finish(self.stop).context("the server")?;
        Ok(())
    }

    fn command(&self, words: &str, addresses: &str, link: &Path) -> Command {
        let mut command = self.counting(words);
        command
            .args(["--io", &format!("shm:{}", link.display())])
            .args(["--addr", addresses]);
        command
    }

    /// The program with these words. It, and what it starts, leave what they counted.
    pub(super) fn counting(&self, words: &str) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(words.split_whitespace())
            .env("LLVM_PROFILE_FILE", self.counts.join("%p-%m.profraw"))
            .current_dir(self.directory);
        command
    }
}

/// Refuses a client that got nothing: there is nothing to learn from it.
fn check(said: &str) -> Result<()> {
    let outcome: Value = serde_json::from_str(said).context("the client said no outcome")?;
    let some = |key: &str| outcome[key].as_u64().is_some_and(|number| number > 0);
    ensure!(
        some("connections") || some("bytes"),
        "the client was not served"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_got_nothing_teaches_nothing() {
        assert!(check("{\"connections\":0,\"bytes\":0}").is_err());
        assert!(check("{\"connections\":7,\"bytes\":0}").is_ok());
        assert!(check("{\"connections\":0,\"bytes\":7}").is_ok());
        assert!(check("").is_err());
    }
}
