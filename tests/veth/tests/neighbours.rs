//! Who answers where: ARP and neighbour discovery in both directions, echo, gateways, and the
//! kernel's own traffic beside ours.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use interop::lab::{KERNEL, OURS, OURS6, PEER, PEER6, listening, url};
use interop::process::wait_until;
use interop::{Family, Gate, Kind, Lab, Process, baseline, client, files, process, programs};

const SOON: Duration = Duration::from_secs(20);

fn lab(kind: Kind) -> Lab {
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    lab
}

fn fetch(lab: &Lab, host: IpAddr, words: &[&str]) {
    let url = url(host, "small");
    let words: Vec<&str> = words.iter().copied().chain([url.as_str()]).collect();
    let got = lab.curl(&words, SOON).must_succeed();
    assert_eq!(got.stdout, "small\n", "{got}");
}

/// What the peer's kernel knows about a neighbour.
fn neighbour(lab: &Lab, host: IpAddr) -> String {
    let interface = lab.peer_interface();
    lab.peer()
        .ip(&format!("neighbour show {host} dev {interface}"))
}

fn is_known(lab: &Lab, host: IpAddr) -> bool {
    let entry = neighbour(lab, host);
    entry.contains("lladdr") && !entry.contains("FAILED")
}

fn flush(lab: &Lab) {
    let interface = lab.peer_interface();
    lab.peer().ip(&format!("neighbour flush dev {interface}"));
}

fn both_ways(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(kind);
    let server = lab.serve(&[]);
    for family in Family::BOTH {
        for _ in 0..3 {
            flush(&lab);
            fetch(&lab, family.ours(), &[]);
            assert!(
                is_known(&lab, family.ours()),
                "{}",
                neighbour(&lab, family.ours())
            );
        }
    }
    server.stop();
    // The other way: ours asks for the peer, whose table does not know us yet.
    let server = lab.peer_serve(&[]);
    for family in Family::BOTH {
        flush(&lab);
        let report = lab.load(&[&url(family.peer(), "small"), "-n", "10"], SOON);
        assert_eq!(report["succeeded"], 10, "{report}");
        // A TAP interface goes down with the program, and the kernel forgets its neighbours.
        assert!(
            kind == Kind::Tap || is_known(&lab, family.ours()),
            "{}",
            neighbour(&lab, family.ours())
        );
    }
    server.stop();
}

#[test]
fn addresses_are_resolved_both_ways_on_afxdp() {
    both_ways(Kind::Afxdp);
}

#[test]
fn addresses_are_resolved_both_ways_on_tap() {
    both_ways(Kind::Tap);
}

#[test]
fn addresses_are_resolved_both_ways_on_packet() {
    both_ways(Kind::Packet);
}

fn echo(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(kind);
    let server = lab.serve(&[]);
    for family in Family::BOTH {
        for size in ["0", "56", "1400"] {
            let words = ["-c", "20", "-i", "0.01", "-s", size];
            let answers = lab.peer_ping(family.ours(), &words).must_succeed();
            assert!(answers.stdout.contains(" 0% packet loss"), "{answers}");
        }
    }
    // Too long for one packet: what fits comes back (RFC 1122 §3.2.2.6).
    let words = ["-c", "20", "-i", "0.01", "-s", "4000"];
    let answers = lab.peer_ping(Family::V4.ours(), &words).must_succeed();
    assert!(answers.stdout.contains(" 0% packet loss"), "{answers}");
    assert!(
        baseline() || answers.stdout.contains("truncated"),
        "{answers}"
    );
    // Requests in fragments.
    let interface = lab.peer_interface();
    for (family, network, mtu) in [
        (Family::V4, "10.77.0.0/24", 600),
        (Family::V6, "fd77::/64", 1280),
    ] {
        lab.peer().ip(&format!(
            "route replace {network} dev {interface} mtu {mtu}"
        ));
        let words = ["-c", "20", "-i", "0.01", "-s", "1400", "-M", "dont"];
        let answers = lab.peer_ping(family.ours(), &words).must_succeed();
        assert!(answers.stdout.contains(" 0% packet loss"), "{answers}");
    }
    server.stop();
}

#[test]
fn echo_is_answered_on_afxdp() {
    echo(Kind::Afxdp);
}

#[test]
fn echo_is_answered_on_tap() {
    echo(Kind::Tap);
}

#[test]
fn echo_is_answered_on_packet() {
    echo(Kind::Packet);
}

#[test]
fn a_peer_that_changes_its_hardware_address_is_found_again() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(Kind::Afxdp);
    let server = lab.serve(&[]);
    for (family, mac) in Family::BOTH
        .into_iter()
        .zip(["02:00:00:00:00:77", "02:00:00:00:00:78"])
    {
        fetch(&lab, family.ours(), &[]);
        lab.peer().ip(&format!("link set peer0 address {mac}"));
        flush(&lab);
        fetch(&lab, family.ours(), &[]);
    }
    server.stop();
}

#[test]
fn static_neighbours_need_no_resolution() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    let lab = lab(Kind::Afxdp);
    lab.peer().ip("link set peer0 address 02:00:00:00:00:79");
    lab.ours().ip("link set ours0 address 02:00:00:00:00:7a");
    lab.peer().ip("link set peer0 arp off");
    for address in [IpAddr::from(OURS), IpAddr::from(OURS6)] {
        lab.peer().ip(&format!(
            "neighbour replace {address} lladdr 02:00:00:00:00:7a dev peer0 nud permanent"
        ));
    }
    let neighbours = format!("{PEER}=02:00:00:00:00:79,{PEER6}=02:00:00:00:00:79");
    let server = lab.serve(&["--neighbour", &neighbours]);
    for family in Family::BOTH {
        fetch(&lab, family.ours(), &[]);
    }
    server.stop();
}

