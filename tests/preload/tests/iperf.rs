//! iperf3, with mTCP at either end, in both directions.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::process::{PROMPT, wait_until};
use applications::site::succeed;
use applications::{Family, Process, Site, note};

/// Megabits per second that arrived.
fn run(site: &Site, client_is_ours: bool, family: Family, words: &str) {
    let host = if client_is_ours {
        family.peer()
    } else {
        family.ours()
    };
    let words = format!("iperf3 -c {host} -t 2 -f m {words}");
    let command = if client_is_ours {
        site.ours(&words)
    } else {
        site.peer(&words)
    };
    let report = succeed(command).stdout;
    let line = report
        .lines()
        .rfind(|line| line.ends_with("receiver"))
        .unwrap_or_else(|| panic!("{report}"));
    let before = line.split(" Mbits/sec").next().unwrap();
    let rate: f64 = before.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rate > 10.0, "{report}");
    let end = if client_is_ours { "client" } else { "server" };
    note(&format!(
        "iperf3 as {end}, {family:?}{words}: {rate} Mbit/s"
    ));
}

/// A server, and how often it has begun to listen: it closes its listener after each client and
/// makes another, so a client that does not wait for that may be reset. Asking whether it answers
/// would make it one client more.
struct Server {
    process: Process,
    begun: usize,
}

impl Server {
    fn start(site: &Site, is_ours: bool) -> Self {
        let words = "iperf3 -s --forceflush";
        let command = if is_ours {
            site.ours(words)
        } else {
            site.peer(words)
        };
        let process = Process::start(command);
        site.lab().wait_peer_hears();
        Self { process, begun: 0 }
    }

    fn wait(&mut self) {
        self.begun += 1;
        wait_until("iperf3 listens", PROMPT, || {
            self.process.printed().matches("Server listening").count() >= self.begun
        });
    }
}

fn both_ways(client_is_ours: bool) {
    let Some(site) = Site::new(&["iperf3"]) else {
        return;
    };
    let mut server = Server::start(&site, !client_is_ours);
    for (family, words) in [
        (Family::V4, ""),
        (Family::V4, "-R"),
        (Family::V6, ""),
        (Family::V4, "-P 4"),
    ] {
        server.wait();
        run(&site, client_is_ours, family, words);
    }
}

#[test]
fn as_client() {
    both_ways(true);
}

#[test]
fn as_server() {
    both_ways(false);
}
