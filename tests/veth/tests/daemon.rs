//! A daemon's stack on real links, once the daemon has given up what it does not need.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use interop::lab::Family;
use interop::process::{PROMPT, Process, wait_until};
use interop::{Gate, Kind, Lab, baseline, programs};

const SOON: Duration = Duration::from_secs(30);

/// A daemon on the link of `lab`, with these lines in its settings file.
fn daemon(lab: &Lab, settings: &str) -> Process {
    let file = lab.files().join("daemon.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = lab.ours().command(programs::mtcp());
    command
        .arg("daemon")
        .args(lab.link_args())
        .arg("--config")
        .arg(file)
        .arg("--directory")
        .arg(lab.files().join("run"));
    let mut daemon = Process::start(command);
    daemon.wait_for("listening at", PROMPT);
    daemon
}

fn answers(lab: &Lab) {
    for family in Family::BOTH {
        wait_until("the stack answers", SOON, || lab.peer_pings(family.ours()));
    }
}

#[test]
fn it_answers_as_another_user_and_when_its_interface_comes_back() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    let daemon = daemon(&lab, "user = nobody\n");
    answers(&lab);
    lab.remove_pair();
    lab.make_pair_again();
    answers(&lab);
    let finished = daemon.stop().must_succeed();
    assert!(!finished.stderr.contains("stay"), "{finished}");
}

#[test]
fn it_answers_over_packet_sockets_and_tap() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    // A TAP device is opened by whoever may open /dev/net/tun.
    for (kind, settings) in [(Kind::Packet, "user = nobody\n"), (Kind::Tap, "")] {
        let lab = Lab::new(kind);
        let daemon = daemon(&lab, settings);
        answers(&lab);
        daemon.stop().must_succeed();
    }
}
