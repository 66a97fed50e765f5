//! ab against us, with and without keep-alive: nothing may fail. And `mtcp load` against a kernel
//! server.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use interop::lab::url;
use interop::{Family, Gate, Kind, Lab, process, programs, sized};

const WITHIN: Duration = Duration::from_secs(300);

fn lab(kind: Kind) -> Lab {
    let lab = Lab::new(kind);
    lab.peer().set("net/ipv4/ip_local_port_range", "2000 65000");
    std::fs::write(lab.www().join("small"), vec![b's'; 1000]).unwrap();
    lab
}

fn ab(lab: &Lab, family: Family, words: &[&str]) {
    let requests = sized(100_000, 20_000).to_string();
    let mut command = lab.peer().command("ab");
    command.args(["-q", "-n", &requests, "-c", "500", "-s", "60"]);
    command.args(words).arg(url(family.ours(), "small"));
    let done = process::finish(command, WITHIN).must_succeed();
    let line = |name: &str| {
        done.stdout
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    assert_eq!(line("Complete requests:"), Some(requests), "{done}");
    assert_eq!(line("Failed requests:").as_deref(), Some("0"), "{done}");
    assert_eq!(line("Non-2xx responses:"), None, "{done}");
    println!(
        "{} {family:?} {words:?}: {}",
        lab.kind(),
        line("Requests per second:").unwrap()
    );
}

fn all(kind: Kind, mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    programs::require(&["ab"]);
    let lab = lab(kind);
    let server = lab.serve(&["--mode", mode]);
    for family in Family::BOTH {
        ab(&lab, family, &[]);
        ab(&lab, family, &["-k"]);
    }
    let ended = server.stop();
    assert!(ended.stdout.contains("(0 errors)"), "{ended}");
}

/// A kernel that uses its few ports again and again meets connections of ours that are not
/// forgotten yet (RFC 6191).
fn reuse(timestamps: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(Kind::Afxdp);
    let peer = lab.peer();
    peer.set("net/ipv4/ip_local_port_range", "20000 20999");
    peer.set("net/ipv4/tcp_tw_reuse", "1");
    peer.set("net/ipv4/tcp_timestamps", timestamps);
    let server = lab.serve(&[]);
    let url = url(Family::V4.ours(), "small");
    let load = lab.peer_load(&[&url, "-c", "50", "-n", "20000"]);
    let done = process::finish(load, WITHIN).must_succeed();
    let report = interop::lab::report(&done);
    assert_eq!(report["succeeded"], 20_000, "{report}");
    assert_eq!(report["connections"], 20_000, "{report}");
    // Nobody had to wait for a second SYN.
    assert!(report["seconds"].as_f64().unwrap() < 10.0, "{report}");
    server.stop();
}

#[test]
fn ports_are_used_again_with_timestamps() {
    reuse("1");
}

#[test]
fn ports_are_used_again_without_timestamps() {
    reuse("0");
}

#[test]
fn ab_over_afxdp_inline() {
    all(Kind::Afxdp, "inline");
}

#[test]
fn ab_over_afxdp_paired() {
    all(Kind::Afxdp, "paired");
}

#[test]
fn ab_over_tap() {
    all(Kind::Tap, "inline");
}

#[test]
fn ab_over_packet() {
    all(Kind::Packet, "inline");
}

fn load(kind: Kind, mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = lab(kind);
    let server = lab.peer_serve(&[]);
    let requests = sized(100_000, 20_000).to_string();
    for family in Family::BOTH {
        for keep_alive in [false, true] {
            let url = url(family.peer(), "small");
            let mut words = vec![url.as_str(), "-c", "500", "-n", &requests, "--mode", mode];
            words.extend(keep_alive.then_some("-k"));
            let report = lab.load(&words, WITHIN);
            assert_eq!(report["errors"], 0, "{report}");
            assert_eq!(report["succeeded"].to_string(), requests, "{report}");
        }
    }
    server.stop();
}

#[test]
fn a_kernel_server_under_load_over_afxdp_inline() {
    load(Kind::Afxdp, "inline");
}

#[test]
fn a_kernel_server_under_load_over_afxdp_paired() {
    load(Kind::Afxdp, "paired");
}

#[test]
fn a_kernel_server_under_load_over_tap() {
    load(Kind::Tap, "inline");
}

#[test]
fn a_kernel_server_under_load_over_packet() {
    load(Kind::Packet, "inline");
}
