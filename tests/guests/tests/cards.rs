//! Real drivers: a guest with one card of each kind, joined to a kernel on this machine.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use guests::guest::{mac, tap};
use guests::{Card, Guest, Packages, Release, initramfs};
use interop::files;
use interop::lab::listening;
use interop::process::{PROMPT, finish};
use interop::{Gate, Namespace, programs};

const MB: u64 = 1_000_000;
const WITHIN: Duration = Duration::from_secs(300);

/// `whole` if all was asked for, else `part`.
fn sized<T>(whole: T, part: T) -> T {
    match std::env::var("GUESTS").is_ok_and(|value| value == "all") {
        true => whole,
        false => part,
    }
}

fn requests() -> &'static str {
    sized("10000", "500")
}

/// nginx in the guest, without what a distribution adds.
const NGINX: &str =
    "daemon off; user root; worker_processes 1; pid /tmp/nginx.pid; error_log stderr;
events { worker_connections 1024; }
http { access_log off; server { listen 80; listen [::]:80; root /srv; } }";

/// Addresses of both families on the n-th cable: the peer's (1), those of the guest's stack (2) and
/// of its kernel (3).
fn addresses(number: usize, host: u8) -> [String; 2] {
    [
        format!("10.80.{number}.{host}"),
        format!("fd80:{number}::{host}"),
    ]
}

fn bracketed(address: &str) -> String {
    match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

/// The other end of all cables, a kernel.
struct Peer {
    space: Namespace,
    files: tempfile::TempDir,
}

impl Peer {
    fn new(cards: &[Card]) -> Self {
        let space = Namespace::new();
        for (number, card) in cards.iter().enumerate() {
            let name = tap(number);
            let queues = if card.queues > 1 { " multi_queue" } else { "" };
            space.ip(&format!("tuntap add dev {name} mode tap vnet_hdr{queues}"));
            let [v4, v6] = addresses(number, 1);
            space.ip(&format!("address add {v4}/24 dev {name}"));
            space.ip(&format!("address add {v6}/64 dev {name} nodad"));
            space.ip(&format!("link set {name} up"));
        }
        let files = tempfile::tempdir().unwrap();
        files::make(&files.path().join("big"), 7, sized(100, 10) * MB);
        std::fs::write(files.path().join("small"), "small\n").unwrap();
        Self { space, files }
    }

    /// Fetches from the guest, and compares.
    fn fetches(&self, address: &str) {
        let got = self.files.path().join("got");
        let mut curl = self.space.command("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--globoff",
            "--max-time",
            "200",
        ]);
        curl.args(["--output", got.to_str().unwrap()]);
        curl.arg(format!("http://{}/big", bracketed(address)));
        finish(curl, WITHIN).must_succeed();
        assert_eq!(
            files::difference(&self.files.path().join("big"), &got),
            None
        );
    }

    /// Asks the guest for something small, many times.
    fn loads(&self, address: &str) {
        let mut load = self.space.command(programs::mtcp());
        load.args(["load", "--io", "kernel", "-n", requests(), "-c", "20"]);
        load.arg(format!("http://{}/small", bracketed(address)));
        finish(load, WITHIN).must_succeed();
    }
}

/// The name of the n-th card's interface in the guest.
fn interface(guest: &mut Guest, number: usize) -> String {
    let find = format!(
        "for i in /sys/class/net/*; do grep -q {} $i/address && basename $i; done; true",
        mac(number)
    );
    let name = guest.run(&find, PROMPT).must_succeed();
    assert!(!name.trim().is_empty(), "no driver for card {number}");
    name.trim().to_owned()
}

/// A card, and one kind of link that drives it.
struct Drive<'a> {
    guest: &'a mut Guest,
    peer: &'a Peer,
    number: usize,
    card: Card,
    io: &'a str,
    /// The interface.
    name: String,
    /// The options of a stack on it.
    link: String,
}

