//! The life of a daemon: how it starts, what it says, what it leaves, and how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::daemon::{Daemon, LINK, command, directory, text, until};
use common::{LONG, wait};
use control::Error;
use control::client::{self, Found};
use control::place::Place;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recv, socket_with,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// The processors that thread `name` of a process may run on, as the kernel writes them.
fn processors(pid: Pid, name: &str) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    let status = |task: PathBuf| fs::read_to_string(task.join("status")).unwrap_or_default();
    let mut statuses = tasks.flatten().map(|task| status(task.path()));
    let status = statuses.find(|status| status.starts_with(&format!("Name:\t{name}\n")))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list:"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

#[test]
fn its_stack_runs_where_it_is_told_to() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list:"));
    let allowed = allowed
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    let last = allowed.rsplit([',', '-']).next().unwrap();
    let base = directory();
    let daemon = Daemon::start(command(
        base.path(),
        &[&LINK[..], &["--core", last]].concat(),
    ));
    until("the stack's thread is on its processor", || {
        processors(daemon.pid(), "stack-0").as_deref() == Some(last)
    });
}

#[test]
fn it_has_its_name_alone_and_ends_when_it_is_told() {
    let base = directory();
    let socket = base.path().join("run/default.sock");
    let daemon = Daemon::start(command(base.path(), &LINK));
    let second = wait(command(base.path(), &LINK).spawn().unwrap());
    assert_eq!(second.status.code(), Some(2));
    assert_eq!(
        text(&second.stderr),
        format!(
            "mtcp: a daemon 'default' runs already (process {}): end it, or choose another --name\n",
            daemon.pid().as_raw_nonzero()
        )
    );
    let status = wait(command(base.path(), &["--status"]).spawn().unwrap());
    let said = text(&status.stdout);
    assert!(
        said.starts_with("default: loop:d 10.0.0.2/24, process "),
        "{said}"
    );
    // Another of another name.
    let other = Daemon::start(command(
        base.path(),
        &[&LINK[..], &["--name", "b"]].concat(),
    ));
    let list = wait(command(base.path(), &["--list"]).spawn().unwrap());
    assert_eq!(
        text(&list.stdout).lines().count(),
        2,
        "{}",
        text(&list.stdout)
    );
    other.signal(Signal::INT);
    assert!(other.end().status.success());
    // As if the machine had failed.
    daemon.signal(Signal::KILL);
    daemon.end();
    assert!(socket.exists());
    let status = wait(command(base.path(), &["--status"]).spawn().unwrap());
    assert_eq!(status.status.code(), Some(2));
    assert!(
        text(&status.stderr).contains("has ended"),
        "{}",
        text(&status.stderr)
    );
    let daemon = Daemon::start(command(base.path(), &LINK));
    daemon.signal(Signal::TERM);
    let output = daemon.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert!(!socket.exists());
}

/// A supervisor's socket.
struct Supervisor {
    socket: OwnedFd,
    heard: String,
}

impl Supervisor {
    fn new(address: &SocketAddrUnix) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(LONG)).unwrap();
        bind(&socket, address).unwrap();
        Self {
            socket,
            heard: String::new(),
        }
    }

    /// Until it hears this; what it heard before goes.
    fn hears(&mut self, line: &str) {
        loop {
            if let Some(at) = self.heard.find(line) {
                self.heard.drain(..at + line.len());
                return;
            }
            let mut bytes = [0; 4096];
            let count = recv(&self.socket, &mut bytes[..], RecvFlags::empty())
                .unwrap_or_else(|error| panic!("{line}: {error} after {}", self.heard))
                .0;
            self.heard.push_str(&text(&bytes[..count]));
            self.heard.push('\n');
        }
    }
}

#[test]
fn a_supervisor_hears_that_it_is_ready_lives_and_stops() {
    let base = directory();
    let path = base.path().join("notify");
    let name = format!("mtcp-test-{}", std::process::id());
    let on_disk = SocketAddrUnix::new(&path).unwrap();
    let in_the_air = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    for (address, variable) in [
        (on_disk, path.display().to_string()),
        (in_the_air, format!("@{name}")),
    ] {
        let mut supervisor = Supervisor::new(&address);
        let mut command = command(base.path(), &LINK);
        command
            .env("NOTIFY_SOCKET", variable)
            .env("WATCHDOG_USEC", "100000");
        let daemon = Daemon::start(command);
        for line in [
            "STATUS=opening the links\n",
            "READY=1\n",
            "STATUS=0 programs are attached\n",
        ] {
            supervisor.hears(line);
        }
        for _ in 0..5 {
            supervisor.hears("WATCHDOG=1\n");
        }
        // It is late, and its queue full.
        std::thread::sleep(Duration::from_millis(800));
        daemon.signal(Signal::HUP);
        supervisor.hears("RELOADING=1\nMONOTONIC_USEC=");
        supervisor.hears("READY=1\n");
        daemon.signal(Signal::TERM);
        supervisor.hears("STOPPING=1\n");
        assert!(daemon.end().status.success());
    }
}

