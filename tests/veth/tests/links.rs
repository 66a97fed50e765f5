//! Interfaces that have many queues, go down, go away, or are taken.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use interop::lab::url;
use interop::process::{PROMPT, wait_until};
use interop::{Family, Gate, Kind, Lab, Process, baseline, files, process};

const WITHIN: Duration = Duration::from_secs(60);

fn with_small(lab: Lab) -> Lab {
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    lab
}

fn answers(lab: &Lab, family: Family) -> bool {
    let words = ["--max-time", "1", &url(family.ours(), "small")];
    lab.curl(&words, PROMPT).stdout == "small\n"
}

/// One context serves all queues of its interface.
#[test]
fn four_queues_are_served() {
    let Some(_gate) = Gate::alone() else { return };
    for mode in ["inline", "paired"] {
        let lab = with_small(Lab::with(Kind::Afxdp, 1500, 4));
        files::make(&lab.www().join("big"), 6, 20_000_000);
        let server = lab.serve(&["--mode", mode]);
        for family in Family::BOTH {
            let url = url(family.ours(), "small");
            let load = lab.peer_load(&[&url, "-c", "100", "-n", "10000"]);
            let done = process::finish(load, WITHIN).must_succeed();
            assert_eq!(interop::lab::report(&done)["succeeded"], 10_000, "{done}");
        }
        let target = lab.files().join("target");
        let big = url(Family::V4.ours(), "big");
        lab.curl(&["--output", target.to_str().unwrap(), &big], WITHIN)
            .must_succeed();
        assert_eq!(files::difference(&lab.www().join("big"), &target), None);
        server.stop();
    }
}

#[test]
fn a_server_outlasts_an_interface_that_goes_down() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = with_small(Lab::new(kind));
        let server = lab.serve(&[]);
        for end in [(lab.peer(), lab.peer_interface()), (lab.ours(), "ours0")] {
            if kind == Kind::Tap && end.1 == "ours0" && !baseline() {
                continue;
            }
            assert!(answers(&lab, Family::V4));
            end.0.ip(&format!("link set {} down", end.1));
            std::thread::sleep(Duration::from_millis(200));
            end.0.ip(&format!("link set {} up", end.1));
            wait_until("answers after the link came back", PROMPT, || {
                answers(&lab, Family::V4)
            });
        }
        server.stop();
    }
}

/// A network interface may come back, one that the server made itself does not.
#[test]
fn a_server_whose_interface_is_removed_says_so() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    for (kind, interface) in [
        (Kind::Afxdp, "ours0"),
        (Kind::Packet, "ours0"),
        (Kind::Tap, "tap0"),
    ] {
        for mode in ["inline", "paired"] {
            let lab = with_small(Lab::new(kind));
            let mut server = lab.serve(&["--mode", mode]);
            assert!(answers(&lab, Family::V4));
            lab.ours().ip(&format!("link delete {interface}"));
            let ended = match kind {
                Kind::Tap | Kind::Packet => server.finish(PROMPT),
                Kind::Afxdp => {
                    server.wait_for_warning("was removed", PROMPT);
                    assert!(server.is_running(), "{mode}");
                    server.stop()
                }
            };
            let status = if kind == Kind::Afxdp { 0 } else { 2 };
            assert_eq!(ended.status.code(), Some(status), "{kind} {mode}: {ended}");
            let lines = ended.stderr.trim().lines().count();
            assert_eq!(lines, 1, "{kind} {mode}: {ended}");
            assert!(ended.stderr.contains(interface), "{kind} {mode}: {ended}");
        }
    }
}

#[test]
fn a_second_program_on_the_interface_is_refused() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    for kind in Kind::ALL {
        let lab = with_small(Lab::new(kind));
        let server = lab.serve(&[]);
        let mut second = lab.mtcp(&["serve", "--port", "81"]);
        second.arg(lab.www());
        let refused = Process::start(second).finish(PROMPT);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert_eq!(refused.stderr.trim().lines().count(), 1, "{refused}");
        assert!(answers(&lab, Family::V4), "the first one serves still");
        server.stop();
    }
}
