//! Masters with workers that share a listener, on the stack of a daemon and on the kernel: under
//! load a worker is killed, and clients lose what they would lose there.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;

use applications::host::Host;
use applications::process::wait_until;
use applications::site::{WITHIN, spell};
use applications::steady::{CHANGES, Losses, children, disturb};
use applications::{Family, Process, Site};
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 8080;
const ANSWER: &str = "served\n";
const WORKERS: usize = 3;

const APPLICATION: &str = "
def application(environment, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    return [b'served\\n']
";

/// A file that the server's user may read.
fn write(site: &Site, name: &str, text: &str) -> String {
    let file = site.write(name, text);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    file
}

fn master(server: &Process) -> Pid {
    Pid::from_raw(server.pid().cast_signed()).unwrap()
}

/// Kills a worker, in whose place the master makes another.
fn kill_one(server: &Process) {
    let old = children(master(server));
    kill_process(old[0], Signal::KILL).unwrap();
    wait_until("another worker", WITHIN, || {
        let now = children(master(server));
        now.len() == WORKERS && !now.contains(&old[0])
    });
}

/// What is lost on the kernel, and on the stack of a daemon.
fn compared(
    needed: &[&str],
    words: impl Fn(&Site, IpAddr) -> String,
    change: fn(&Process),
) -> Option<[Losses; 2]> {
    let host = Host::new(needed)?;
    let site = &host.site;
    let losses = [false, true].map(|on_ours| {
        let family = Family::V4;
        let at = if on_ours {
            family.ours()
        } else {
            family.peer()
        };
        let words = words(site, at);
        let server = if on_ours {
            let mut command = host.run("1001", &words);
            command.current_dir("/").env("HOME", "/tmp");
            site.start_ours(command, PORT)
        } else {
            site.start_peer(site.peer(&words), PORT)
        };
        wait_until("all workers", WITHIN, || {
            children(master(&server)).len() == WORKERS
        });
        let change = || change(&server);
        disturb(site, SocketAddr::new(at, PORT), ANSWER.as_bytes(), change)
    });
    Some(losses)
}

/// A worker that has one connection at a time takes no more with it.
fn is_one_a_kill([plain, ours]: [Losses; 2]) {
    for losses in [plain, ours] {
        assert!(
            losses.cut <= CHANGES && losses.lost == 0,
            "{plain:?} {ours:?}"
        );
    }
}

#[test]
fn a_killed_worker_of_gunicorn_takes_what_it_had_accepted() {
    let words = |site: &Site, at: IpAddr| {
        write(site, "application.py", APPLICATION);
        let directory = spell(site.lab().files());
        format!("gunicorn -w {WORKERS} -b {at}:{PORT} --chdir {directory} application")
    };
    if let Some(losses) = compared(&["gunicorn"], words, kill_one) {
        is_one_a_kill(losses);
    }
}
