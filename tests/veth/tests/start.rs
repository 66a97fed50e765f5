//! What mTCP starts without, and what it says then.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::lab::{OURS, PEER, PEER6, listening, url};
use interop::process::finish;
use interop::{Gate, Kind, Lab, baseline, programs};

const SOON: Duration = Duration::from_secs(20);

/// Becomes a program that gets no sockets of the family AF_PACKET: seccomp(2) answers EAFNOSUPPORT,
/// as kernels without them do.
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
        ("-n 8", "ulimit -n"),
        ("-n 9", "ulimit -n"),
        ("-n 12", "ulimit -n"),
        ("-n 16", "ulimit -n"),
        ("-v 40000", "ulimit -v"),
        ("-v 90000", "ulimit -v"),
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

/// A control group of its own that may have 100 MB (cgroups(7), either version), while it lives.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`: there is no controller of memory here, or no right to make groups.
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = |controller: &str| {
            let line = groups.lines().find(|line| line.contains(controller));
            line.and_then(|line| line.rsplit(':').next()).unwrap_or("/")
        };
        let name = format!("mtcp-test-{}", std::process::id());
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let (group, file) = match words[2] {
                "cgroup2" => ("/", "memory.max"),
                "cgroup" if words[3].split(',').any(|word| word == "memory") => {
                    (own(":memory:"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let parent = format!("{}{group}", words[1]);
            let made = Self(Path::new(&parent).join(&name));
            std::fs::create_dir(&made.0).ok()?;
            std::fs::write(made.0.join(file), "100M")
                .ok()
                .map(|()| made)
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn pools_fit_the_memory_of_a_control_group() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let Some(group) = Cgroup::new() else {
        interop::skipped("no control groups with memory limits can be made here");
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    let inside = serve(&lab, &[]);
    let enter = format!(
        "echo $$ >{}/cgroup.procs; exec \"$0\" \"$@\"",
        group.0.display()
    );
    let mut command = Command::new("sh");
    let words = command.args(["-c", &enter]).arg(inside.get_program());
    words.args(inside.get_args());
    let server = listening(command);
    is_served(&lab);
    let said = server.stop();
    let lines = said.stderr.lines().filter(|line| {
        line.contains("the limit on the control group's memory (100 MB")
            && line.contains("8 MB of buffers")
    });
    assert_eq!(lines.count(), 1, "{said}");
}

/// It goes on, and serves when the cable is there.
#[test]
fn no_carrier_is_told() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    lab.peer().ip("link set peer0 down");
    let server = listening(serve(&lab, &[]));
    lab.peer().ip("link set peer0 up");
    is_served(&lab);
    let said = server.stop();
    let words =
        "XDP on ours0: no carrier: nothing comes or goes until the cable or the peer is there";
    let lines = said.stderr.lines().filter(|line| line.contains(words));
    assert_eq!(lines.count(), 1, "{said}");
}

/// The set that docs/deployment.md names.
#[test]
fn an_ordinary_user_needs_the_capabilities_that_the_docs_name() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    programs::require(&["setpriv"]);
    let lab = Lab::new(Kind::Afxdp);
    std::fs::set_permissions(lab.files(), Permissions::from_mode(0o755)).unwrap();
    let mtcp = lab.files().join("mtcp");
    std::fs::copy(programs::mtcp(), &mtcp).unwrap();
    let as_user = |capabilities: &str, words: &[&str]| {
        let mut command = lab.ours().command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        for set in ["--inh-caps", "--ambient-caps"] {
            command.args([set, capabilities]);
        }
        command.arg(&mtcp).args(words).args(lab.link_args());
        command
    };
    let all = "+net_admin,+net_raw,+bpf,+perfmon,+ipc_lock";
    let serve = ["serve", "--raw", "1/1", "--port", "8080"];
    listening(as_user(all, &serve)).stop();
    let doctor = finish(as_user(all, &["doctor"]), SOON).must_succeed();
    for fine in ["locked memory", "CAP_PERFMON", "capabilities"] {
        let line = format!("ok    {fine}");
        assert!(doctor.stdout.contains(&line), "{fine}: {doctor}");
    }
    for missing in ["net_admin", "net_raw", "bpf"] {
        let without = all.replace(&format!("+{missing},"), "");
        let refused = finish(as_user(&without, &serve), SOON);
        assert_eq!(refused.status.code(), Some(2), "{missing}: {refused}");
        let doctor = finish(as_user(&without, &["doctor"]), SOON);
        let name = format!("no CAP_{}", missing.to_uppercase());
        assert!(doctor.stdout.contains(&name), "{missing}: {doctor}");
    }
}

#[test]
fn the_doctor_sends_a_syn_and_names_who_holds_the_interface() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    let ask = |to: &str| finish(lab.mtcp(&["doctor", "--peer", to]), SOON);
    // Nobody listens there.
    for peer in [format!("{PEER}:9"), format!("[{PEER6}]:9")] {
        let said = ask(&peer).must_succeed();
        assert!(said.stdout.contains("refused after"), "{said}");
    }
    let server = lab.peer_serve(&[]);
    let said = ask(&format!("{PEER}:80")).must_succeed();
    assert!(said.stdout.contains("answered after"), "{said}");
    server.stop();
    let said = ask("10.77.0.99:80");
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(said.stdout.contains("nobody says where that is"), "{said}");

    let server = lab.serve(&[]);
    let said = finish(lab.mtcp(&["doctor"]), SOON);
    assert!(said.stdout.contains("has a program on it"), "{said}");
    assert_eq!(said.status.code(), Some(1), "{said}");
    server.stop();
}

#[test]
fn a_user_namespace_is_told() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net"]);
    inside.arg(programs::mtcp());
    inside.args(["doctor", "--io", "afxdp:lo"]);
    let said = finish(inside, SOON);
    if said.stderr.contains("unshare") {
        interop::skipped("no user namespaces");
        return;
    }
    assert!(said.stdout.contains("fail  user namespace"), "{said}");
}