#[test]
fn hosts_beyond_the_network_are_reached_through_the_gateway() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    for kind in Kind::ALL {
        let lab = lab(kind);
        lab.peer().ip("address add 10.88.0.1/32 dev lo");
        lab.peer().ip("address add fd88::1/128 dev lo nodad");
        let gateways = format!("{PEER},{PEER6}");
        let server = lab.serve(&["--gateway", &gateways]);
        for (family, from) in Family::BOTH.into_iter().zip(["10.88.0.1", "fd88::1"]) {
            fetch(&lab, family.ours(), &["--interface", from]);
        }
        server.stop();
        let server = lab.peer().command(programs::mtcp());
        let server = peer_everywhere(&lab, server);
        for url in ["http://10.88.0.1/small", "http://[fd88::1]/small"] {
            let report = lab.load(&[url, "-n", "3", "--gateway", &gateways], SOON);
            assert_eq!(report["succeeded"], 3, "{report}");
        }
        server.stop();
    }
}

fn peer_everywhere(lab: &Lab, mut command: std::process::Command) -> Process {
    command.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
    listening(command)
}

#[test]
fn a_host_that_is_not_there_is_reported_in_time() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        for host in ["10.77.0.99", "[fd77::99]"] {
            let url = format!("http://{host}/");
            let mut command = lab.mtcp(&["load", "--json"]);
            command.args([url.as_str(), "-n", "1", "--timeout", "15"]);
            let start = Instant::now();
            let finished = process::finish(command, SOON);
            assert_eq!(finished.status.code(), Some(1), "{finished}");
            let report = interop::lab::report(&finished);
            assert_eq!(report["errors"], 1, "{report}");
            assert_eq!(report["errors_by_kind"]["no_answer"], 1, "{report}");
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "after {:?}",
                start.elapsed()
            );
        }
    }
}

fn closed_port(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(kind);
    let server = lab.serve(&[]);
    for family in Family::BOTH {
        let start = Instant::now();
        let refused = lab.curl(
            &[&format!("http://{}/", SocketAddr::new(family.ours(), 81))],
            SOON,
        );
        assert_eq!(refused.status.code(), Some(7), "{refused}");
        assert!(
            refused.stderr.contains("refused") || refused.stderr.contains("connect to"),
            "{refused}"
        );
        assert!(start.elapsed() < Duration::from_secs(1), "{refused}");
        lab.peer().enter(|| {
            let error = client::open(SocketAddr::new(family.ours(), 81)).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionRefused,
                "{error}"
            );
        });
    }
    server.stop();
    for family in Family::BOTH {
        let mut command = lab.mtcp(&["load", "--json", "-n", "5"]);
        command.arg(format!("http://{}/", SocketAddr::new(family.peer(), 81)));
        let finished = process::finish(command, Duration::from_secs(5));
        let report = interop::lab::report(&finished);
        assert_eq!(report["errors"], 5, "{report}");
        assert!(
            report["errors_by_kind"].to_string().contains("refused"),
            "{report}"
        );
    }
}

#[test]
fn closed_ports_refuse_on_afxdp() {
    closed_port(Kind::Afxdp);
}

#[test]
fn closed_ports_refuse_on_tap() {
    closed_port(Kind::Tap);
}

#[test]
fn closed_ports_refuse_on_packet() {
    closed_port(Kind::Packet);
}

#[test]
fn datagrams_to_nowhere_are_refused() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(Kind::Afxdp);
    let server = lab.serve(&[]);
    for family in Family::BOTH {
        lab.peer().enter(|| {
            let socket = UdpSocket::bind(SocketAddr::new(family.peer(), 0)).unwrap();
            socket.connect(SocketAddr::new(family.ours(), 9)).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            socket.send(b"nobody there?").unwrap();
            let error = socket.recv(&mut [0; 16]).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionRefused,
                "{family:?}: {error}"
            );
        });
    }
    server.stop();
}

#[test]
fn the_kernel_keeps_its_own_traffic_on_the_interface() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(Kind::Afxdp);
    files::make(&lab.www().join("big"), 3, 20_000_000);
    let server = lab.serve(&[]);
    let mut command = lab.ours().command(programs::mtcp());
    command.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
    command.args(["--addr", &KERNEL.to_string(), "--port", "8080"]);
    let kernels = listening(command);
    let load = Process::start(lab.peer_load(&[&url(OURS.into(), "small"), "-c", "50", "-d", "3"]));
    let mut ping = lab.peer().command("ping");
    ping.args(["-n", "-c", "100", "-i", "0.02", &KERNEL.to_string()]);
    let ping = Process::start(ping);
    let target = lab.files().join("target");
    let big = format!("http://{KERNEL}:8080/big");
    lab.curl(&["--output", target.to_str().unwrap(), &big], SOON)
        .must_succeed();
    assert_eq!(files::difference(&lab.www().join("big"), &target), None);
    let answers = ping.finish(SOON).must_succeed();
    assert!(answers.stdout.contains(" 0% packet loss"), "{answers}");
    let report = interop::lab::report(&load.finish(SOON).must_succeed());
    assert_eq!(report["errors"], 0, "{report}");
    kernels.stop();
    server.stop();
    wait_until("the kernel answers still", SOON, || {
        lab.peer_pings(KERNEL.into())
    });
}
