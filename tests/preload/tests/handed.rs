//! Connections that a program hands on: by `exec`, `fork`, or in a message, to programs without the
//! library, too, and when it is killed. What the peer hears is what it hears of the kernel.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;

use applications::host::Host;
use applications::site::{WITHIN, spell, succeed};
use applications::web::{judge_ab, same};
use applications::{Family, Process, Site, files};
use interop::process::PROMPT;

const PORT: u16 = 8080;

/// What the peer says: a line for the server, one for who comes next, and much.
fn said() -> Vec<u8> {
    let much = (0..300_000_u32).map(|n| (n % 251) as u8);
    b"hello\nnext\n".iter().copied().chain(much).collect()
}

/// All that it hears.
fn hear(site: &Site, at: IpAddr) -> Vec<u8> {
    let connect = || TcpStream::connect_timeout(&SocketAddr::new(at, PORT), PROMPT).unwrap();
    let mut stream = site.lab().peer().enter(connect);
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        // Both lines at once: what the server has not read is for who comes next.
        writer.write_all(&said()).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    writer.join().unwrap();
    heard
}

/// The peer hears the same of a server on the daemon's stack as of one on the kernel.
fn is_as_on_the_kernel(case: &str) {
    is_as_on_the_kernel_for("1001", case);
}