/// Whether a program of a user that is not root may use the daemon.
fn join(place: &Place) -> Result<(), Error> {
    let join = || {
        if geteuid().is_root() {
            let (user, group) = (
                rustix::process::Uid::from_raw(65534),
                rustix::process::Gid::from_raw(65534),
            );
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        let build = mtcp::service::build();
        match client::named(std::slice::from_ref(place), "default", &build)? {
            Found::Session(_) => Ok(()),
            Found::Nobody(error) => Err(error),
        }
    };
    std::thread::scope(|scope| scope.spawn(join).join().unwrap())
}

#[test]
fn sighup_reads_the_policy_and_keeps_it_where_the_file_is_wrong() {
    let base = directory();
    let file = base.path().join("daemon.conf");
    let settings = "io = loop:d\naddr = 10.0.0.2/24\n";
    fs::write(&file, format!("{settings}attach = none\n")).unwrap();
    let place = Place::shared(base.path().join("run"));
    let file_word = file.to_str().unwrap();
    let mut daemon = Daemon::start(command(base.path(), &["--config", file_word]));
    assert!(
        join(&place)
            .unwrap_err()
            .to_string()
            .contains("may not use this daemon")
    );
    fs::write(&file, settings).unwrap();
    daemon.signal(Signal::HUP);
    until("everyone may attach", || join(&place).is_ok());
    let mut err = BufReader::new(daemon.0.as_mut().unwrap().stderr.take().unwrap());
    fs::write(&file, format!("{settings}attach = none\nlisten = 80\n")).unwrap();
    daemon.signal(Signal::HUP);
    let said = std::iter::from_fn(|| {
        let mut line = String::new();
        (err.read_line(&mut line).unwrap() > 0).then_some(line)
    });
    let mut wrong =
        said.filter(|line| line.contains("daemon.conf:4: listen: '80' is not WHO ADDRESSES PORTS"));
    let line = wrong.next().unwrap();
    assert!(
        line.starts_with("mtcp: warning: the policy stays as it was: "),
        "{line}"
    );
    assert!(join(&place).is_ok());
    daemon.signal(Signal::TERM);
    assert!(daemon.end().status.success());
}

#[test]
fn settings_are_checked() {
    let base = directory();
    let file = base.path().join("daemon.conf");
    let check = |settings: &str| {
        fs::write(&file, settings).unwrap();
        let words = ["--check", "--config", file.to_str().unwrap()];
        let output = wait(command(base.path(), &words).spawn().unwrap());
        let said = text(&output.stderr).replace(file.to_str().unwrap(), "FILE");
        (output.status.code().unwrap(), said)
    };
    let good = "io = loop:d\naddr = 10.0.0.2/24\nlisten = root,@root * 80\nmemory = everyone 1G\n";
    assert_eq!(check(good), (0, String::new()));
    for (settings, said) in [
        (
            "io = loop:d\nadr = 10.0.0.2/24\n",
            "mtcp: FILE:2: unknown key 'adr': did you mean 'addr'?\n",
        ),
        (
            "io = loop:d\n",
            "mtcp: no address for the stack: give --addr, like --addr 10.0.0.2/24; on an AF_XDP interface it may be left out\n",
        ),
        (
            "listen = root\nio = loop:d\n",
            "mtcp: FILE:1: listen: 'root' is not WHO ADDRESSES PORTS\n",
        ),
        (
            "\nattach = nobody-has-this-name\n",
            "mtcp: FILE:2: attach: there is no user 'nobody-has-this-name': see 'getent passwd', or write @GROUP\n",
        ),
        (
            "io = loop:d\naddr = 10.0.0.2/24\nuser = nobody-has-this-name\n",
            "mtcp: there is no user 'nobody-has-this-name' to become: make it (useradd --system), or change 'user' in the settings\n",
        ),
    ] {
        assert_eq!(check(settings), (2, said.to_owned()), "{settings}");
    }
}

/// As with `mtcp daemon --list | head -0`, and where the disk is full.
#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    let base = directory();
    let _daemon = Daemon::start(command(base.path(), &LINK));
    let check = ["--check", "--io", "loop:c", "--addr", "10.0.0.2/24"];
    for words in [&["--list"][..], &["--status"], &check] {
        let said = |stdout: Stdio| {
            let mut command = command(base.path(), words);
            let output = wait(command.stdout(stdout).spawn().unwrap());
            (output.status.code(), text(&output.stderr))
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(said(writer.into()), (Some(0), String::new()), "{words:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let line = "mtcp: cannot write: No space left on device (os error 28): make room where the output goes\n";
        assert_eq!(said(full.unwrap().into()), (Some(2), line.to_owned()));
    }
}

/// Lines of `/proc/PID/status`, of each thread.
fn statuses(pid: Pid) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    let paths = tasks.map(|task| task.unwrap().path().join("status"));
    paths
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// The words behind a name in such lines.
fn words<'a>(status: &'a str, name: &str) -> Vec<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().split_whitespace().collect()
}

