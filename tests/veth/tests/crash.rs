//! A server that is killed under load leaves its interface to the kernel, and another one can
//! follow at once.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use interop::lab::url;
use interop::process::wait_until;
use interop::{Family, Gate, Kind, Lab, Process, baseline, files};

/// What the promise says.
const RECOVERY: Duration = Duration::from_secs(1);

fn has_program(lab: &Lab) -> bool {
    // Before Linux 6.6 there is nothing to ask, and nothing attached.
    let ingress = || SchedClassifier::query_tcx("ours0", TcAttachType::Ingress);
    let in_traffic_control = lab
        .ours()
        .enter(|| ingress().map_or(0, |(_, all)| all.len()));
    in_traffic_control > 0 || lab.ours().ip("-d link show ours0").contains("xdp")
}

fn start_load(lab: &Lab) -> Process {
    let url = url(Family::V4.ours(), "small");
    Process::start(lab.peer_load(&[&url, "-c", "100", "-d", "30", "--timeout", "2"]))
}

fn fetch(lab: &Lab, family: Family) {
    let url = url(family.ours(), "small");
    let got = lab.curl(&[&url], Duration::from_secs(10)).must_succeed();
    assert_eq!(got.stdout, "small\n");
}

fn crash(mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    for _ in 0..3 {
        let server = lab.serve(&["--mode", mode]);
        fetch(&lab, Family::V4);
        assert!(baseline() || has_program(&lab));
        let load = start_load(&lab);
        std::thread::sleep(Duration::from_millis(500)); // under load: long enough for thousands of requests
        let killed = Instant::now();
        server.kill();
        for family in Family::BOTH {
            assert!(
                lab.peer_pings(family.kernel()),
                "{family:?} after {mode} server"
            );
        }
        wait_until("no program left", RECOVERY, || !has_program(&lab));
        assert!(
            killed.elapsed() < RECOVERY,
            "the interface was back after {:?}",
            killed.elapsed()
        );
        load.kill();
        let restarted = lab.serve(&["--mode", mode]);
        for family in Family::BOTH {
            fetch(&lab, family);
        }
        restarted.stop();
        assert!(!has_program(&lab), "a program was left after a stop");
    }
}

#[test]
fn a_killed_inline_server_leaves_nothing() {
    crash("inline");
}

#[test]
fn a_killed_paired_server_leaves_nothing() {
    crash("paired");
}

#[test]
fn a_killed_server_on_tap_can_be_followed() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(Kind::Tap);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    for _ in 0..3 {
        let server = lab.serve(&[]);
        fetch(&lab, Family::V6);
        let load = start_load(&lab);
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        load.kill();
    }
}

#[test]
fn a_client_killed_in_a_transfer_does_not_hold_the_server() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(Kind::Afxdp);
    files::make(&lab.www().join("big"), 1, 50_000_000);
    let server = lab.serve(&[]);
    let big = url(Family::V4.ours(), "big");
    for _ in 0..5 {
        let mut curl = lab.peer().command("curl");
        curl.args([
            "--silent",
            "--output",
            "/dev/null",
            "--limit-rate",
            "5M",
            &big,
        ]);
        let curl = Process::start(curl);
        std::thread::sleep(Duration::from_millis(100));
        curl.kill();
    }
    let target = lab.files().join("target");
    lab.curl(
        &["--output", target.to_str().unwrap(), &big],
        Duration::from_secs(60),
    )
    .must_succeed();
    assert_eq!(files::difference(&lab.www().join("big"), &target), None);
    server.stop();
}