/// The same, for a server of this user.
fn is_as_on_the_kernel_for(user: &str, case: &str) {
    let in_go = case == "in_go";
    let compiler = if in_go { "go" } else { "cc" };
    let Some(host) = Host::new(&["python3", compiler]) else {
        return;
    };
    let site = &host.site;
    let (empty, binary) = (site.file("empty"), site.file("binary"));
    fs::create_dir(&empty).unwrap();
    let source = |name| format!("{}/process/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut build = Command::new(compiler);
    if in_go {
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
        build.env("GOCACHE", cache).args(["build", "-o"]);
        build.arg(&binary).arg(source("goes_on.go"));
    } else {
        build.args(["-static", "-O2", "-o"]).arg(&binary);
        build.arg(source("static.c"));
    }
    succeed(build);
    let script = site.file("handed.py");
    fs::write(&script, include_str!("../process/handed.py")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
    let words = |at: IpAddr| format!("/usr/bin/python3 {} {case} {at} {PORT}", spell(&script));
    let start = |mut command: Command| {
        command.current_dir("/");
        command.env("EMPTY", &empty).env("BINARY", &binary);
        command
    };
    let (ours, peer) = (Family::V4.ours(), Family::V4.peer());
    let kernel = site.start_peer(start(site.peer(&words(peer))), PORT);
    let expected = hear(site, peer);
    ended(kernel, case);
    let server = site.start_ours(start(host.run(user, &words(ours))), PORT);
    let heard = hear(site, ours);
    ended(server, case);
    assert!(expected.len() > 300_000, "{}", show(&expected));
    assert!(
        heard == expected,
        "{} in place of {}",
        show(&heard),
        show(&expected)
    );
}

fn ended(server: Process, case: &str) {
    let finished = server.finish(WITHIN);
    if case != "killed" {
        finished.must_succeed();
    }
}

/// How much it is, and how it begins and ends.
fn show(heard: &[u8]) -> String {
    let (first, last) = (heard.iter().take(40), heard.iter().rev().take(20).rev());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let [first, last] = [first.copied().collect(), last.copied().collect()].map(text);
    format!("{} bytes, {first:?} ... {last:?}", heard.len())
}

#[test]
fn a_program_that_is_executed_goes_on_with_a_connection() {
    is_as_on_the_kernel("executed");
}

#[test]
fn a_program_without_the_library_is_passed_a_connection() {
    is_as_on_the_kernel("passed");
}

#[test]
fn who_passes_a_connection_on_still_has_it() {
    is_as_on_the_kernel("passed_on");
}

#[test]
fn a_child_outlives_its_parent_that_is_killed() {
    is_as_on_the_kernel("killed");
}

#[test]
fn a_child_goes_on_when_its_parent_has_closed() {
    is_as_on_the_kernel("closed");
}

#[test]
fn a_program_that_is_spawned_has_a_connection() {
    is_as_on_the_kernel("spawned");
}

#[test]
fn a_program_that_is_run_and_waited_for_has_a_connection() {
    is_as_on_the_kernel("run");
}

#[test]
fn a_program_that_is_linked_statically_goes_on_with_a_connection() {
    is_as_on_the_kernel("static");
}

#[test]
fn a_program_in_go_goes_on_with_a_connection() {
    is_as_on_the_kernel("in_go");
}

#[test]
fn a_child_with_another_root_goes_on_with_a_connection() {
    is_as_on_the_kernel_for("0", "chrooted");
}

/// node's primary passes connections to its workers, or the listener.
const CLUSTER: &str = "
const cluster = require('cluster'), [policy, host, port] = process.argv.slice(2);
cluster.schedulingPolicy = policy === 'shared' ? cluster.SCHED_NONE : cluster.SCHED_RR;
if (cluster.isPrimary) { cluster.fork(); cluster.fork(); }
else require('http').createServer((_, answer) => answer.end(`${process.pid}`)).listen(port, host);
";

#[test]
fn the_workers_of_a_cluster_of_node_serve() {
    let Some(host) = Host::new(&["node", "ab"]) else {
        return;
    };
    let site = &host.site;
    let script = site.write("cluster.js", CLUSTER);
    fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
    for (port, policy) in [(8081, "passed"), (8082, "shared")] {
        let at = Family::V4.ours();
        let mut node = host.run("1001", &format!("node {script} {policy} {at} {port}"));
        node.current_dir("/");
        let server = site.start_ours(node, port);
        let load = format!("ab -q -n 500 -c 10 http://{at}:{port}/");
        judge_ab(&succeed(site.peer(&load)).stdout, 500);
        site.kill_ours(server, port);
    }
}

/// Servers that fork for each connection and execute another program with it.
#[test]
fn servers_that_execute_a_program_for_each_connection() {
    let Some(host) = Host::new(&["socat", "systemd-socket-activate"]) else {
        return;
    };
    let site = &host.site;
    let at = SocketAddr::new(Family::V4.ours(), PORT);
    for words in [
        format!(
            "socat TCP-LISTEN:{PORT},bind={},fork,reuseaddr EXEC:/bin/cat",
            at.ip()
        ),
        format!("systemd-socket-activate -l {at} --inetd -a /bin/cat"),
    ] {
        let server = site.start_ours(host.run("1001", &words), PORT);
        for _ in 0..3 {
            let heard = hear(site, at.ip());
            assert!(heard == said(), "{words}: {}", show(&heard));
        }
        site.kill_ours(server, PORT);
    }
}

/// vsftpd forks for each session, and a session listens for the data or connects to the client.
#[test]
fn vsftpd_serves_files() {
    let Some(host) = Host::new(&["vsftpd", "curl"]) else {
        return;
    };
    let site = &host.site;
    let www = site.lab().www();
    files::make(&www.join("large"), 4, 3_000_000);
    fs::set_permissions(&www, Permissions::from_mode(0o755)).unwrap();
    let conf = format!(
        "listen=YES\nlisten_address={}\nlisten_port=2121\nbackground=NO\nanonymous_enable=YES\nanon_root={}\n\
         run_as_launching_user=YES\nno_anon_password=YES\nxferlog_enable=NO\nconnect_from_port_20=NO\n\
         secure_chroot_dir={1}\nseccomp_sandbox=NO\n",
        Family::V4.ours(),
        www.display()
    );
    let conf = site.write("vsftpd.conf", &conf);
    fs::set_permissions(&conf, Permissions::from_mode(0o644)).unwrap();
    let words = format!("vsftpd {conf} -opasv_min_port=30000 -opasv_max_port=30100");
    let _server = site.start_ours(host.run("0", &words), 2121);
    let got = site.file("got");
    for active in ["", "-P - "] {
        let large = format!("ftp://{}:2121/large", Family::V4.ours());
        let curl = format!("curl -sSf {active}-o {} {large}", spell(&got));
        succeed(site.peer(&curl));
        same(&www.join("large"), &got);
    }
}
