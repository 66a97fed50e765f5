//! What mTCP starts without, and what it says then.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::process::Command;
use std::time::Duration;

use interop::lab::{OURS, listening, url};
use interop::process::finish;
use interop::{Gate, Kind, Lab, baseline, programs};

const SOON: Duration = Duration::from_secs(20);

/// Becomes a program that gets no sockets of the family AF_PACKET: seccomp(2) answers EAFNOSUPPORT, as kernels without them do.
const NO_PACKETS: &str = "
import ctypes, os, struct, sys
AF_PACKET, EAFNOSUPPORT, PR_SET_SECCOMP, MODE_FILTER = 17, 97, 22, 2
SOCKET = {'x86_64': 41, 'aarch64': 198}[os.uname().machine]
LOAD, EQUAL, RETURN, ERRNO, ALLOW = 0x20, 0x15, 0x06, 0x50000, 0x7fff0000
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, SOCKET), (LOAD, 0, 0, 16), (EQUAL, 0, 1, AF_PACKET),
    (RETURN, 0, 0, ERRNO | EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0):
    sys.exit('seccomp: ' + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
";

/// A server of a small file, behind `wrapper` and its words.
fn serve(lab: &Lab, wrapper: &[&str]) -> Command {
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let mut command = match wrapper {
        [] => lab.ours().command(programs::mtcp()),
        [program, words @ ..] => {
            let mut command = lab.ours().command(program);
            command.args(words).arg(programs::mtcp());
            command
        }
    };
    command.arg("serve").arg(lab.www()).args(lab.link_args());
    command
}

fn is_served(lab: &Lab) {
    let got = lab.curl(&[&url(OURS.into(), "small")], SOON).must_succeed();
    assert_eq!(got.stdout, "small\n", "{got}");
}

#[test]
fn what_listens_beside_the_stack_may_be_missing() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    programs::require(&["python3"]);
    let lab = Lab::new(Kind::Afxdp);
    let server = listening(serve(&lab, &["python3", "-c", NO_PACKETS]));
    is_served(&lab);
    let said = server.stop();
    for words in [
        "another host has our addresses",
        "neighbours that move",
        "neighbour solicitations",
    ] {
        let lines = said.stderr.lines().filter(|line| line.contains(words));
        assert_eq!(lines.count(), 1, "{words}: {said}");
    }
}

/// Each shortage is one line with what runs out and how to have more of it.
#[test]
fn what_runs_out_at_the_start_is_named_with_its_limit() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    for (limit, remedy) in [
        ("-n 7", "ulimit -n"),
        ("-n 12", "ulimit -n"),
        ("-n 16", "ulimit -n"),
        ("-v 200000", "ulimit -v"),
        ("-v 800000", "ulimit -v"),
    ] {
        let within = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        let refused = finish(serve(&lab, &["sh", "-c", &within]), SOON);
        assert_eq!(refused.status.code(), Some(2), "{limit}: {refused}");
        let last = refused.stderr.lines().last().unwrap();
        assert!(
            last.starts_with("mtcp: ") && last.contains(remedy),
            "{limit}: {refused}"
        );
        assert!(refused.stderr.len() < 1_000, "{limit}: {refused}");
    }
}
