//! A daemon's stack on real links, once the daemon has given up what it does not need.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::Permissions;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use interop::lab::Family;
use interop::process::{PROMPT, Process, wait_until};
use interop::{Gate, Kind, Lab, baseline, files, programs};

const SOON: Duration = Duration::from_secs(30);
/// What curl says of a connection that is refused.
const CURL_REFUSED: i32 = 7;

/// A daemon on the link of `lab`, with these lines in its settings file.
fn daemon(lab: &Lab, settings: &str) -> Process {
    daemon_on(lab, &lab.link_args(), settings)
}

fn daemon_on(lab: &Lab, link: &[String], settings: &str) -> Process {
    let file = lab.files().join("daemon.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = lab.ours().command(programs::mtcp());
    command
        .arg("daemon")
        .args(link)
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

/// `mtcp` of somebody without rights, attached to the daemon of `lab`.
fn attached(lab: &Lab, user: &str, words: &[&str]) -> std::process::Command {
    let mut command = lab.ours().command("setpriv");
    command
        .args(["--reuid", user, "--regid", user, "--clear-groups"])
        .arg(lab.files().join("mtcp"))
        .args(words)
        .arg("--io")
        .arg(format!(
            "daemon:{}/default",
            lab.files().join("run").display()
        ));
    command
}

/// The sockets that a user sees: user and local address of each.
fn sockets(lab: &Lab, user: &str) -> Vec<(String, String)> {
    let mut command = lab.ours().command("setpriv");
    command
        .args(["--reuid", user, "--regid", user, "--clear-groups"])
        .arg(lab.files().join("mtcp"))
        .args(["sockets", "--daemon"])
        .arg(lab.files().join("run/default"));
    let finished = interop::process::finish(command, PROMPT).must_succeed();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let uid = words.last().unwrap().strip_prefix("uid:").unwrap();
        (uid.to_owned(), words[4].to_owned())
    };
    finished.stdout.lines().skip(1).map(row).collect()
}

/// Each user sees his own sockets only, root and the user whom the daemon is see all.
fn see_their_own(lab: &Lab, users: [&str; 2]) {
    let seen = users.map(|user| sockets(lab, user));
    for (user, seen) in users.iter().zip(&seen) {
        assert!(seen.iter().all(|(uid, _)| uid == user), "{user}: {seen:?}");
    }
    let all = sockets(lab, "0");
    for (port, user) in [("8080", users[0]), ("8081", users[1])] {
        let of = |seen: &[(String, String)]| {
            let at = format!(":{port}");
            let found = seen.iter().filter(|(_, local)| local.ends_with(&at));
            found.map(|(uid, _)| uid.clone()).next()
        };
        assert_eq!(of(&all).as_deref(), Some(user));
        assert_eq!(
            seen.each_ref().map(|seen| of(seen).is_some()),
            users.map(|one| one == user)
        );
    }
    assert_eq!(sockets(lab, "65531"), []);
}

fn serving(lab: &Lab, user: &str, port: &str) -> Process {
    let www = lab.www();
    let words = ["serve", www.to_str().unwrap(), "--port", port];
    let mut server = Process::start(attached(lab, user, &words));
    server.wait_for("listening on", PROMPT);
    server
}

/// A lab where everybody may run `mtcp`, with 10 MB to serve.
fn for_everybody() -> Lab {
    programs::require(&["curl", "setpriv"]);
    let lab = Lab::new(Kind::Afxdp);
    std::fs::set_permissions(lab.files(), Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(programs::mtcp(), lab.files().join("mtcp")).unwrap();
    files::make(&lab.www().join("big"), 7, 10 << 20);
    lab
}

/// Fetches 10 MB from a port, and compares; the exit status of curl where there is no answer.
fn fetch(lab: &Lab, port: &str) -> Result<(), Option<i32>> {
    fetch_at(lab, Family::BOTH.map(Family::ours), port)
}

fn fetch_at(lab: &Lab, addresses: [IpAddr; 2], port: &str) -> Result<(), Option<i32>> {
    for address in addresses {
        let address = match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        let url = format!("http://{address}:{port}/big");
        let got = lab.files().join("got");
        let words = ["-s", "-o", got.to_str().unwrap(), &url];
        let finished = lab.curl(&words, SOON);
        if !finished.status.success() {
            return Err(finished.status.code());
        }
        let difference = files::difference(&got, &lab.www().join("big"));
        assert_eq!(difference, None);
    }
    Ok(())
}

/// Two users serve at the same time; what one had is gone when it is killed, and the other goes on.
#[test]
fn users_without_rights_share_one_address() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = for_everybody();
    let daemon = daemon(&lab, "listen = 65534 * 90\n");
    let first = serving(&lab, "65534", "8080");
    let second = serving(&lab, "65533", "8081");
    for port in ["8080", "8081"] {
        assert_eq!(fetch(&lab, port), Ok(()), "{port}");
    }
    see_their_own(&lab, ["65534", "65533"]);
    // An endpoint is one user's, and ports below 1024 are for whom the settings name.
    let taken = attached(&lab, "65532", &["serve", "/", "--port", "8080"]);
    let taken = interop::process::finish(taken, PROMPT);
    assert!(!taken.status.success(), "{taken}");
    assert!(taken.stderr.contains("in use"), "{taken}");

    first.kill();
    wait_until("the port is free", SOON, || {
        fetch(&lab, "8080") == Err(Some(CURL_REFUSED))
    });
    assert_eq!(fetch(&lab, "8081"), Ok(()));
    serving(&lab, "65532", "8080").stop().must_succeed();

    // A client beside the server.
    let peer = lab.peer_serve(&[]);
    let url = interop::lab::url(Family::V4.peer(), "/big");
    let load = attached(&lab, "65534", &["load", &url, "--requests", "20", "--json"]);
    interop::process::finish(load, SOON).must_succeed();
    peer.stop().must_succeed();
    second.stop().must_succeed();
    daemon.stop().must_succeed();
}

/// Nothing is said of addresses. What the kernel serves there goes on, and is served when the
/// daemon has ended.
#[test]
fn users_without_rights_are_at_the_hosts_address() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = for_everybody();
    let host = Family::BOTH.map(Family::kernel);
    let link = ["--io", "afxdp:ours0"].map(String::from);
    let daemon = daemon_on(&lab, &link, "user = nobody\n");
    let server = serving(&lab, "65533", "8080");
    assert_eq!(fetch_at(&lab, host, "8080"), Ok(()));
    // The user whom the daemon is.
    let mut nobodys = sockets(&lab, "65534").into_iter();
    assert!(nobodys.any(|(uid, _)| uid == "65533"));
    let at = SocketAddr::new(Family::V4.kernel(), 8081);
    let kernel = lab.ours().enter(|| TcpListener::bind(at)).unwrap();
    let client = lab.peer().enter(|| TcpStream::connect(at)).unwrap();
    assert_eq!(kernel.accept().unwrap().1, client.local_addr().unwrap());
    for address in host {
        wait_until("the kernel answers", SOON, || lab.peer_pings(address));
    }
    let peer = lab.peer_serve(&[]);
    let url = interop::lab::url(Family::V4.peer(), "/big");
    let load = attached(&lab, "65533", &["load", &url, "--requests", "20", "--json"]);
    interop::process::finish(load, SOON).must_succeed();
    peer.stop().must_succeed();
    server.stop().must_succeed();
    daemon.stop().must_succeed();
    let at = SocketAddr::new(Family::V4.kernel(), 8080);
    let _kernel = lab.ours().enter(|| TcpListener::bind(at)).unwrap();
    lab.peer().enter(|| TcpStream::connect(at)).unwrap();
}
