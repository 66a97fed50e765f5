//! `mtcp run --shared`: the programs of a user share one stack, which a daemon has that the first
//! of them starts and which ends after the last.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Process, Site, files, process, url};
use interop::process::{PROMPT, wait_until};
use interop::{baseline, programs};

/// Where `mtcp` cannot do what it should.
const FAILED: i32 = 2;

fn site(needed: &[&str]) -> Option<Site> {
    Site::new(needed).filter(|_| !baseline())
}

/// A program of root's on the shared stack.
fn shared(site: &Site, words: &str) -> Command {
    let mut command = site.lab().mtcp(&["run"]);
    command.env("XDG_RUNTIME_DIR", site.lab().files());
    command.arg("--shared").arg("--");
    command.args(words.split_whitespace());
    command
}

/// Names of daemons that are there.
fn daemons(site: &Site) -> Vec<String> {
    let Ok(entries) = fs::read_dir(site.file("mtcp")) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".sock")).collect()
}

fn wait_until_none(site: &Site) {
    wait_until("no daemon", PROMPT, || daemons(site).is_empty());
}

fn serve_peer(site: &Site, port: u16) -> Process {
    let www = spell(&site.lab().www());
    let server = format!(
        "python3 -m http.server --bind {} --directory {www} {port}",
        Family::V4.peer()
    );
    site.start_peer(site.peer(&server), port)
}

/// Four clients that start at once meet in one daemon, whoever of them is first. None is left.
#[test]
fn four_clients_at_once_share_a_stack() {
    let Some(site) = site(&["curl", "python3"]) else {
        return;
    };
    files::make(&site.lab().www().join("medium"), 2, 50_000);
    let _server = serve_peer(&site, 8081);
    let medium = url("http", Family::V4, false, 8081, "medium");
    for _ in 0..2 {
        let start = |_| Process::start(shared(&site, &format!("curl -sSf -o /dev/null {medium}")));
        let clients: Vec<Process> = (0..4).map(start).collect();
        for client in clients {
            client.finish(WITHIN).must_succeed();
            assert!(daemons(&site).len() <= 1, "{:?}", daemons(&site));
        }
    }
    wait_until_none(&site);
    // The interface is anybody's again, with an address of its own.
    let mut alone = site.lab().mtcp(&["run"]);
    alone.args(["--", "curl", "-sSf", "-o", "/dev/null", &medium]);
    succeed(alone);
}

/// A server of root's with workers of another user, in another root directory, beside a client of
/// root's: at one address, which they reach each other at.
#[test]
fn programs_beside_each_other_have_one_address() {
    let Some(site) = site(&["haproxy", "nginx", "curl"]) else {
        return;
    };
    files::make(&site.lab().www().join("small"), 1, 64);
    site.open_to_all();
    fs::set_permissions(site.lab().www(), Permissions::from_mode(0o755)).unwrap();
    let root = site.file("empty");
    fs::create_dir(&root).unwrap();
    let _upstream = site.start_peer(
        site.peer(&format!(
            "python3 -m http.server --bind {} --directory {} 8081",
            Family::V4.peer(),
            spell(&site.lab().www())
        )),
        8081,
    );
    let conf = site.write(
        "haproxy.conf",
        &format!(
            "global\n user nobody\n group nogroup\n chroot {}\n\
             defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
             listen all\n bind {}:80\n server peer {}:8081\n",
            spell(&root),
            Family::V4.ours(),
            Family::V4.peer()
        ),
    );
    let proxy = shared(&site, &format!("haproxy -W -db -f {conf}"));
    let proxy = site.start_ours(proxy, 80);
    let small = url("http", Family::V4, true, 80, "small");
    succeed(site.peer(&format!("curl -sSf -o /dev/null {small}")));
    succeed(shared(&site, &format!("curl -sSf -o /dev/null {small}")));
    assert_eq!(daemons(&site).len(), 1);
    proxy.stop();
    wait_until_none(&site);
}

/// A program may take its time before its first socket, and be executed by others that have none.
#[test]
fn a_daemon_waits_for_a_program_that_takes_its_time() {
    let Some(site) = site(&["redis-server", "sh", "sleep"]) else {
        return;
    };
    let bind = Family::V4.ours();
    let mut server = shared(&site, "sh -c");
    server.arg(format!(
        "cd /; sleep 2.5; exec redis-server --port 6379 --bind {bind} --protected-mode no --save ''"
    ));
    let server = Process::start(server);
    wait_until("a daemon", PROMPT, || !daemons(&site).is_empty());
    let before = daemons(&site);
    let at = SocketAddr::new(bind, 6379);
    wait_until("it answers", PROMPT, || {
        let peer = site.lab().peer();
        peer.enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok())
    });
    assert_eq!(daemons(&site), before);
    server.stop();
    wait_until_none(&site);
}

