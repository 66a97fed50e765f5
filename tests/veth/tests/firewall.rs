//! Ports that the firewall of the host closes are not opened by mTCP, whose frames do not pass it.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use interop::lab::{OURS, listening, url};
use interop::process::{PROMPT, finish};
use interop::{Gate, Kind, Lab, Process, baseline, programs};

const SOON: Duration = Duration::from_secs(20);

/// As hosts have it: what answers comes in, some ports are open, one to friends only, one is jumped
/// to; IPv6 is another table.
const RULES: &str = "
table inet filter {
  set open { type inet_service; flags interval; elements = { 80, 8000-8099 } }
  chain services { tcp dport 443 accept; tcp dport 8050 reject; }
  chain input {
    type filter hook input priority filter; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
    iifname lo accept
    meta l4proto ipv6-icmp accept
    ip saddr 192.0.2.0/24 tcp dport 22 accept
    jump services
    tcp dport @open counter accept
  }
}
table ip6 six {
  chain input {
    type filter hook input priority 10
    tcp dport 8001 drop
  }
}
";

fn lab() -> Lab {
    programs::require(&["nft"]);
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let file = lab.files().join("rules");
    std::fs::write(&file, RULES).unwrap();
    lab.ours().run("nft", &format!("-f {}", file.display()));
    lab
}

#[test]
fn ports_that_the_firewall_closes_stay_closed() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = lab();
    let server = lab.serve(&[]);
    lab.curl(&[&url(OURS.into(), "small")], SOON).must_succeed();
    server.stop();
    for open in ["443", "8000", "8099"] {
        let mut command = lab.ours().command(programs::mtcp());
        command.arg("serve").arg(lab.www());
        let address = format!("{OURS}/24");
        command.args(["--io", "afxdp:ours0", "--addr", &address, "--port", open]);
        listening(command).stop();
    }
    for (closed, table) in [
        ("22", "inet filter input"),
        ("81", "inet filter input"),
        ("8050", "inet filter input"),
        ("8001", "ip6 six input"),
    ] {
        let mut command = lab.mtcp(&["serve", "--port", closed]);
        command.arg(lab.www());
        let refused = finish(command, SOON);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(table), "{closed}: {refused}");
        assert!(refused.stderr.contains("--ignore-firewall"), "{refused}");
        lab.serve(&["--port", closed, "--ignore-firewall"]).stop();
    }
}

/// Binds to a port, of an address or of all, and listens.
const LISTENS: &str = "import errno, socket, sys
s = socket.socket()
s.bind((''.join(sys.argv[2:]), int(sys.argv[1])))
try:
    s.listen()
except OSError as error:
    sys.exit(errno.errorcode[error.errno])";

#[test]
fn a_program_hears_that_a_port_is_closed() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    programs::require(&["python3"]);
    let lab = lab();
    let run = |words: &[&str], port: &str| {
        let mut command = lab.mtcp(&[&["run"], words].concat());
        command.args(["--", "python3", "-c", LISTENS, port]);
        finish(command, SOON)
    };
    let refused = run(&[], "81");
    assert!(!refused.status.success(), "{refused}");
    let lines: Vec<&str> = refused.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{refused}");
    assert!(lines[0].contains("inet filter input"), "{refused}");
    assert_eq!(lines[1], "EACCES", "{refused}");
    run(&[], "80").must_succeed();
    run(&["--ignore-firewall"], "81").must_succeed();
}

/// Its daemon says why.
#[test]
fn a_program_on_the_stack_of_a_daemon_opens_no_closed_port() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    programs::require(&["python3"]);
    let lab = lab();
    let directory = lab.files().join("run");
    let start = |words: &[&str]| {
        let mut command = lab.mtcp(&[&["daemon"], words].concat());
        command.arg("--directory").arg(&directory);
        let mut daemon = Process::start(command);
        daemon.wait_for("listening at", PROMPT);
        daemon
    };
    let run = |address: &str, port: &str| {
        let mut command = lab.ours().command(programs::mtcp());
        let io = format!("daemon:{}/default", directory.display());
        command.args([
            "run", "--io", &io, "--", "python3", "-c", LISTENS, port, address,
        ]);
        finish(command, SOON)
    };
    let daemon = start(&[]);
    let ours = OURS.to_string();
    for (address, port) in [("", "81"), (&ours, "8050"), ("", "22")] {
        let refused = run(address, port);
        assert!(refused.stderr.contains("EACCES"), "{refused}");
    }
    run("", "80").must_succeed();
    run(&ours, "8001").must_succeed();
    let finished = daemon.stop();
    // Once a user, however often.
    let told = |line: &&str| line.contains("inet filter input") && line.contains("81");
    assert_eq!(
        finished.stderr.lines().filter(told).count(),
        1,
        "{finished}"
    );
    let daemon = start(&["--ignore-firewall"]);
    run("", "81").must_succeed();
    daemon.stop();
}
