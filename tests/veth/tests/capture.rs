//! Captures that others can read, with nothing wrong in them.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::process::Command;
use std::time::Duration;

use interop::lab::url;
use interop::process::Finished;
use interop::{Family, Gate, Kind, Lab, baseline, files, process, programs};

fn tcpdump(words: &[&str]) -> Finished {
    let mut command = Command::new(programs::find("tcpdump").unwrap());
    command.args(["-n", "-vv"]).args(words);
    process::finish(command, Duration::from_secs(60)).must_succeed()
}

fn capture(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    programs::require(&["tcpdump"]);
    let lab = Lab::new(kind);
    // Else the captured frames of the peer have the unfinished checksums that it left to its
    // device.
    let interface = lab.peer_interface();
    lab.peer().run("ethtool", &format!("-K {interface} tx off"));
    files::make(&lab.www().join("file"), 1, 1_000_000);
    let file = lab.files().join("capture.pcapng");
    let file = file.to_str().unwrap();
    let server = lab.serve(&["--pcap", file]);
    for family in Family::BOTH {
        let (got, file) = (lab.files().join("got"), url(family.ours(), "file"));
        lab.curl(
            &["--output", got.to_str().unwrap(), &file],
            Duration::from_secs(20),
        )
        .must_succeed();
        assert!(lab.peer_pings(family.ours()));
    }
    server.stop();
    let all = tcpdump(&["-r", file]);
    for wanted in [
        "Request who-has",
        "Reply 10.77.0.1 is-at",
        "ICMP echo reply",
        "neighbor advertisement",
        "ICMP6, echo reply",
        "Flags [S]",
        "Flags [S.]",
        "Flags [P.]",
        "Flags [F.]",
    ] {
        assert!(
            all.stdout.contains(wanted),
            "no '{wanted}' in {} lines",
            all.stdout.lines().count()
        );
    }
    for wrong in [
        "incorrect",
        "bad cksum",
        "wrong",
        "truncated",
        "malformed",
        "invalid",
    ] {
        let lines: Vec<_> = all
            .stdout
            .lines()
            .filter(|line| line.contains(wrong))
            .take(5)
            .collect();
        assert!(lines.is_empty(), "'{wrong}': {lines:#?}");
    }
    let bytes = payload(file);
    assert!(bytes >= 2_000_000, "only {bytes} bytes of payload captured");
}

/// Bytes of TCP payload that the server sent, as tcpdump counts them.
fn payload(file: &str) -> u64 {
    let sent = tcpdump(&["-r", file, "tcp src port 80"]);
    let lengths = sent.stdout.lines().filter_map(|line| {
        line.rsplit_once("length ")?
            .1
            .split(':')
            .next()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    lengths.filter(|length| *length < 65_536).sum()
}

#[test]
fn a_capture_of_afxdp_is_readable_and_right() {
    capture(Kind::Afxdp);
}

#[test]
fn a_capture_of_tap_is_readable_and_right() {
    capture(Kind::Tap);
}

#[test]
fn a_capture_of_packet_is_readable_and_right() {
    capture(Kind::Packet);
}