/// What a program has written arrives after its end, however long its peer takes.
#[test]
fn what_a_program_wrote_arrives_after_its_end() {
    let Some(site) = site(&["python3"]) else {
        return;
    };
    let server = site.write(
        "server.py",
        "import os, socket, sys\n\
         listener = socket.create_server((sys.argv[1], 7000))\n\
         print('ready', flush=True)\n\
         stream, _ = listener.accept()\n\
         stream.setblocking(False)\n\
         sent = 0\n\
         try:\n\
         \twhile True: sent += stream.send(b'x' * 10000)\n\
         except BlockingIOError: pass\n\
         print('sent', sent, flush=True)\n\
         os._exit(0)\n",
    );
    let mut server = Process::start(shared(
        &site,
        &format!("python3 {server} {}", Family::V4.ours()),
    ));
    server.wait_for("ready", PROMPT);
    let at = SocketAddr::new(Family::V4.ours(), 7000);
    let mut stream = site.lab().peer().enter(|| TcpStream::connect(at).unwrap());
    stream.set_read_timeout(Some(PROMPT)).unwrap();
    let finished = server.finish(WITHIN).must_succeed();
    let sent: usize = finished
        .stdout
        .split("sent ")
        .nth(1)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // The peer's window is closed meanwhile.
    thread::sleep(Duration::from_secs(3));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(
        (bytes.len(), bytes.iter().all(|&byte| byte == b'x')),
        (sent, true)
    );
    drop(stream);
    wait_until_none(&site);
}

/// One event may tell of bytes and of the end behind them: a call that wants more than there is
/// returns.
#[test]
fn a_call_that_waits_for_more_than_comes_hears_of_the_end() {
    let Some(site) = site(&["python3"]) else {
        return;
    };
    let server = site.write(
        "server.py",
        "import socket, sys\n\
         listener = socket.create_server((sys.argv[1], 7000))\n\
         print('ready', flush=True)\n\
         for _ in range(20):\n\
         \tstream, _ = listener.accept()\n\
         \tstream.send(b'come')\n\
         \tassert len(stream.recv(30, socket.MSG_WAITALL)) == 10\n\
         \tstream.close()\n",
    );
    let bind = Family::V4.ours();
    let mut server = Process::start(shared(&site, &format!("python3 {server} {bind}")));
    server.wait_for("ready", PROMPT);
    let at = SocketAddr::new(bind, 7000);
    for _ in 0..20 {
        let mut stream = site.lab().peer().enter(|| TcpStream::connect(at).unwrap());
        stream.set_read_timeout(Some(PROMPT)).unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&[b'x'; 10]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut word).unwrap(), 0);
    }
    server.finish(WITHIN).must_succeed();
}

/// Where there can be no daemon the program does not run, and one line says why; with --fallback it
/// runs on the kernel.
#[test]
fn without_a_daemon_the_program_does_not_run() {
    let Some(site) = site(&["curl", "python3"]) else {
        return;
    };
    let mut held = site.lab().mtcp(&["run"]);
    held.args(["--", "python3", "-m", "http.server", "8080", "--bind"]);
    held.arg(Family::V4.ours().to_string());
    let _held = site.start_ours(held, 8080);
    let refused = process::finish(shared(&site, "curl -sS http://127.0.0.1:1/"), WITHIN);
    assert_eq!(refused.status.code(), Some(FAILED), "{refused:?}");
    let lines: Vec<&str> = refused
        .stderr
        .lines()
        .filter(|line| line.starts_with("mtcp"))
        .collect();
    let [line] = lines[..] else {
        panic!("{refused:?}");
    };
    assert!(
        line.starts_with("mtcp: no daemon for this link: "),
        "{line}"
    );
    let mut both = site.lab().mtcp(&["run"]);
    both.args(["--shared", "--workers", "2", "--", "curl"]);
    assert_eq!(process::finish(both, WITHIN).status.code(), Some(FAILED));
    let mut twice = site.lab().ours().command(programs::mtcp());
    twice.args([
        "run",
        "--shared",
        "--io",
        "daemon:/nonexistent/x",
        "--",
        "curl",
    ]);
    assert_eq!(process::finish(twice, WITHIN).status.code(), Some(FAILED));
    wait_until_none(&site);
}

/// A daemon that was killed takes its connections along; programs hear of it, and the next one
/// starts another.
#[test]
fn after_a_daemon_was_killed_the_next_program_starts_another() {
    let Some(site) = site(&["redis-server"]) else {
        return;
    };
    let bind = Family::V4.ours();
    let words = format!("redis-server --port 6379 --bind {bind} --protected-mode no --save");
    let start = || {
        let mut server = shared(&site, &words);
        server.arg("").current_dir("/");
        site.start_ours(server, 6379)
    };
    let server = start();
    let at = SocketAddr::new(bind, 6379);
    let mut stream = site.lab().peer().enter(|| TcpStream::connect(at).unwrap());
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    let lock = daemons(&site).remove(0).replace(".sock", ".lock");
    let pid = fs::read_to_string(site.file("mtcp").join(lock)).unwrap();
    succeed(site.peer(&format!("kill -9 {}", pid.trim())));
    server.stop();
    let server = start();
    assert_eq!(daemons(&site).len(), 1);
    server.stop();
    wait_until_none(&site);
}