#[test]
fn what_it_does_not_need_is_given_up_in_all_threads() {
    /// Of links, and CAP_NET_BIND_SERVICE.
    const KEPT: u64 = 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 38 | 1 << 39;
    let base = directory();
    let file = base.path().join("daemon.conf");
    let settings = "io = loop:d\naddr = 10.0.0.2/24\n";
    let own = geteuid().as_raw().to_string();
    let cases = [("", own.as_str()), ("user = nobody\n", "65534")];
    // To become somebody else takes root.
    let count = if geteuid().is_root() { 2 } else { 1 };
    for (line, user) in &cases[..count] {
        fs::write(&file, format!("{settings}{line}")).unwrap();
        let daemon = Daemon::start(command(base.path(), &["--config", file.to_str().unwrap()]));
        let statuses = statuses(daemon.pid());
        assert!(statuses.len() > 1);
        for status in statuses {
            for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
                let set = u64::from_str_radix(words(&status, set)[0], 16).unwrap();
                assert_eq!(set & !KEPT, 0, "{status}");
            }
            assert_eq!(words(&status, "NoNewPrivs:"), ["1"]);
            assert_eq!(words(&status, "Seccomp:"), ["2"]);
            assert_eq!(words(&status, "Uid:"), [*user; 4]);
        }
        // It reads the settings again, and ends as ever; its socket is root's to remove.
        daemon.signal(Signal::HUP);
        let place = Place::shared(base.path().join("run"));
        assert_eq!(join(&place), Ok(()));
        daemon.signal(Signal::TERM);
        let output = daemon.end();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    if count == 1 {
        let words = ["--config", file.to_str().unwrap()];
        fs::write(&file, format!("{settings}user = nobody\n")).unwrap();
        let output = wait(command(base.path(), &words).spawn().unwrap());
        assert!(text(&output.stderr).contains("only root can become 'nobody'"));
    }
}

/// A program that starts or joins the private daemon, and stays until it is dropped.
fn stays(base: &Path) -> Child {
    let mut command = command(base, &[&LINK[..], &["--join"]].concat());
    command.stdin(Stdio::piped()).spawn().unwrap()
}

/// What it says when it has joined: how, and which process.
fn said(child: &mut Child) -> (String, i32) {
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let mut error = String::new();
    if line.is_empty() {
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["mtcp", "daemon:", how, "process", pid] = words[..] else {
        panic!("'{line}' {error}");
    };
    (how.to_owned(), pid.parse().unwrap())
}

fn leave(mut child: Child) {
    drop(child.stdin.take());
    assert!(wait(child).status.success());
}

fn sockets(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base.join("run")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect()
}

#[test]
fn programs_that_start_at_once_share_a_private_daemon() {
    let base = directory();
    let mut programs: Vec<Child> = (0..20).map(|_| stays(base.path())).collect();
    let said: Vec<(String, i32)> = programs.iter_mut().map(said).collect();
    let pid = said[0].1;
    assert!(said.iter().all(|(_, other)| *other == pid), "{said:?}");
    let started = said.iter().filter(|(how, _)| how == "started");
    assert_eq!(started.count(), 1, "{said:?}");
    // It is nobody's child, in a session of its own, with nothing of who started it.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let [_, parent, _, session, ..] = fields[..] else {
        panic!("{stat}");
    };
    assert_eq!(session, pid.to_string());
    let parents: Vec<String> = programs
        .iter()
        .map(|child| child.id().to_string())
        .collect();
    assert!(!parents.contains(&parent.to_owned()));
    let standard = |number: u32| fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap();
    assert_eq!(standard(0), Path::new("/dev/null"));
    assert!(standard(1).to_string_lossy().ends_with(".log"));
    assert_eq!(standard(1), standard(2));
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/cwd")).unwrap(),
        Path::new("/")
    );
    // It stays while one is there.
    let last = programs.pop().unwrap();
    programs.into_iter().for_each(leave);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(sockets(base.path()).len(), 1);
    leave(last);
    until("it ends", || !Path::new(&format!("/proc/{pid}")).exists());
    assert!(sockets(base.path()).is_empty());
}

#[test]
fn who_comes_while_a_private_daemon_ends_is_served() {
    let base = directory();
    // Each comes about when the daemon of the one before ends.
    for wait in [900, 980, 1000, 1020, 1050] {
        let mut program = stays(base.path());
        said(&mut program);
        leave(program);
        std::thread::sleep(Duration::from_millis(wait));
    }
    // One that was killed leaves its socket.
    let mut program = stays(base.path());
    let (_, pid) = said(&mut program);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let mut next = stays(base.path());
    let (_, other) = said(&mut next);
    assert_ne!(pid, other);
    leave(program);
    leave(next);
    until("it ends", || sockets(base.path()).is_empty());
}

#[test]
fn why_a_private_daemon_cannot_start_is_told() {
    let base = directory();
    let words = ["--io", "afxdp:absent0", "--addr", "10.0.0.2/24", "--join"];
    let output = wait(command(base.path(), &words).spawn().unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "mtcp: no daemon for this link: there is no interface 'absent0' in this network namespace: \
         see 'ip link' for those that exist\n"
    );
}