impl Drive<'_> {
    /// Runs a script in the guest, which has to succeed.
    #[track_caller]
    fn run(&mut self, script: &str) -> String {
        self.guest.run(script, WITHIN).must_succeed()
    }

    fn all(&mut self) {
        self.serves();
        self.runs_nginx();
        for address in addresses(self.number, 1) {
            self.fetches(&bracketed(&address));
        }
    }

    /// A server of ours: both families, more queues than at the start, a cable that is pulled and
    /// plugged in again, the end by force.
    fn serves(&mut self) {
        let Self {
            name, link, card, ..
        } = self;
        let (name, most) = (name.clone(), card.queues);
        let fewer = match most {
            1 => String::new(),
            most => format!("ethtool -L {name} combined {}", most / 2),
        };
        let start = format!(
            "ip link set {name} up; {fewer}\n\
             mtcp serve /srv {link} >/tmp/serve.log 2>&1 &\n\
             echo $! >/tmp/serve.pid\n\
             for i in $(seq 100); do grep -q listening /tmp/serve.log && exit 0; sleep 0.1; done\n\
             cat /tmp/serve.log; exit 1"
        );
        self.run(&start);
        let [v4, v6] = addresses(self.number, 2);
        for address in [&v4, &v6] {
            self.peer.fetches(address);
            self.peer.loads(address);
        }
        if most > 1 {
            self.run(&format!("ethtool -L {name} combined {most}; sleep 1.5"));
            self.peer.loads(&v4);
        }
        self.run(&format!(
            "ip link set {name} down; sleep 0.5; ip link set {name} up; sleep 1"
        ));
        self.peer.fetches(&v4);
        let said = self.run("kill -9 $(cat /tmp/serve.pid); cat /tmp/serve.log");
        println!("{} over {}: {}", self.card.name, self.io, said.trim());
    }

    fn runs_nginx(&mut self) {
        let start = format!(
            "cat >/tmp/nginx.conf <<'END'\n{NGINX}\nEND\n\
             mtcp run {} -- nginx -e stderr -c /tmp/nginx.conf >/tmp/nginx.log 2>&1 &\n\
             for i in $(seq 100); do [ -s /tmp/nginx.pid ] && exit 0; sleep 0.1; done\n\
             cat /tmp/nginx.log; exit 1",
            self.link
        );
        self.run(&start);
        let [v4, v6] = addresses(self.number, 2);
        for address in [&v4, &v6] {
            self.peer.fetches(address);
        }
        self.peer.loads(&v4);
        self.run("kill $(cat /tmp/nginx.pid); while [ -e /tmp/nginx.pid ]; do sleep 0.1; done");
    }

    /// Our client, and an unmodified one, from the peer's server.
    fn fetches(&mut self, host: &str) {
        let (link, requests) = (&self.link, requests());
        let fetch = format!(
            "mtcp load http://{host}/big -n 1 -o /tmp/big {link} && cmp /srv/big /tmp/big &&\n\
             mtcp load http://{host}/small -n {requests} -c 20 {link} &&\n\
             mtcp run {link} -- curl --silent --show-error --fail --globoff --max-time 200 \
               -o /tmp/big2 http://{host}/big &&\n\
             cmp /srv/big /tmp/big2 && rm /tmp/big /tmp/big2"
        );
        self.run(&fetch);
    }
}

#[test]
fn every_card_serves_and_fetches() {
    all(Release::Own, &Card::ALL);
}

/// With the newest kernel that is made for the distribution, and the cards of its emulator.
#[test]
fn every_card_serves_and_fetches_with_a_newer_kernel() {
    if std::env::var_os("GUESTS").is_some() {
        all(Release::Backports, &[&Card::ALL[..], &[Card::IGB]].concat());
    } else {
        interop::skipped("a newer kernel in guests: only with GUESTS=newer or GUESTS=all");
    }
}

fn all(release: Release, cards: &[Card]) {
    let Some(_gate) = Gate::alone() else { return };
    let packages = match Packages::get(release) {
        Ok(packages) => packages,
        Err(reason) => return interop::skipped(&format!("no guests: {reason}")),
    };
    let peer = Peer::new(cards);
    let archive = initramfs::build(&packages, &Card::MODULES);
    let mut guest = Guest::boot(&packages, &archive, &peer.space, cards);
    println!(
        "guest: {}",
        guest.run("uname -r", PROMPT).must_succeed().trim()
    );
    let server = {
        let mut command = peer.space.command(programs::mtcp());
        command
            .arg("serve")
            .arg(peer.files.path())
            .args(["--io", "kernel"]);
        let all: Vec<String> = (0..cards.len())
            .flat_map(|number| addresses(number, 1))
            .collect();
        command.args(["--addr", &all.join(",")]);
        listening(command)
    };
    // The guest's kernel fetches what its stacks serve.
    let [v4, _] = addresses(0, 1);
    let name = interface(&mut guest, 0);
    let [kernel, _] = addresses(0, 3);
    guest
        .run(
            &format!(
                "ip link set {name} up && ip addr add {kernel}/24 dev {name} &&\n\
                 for i in 1 2 3 4 5; do curl --silent --fail -o /srv/big http://{v4}/big && break; sleep 1; done &&\n\
                 echo small >/srv/small && ls -l /srv && ip addr del {kernel}/24 dev {name}"
            ),
            WITHIN,
        )
        .must_succeed();
    for (number, card) in cards.iter().copied().enumerate() {
        for io in ["afxdp", "packet"] {
            let name = interface(&mut guest, number);
            let [v4, v6] = addresses(number, 2);
            let link = format!("--io {io}:{name} --addr {v4}/24 --addr {v6}/64");
            let (guest, peer) = (&mut guest, &peer);
            Drive {
                guest,
                peer,
                number,
                card,
                io,
                name,
                link,
            }
            .all();
        }
    }
    server.stop();
}
