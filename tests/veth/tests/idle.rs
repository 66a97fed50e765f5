//! Rest costs nothing, and waking up is quick.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use interop::lab::PORT;
use interop::{Family, Gate, Kind, Lab, Namespace, Process, client, programs, sized};

/// How long a resting server is watched.
const WATCH: Duration = Duration::from_secs(5);
/// Of one core.
const AT_REST: f64 = 0.01;
/// What a server that has done little has allocated, KiB. Not counted is what the link takes, which
/// depends on the kernel and the machine.
const SMALL: u64 = 8 << 10;
/// Of the kernel server's median.
const SLOWER: f64 = 2.0;
/// Noise of the machine is no fault of the server.
const TRIES: usize = 3;

/// What of the heap is in memory, KiB.
fn heap(server: &Process) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{}/smaps", server.pid())).unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.ends_with("[heap]"));
    let resident = lines.find_map(|line| line.strip_prefix("Rss:"));
    let number = resident.and_then(|rest| rest.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

fn rests(kind: Kind, mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let server = lab.serve(&["--mode", mode, "--idle-timeout", "300"]);
    let streams = lab.peer().enter(|| {
        let to = SocketAddr::new(Family::V4.ours(), PORT);
        let mut streams = client::open_together(to, 200);
        for stream in &mut streams {
            client::ask(stream, "/small").unwrap();
            assert_eq!(client::answer(stream).unwrap().body, b"small\n");
        }
        streams
    });
    thread::sleep(Duration::from_millis(500)); // delayed acknowledgments and spinning come to an end
    let before = server.processor_time();
    thread::sleep(WATCH);
    let used = (server.processor_time() - before).as_secs_f64() / WATCH.as_secs_f64();
    println!("{kind}, {mode}: {:.3}% of a core at rest", used * 100.0);
    assert!(used < AT_REST, "{:.2}% of a core at rest", used * 100.0);
    let heap = heap(&server);
    println!("{kind}, {mode}: {heap} KiB of heap at rest");
    assert!(heap < SMALL, "{heap} KiB of heap at rest");
    drop(streams);
    server.stop();
}

#[test]
fn an_idle_inline_server_on_afxdp_rests() {
    rests(Kind::Afxdp, "inline");
}

#[test]
fn an_idle_paired_server_on_afxdp_rests() {
    rests(Kind::Afxdp, "paired");
}

#[test]
fn an_idle_server_on_tap_rests() {
    rests(Kind::Tap, "inline");
}

#[test]
fn an_idle_server_on_packet_rests() {
    rests(Kind::Packet, "inline");
}

/// A kernel server at the other end of a second pair, without an XDP program in its way.
struct Reference {
    server: Process,
    address: SocketAddr,
    _namespace: Namespace,
}

impl Reference {
    fn beside(lab: &Lab) -> Self {
        let namespace = Namespace::new();
        lab.peer().ip(&format!(
            "link add peer1 type veth peer name plain0 netns {}",
            namespace.name()
        ));
        namespace.ip("address add 10.78.0.1/24 dev plain0");
        namespace.ip("link set plain0 up");
        lab.peer().ip("address add 10.78.0.2/24 dev peer1");
        lab.peer().ip("link set peer1 up");
        let mut command = namespace.command(programs::mtcp());
        command.args(["serve", "--raw", "64/64", "--port", "80", "--io", "kernel"]);
        Self {
            server: interop::lab::listening(command),
            address: "10.78.0.1:80".parse().unwrap(),
            _namespace: namespace,
        }
    }
}

/// Medians of exchanges with sleeping servers, asked in turn: the first server's and the second's.
fn medians(first: SocketAddr, second: SocketAddr) -> (Duration, Duration) {
    let mut took = (Vec::new(), Vec::new());
    for _ in 0..sized(500, 150) {
        for (to, took) in [(first, &mut took.0), (second, &mut took.1)] {
            thread::sleep(Duration::from_millis(10)); // the servers fall asleep
            took.push(client::fresh_exchange(to, &[b'q'; 64], 64).unwrap());
        }
    }
    (median(took.0), median(took.1))
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

fn wakes(mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(Kind::Afxdp);
    let mut command = lab.mtcp(&["serve", "--raw", "64/64"]);
    if !interop::baseline() {
        command.args(["--mode", mode]);
    }
    let server = interop::lab::listening(command);
    let reference = Reference::beside(&lab);
    let ours = SocketAddr::new(Family::V4.ours(), PORT);
    let mut ratio = f64::MAX;
    for _ in 0..TRIES {
        let (mine, kernels) = lab.peer().enter(|| medians(ours, reference.address));
        ratio = mine.as_secs_f64() / kernels.as_secs_f64();
        println!(
            "{mode}: fresh connection to a sleeping server: {mine:?}, kernel {kernels:?}, ratio {ratio:.2}"
        );
        if ratio <= SLOWER {
            break;
        }
    }
    assert!(ratio <= SLOWER, "{ratio:.2} times the kernel's median");
    server.stop();
    reference.server.stop();
}

#[test]
fn a_sleeping_inline_server_answers_soon() {
    wakes("inline");
}

#[test]
fn a_sleeping_paired_server_answers_soon() {
    wakes("paired");
}
