//! A master that has the listeners and workers of another user that serve, on the stack of a daemon
//! and on the kernel: under load it is told to replace them, or itself by another one, and clients
//! hear of nothing.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use applications::host::Host;
use applications::process::{PROMPT, wait_until};
use applications::site::{WITHIN, spell, succeed};
use applications::steady::{Losses, children, disturb};
use applications::web::{judge_ab, publish, same};
use applications::{Family, Process, Site};
use interop::process::finish;
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 80;
const REQUESTS: u32 = 6000;

/// nginx whose master is root's and whose workers are not.
struct Nginx<'a> {
    site: &'a Site,
    at: IpAddr,
    directory: PathBuf,
    /// Whether it leaves who has started it.
    daemon: &'static str,
}

impl<'a> Nginx<'a> {
    fn new(site: &'a Site, at: IpAddr, name: &str) -> Self {
        let directory = site.file(name);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        Self {
            site,
            at,
            directory,
            daemon: "off",
        }
    }

    fn words(&self) -> String {
        let directory = spell(&self.directory);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {directory}/{what};"))
            .concat();
        let text = format!(
            "daemon {}; user www-data; worker_processes 2; pid {directory}/pid; error_log {directory}/error;\n\
             events {{}}\n\
             http {{ access_log off; {temporary} server {{ listen {}:{PORT}; root {}; }} }}\n",
            self.daemon,
            self.at,
            spell(&self.site.lab().www())
        );
        let file = self.directory.join("conf");
        fs::write(&file, text).unwrap();
        format!("nginx -e {directory}/error -c {}", spell(&file))
    }

    fn master(&self) -> Option<Pid> {
        pid_in(&self.directory.join("pid"))
    }

    fn url(&self) -> String {
        format!("http://{}:{PORT}/small", self.at)
    }

    /// What clients hear while the server is changed in this way.
    fn changed_under_load(&self, change: impl FnOnce(&Self)) {
        let load = format!("ab -q -n {REQUESTS} -c 20 {}", self.url());
        let load = Process::start(self.site.peer(&load));
        change(self);
        judge_ab(&load.finish(WITHIN).must_succeed().stdout, REQUESTS);
        let target = self.site.file("fetched");
        let curl = format!("curl -sSf -o {} {}", spell(&target), self.url());
        succeed(self.site.peer(&curl));
        same(&self.site.lab().www().join("small"), &target);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.master().unwrap(), signal).unwrap();
    }
}

/// Also when a test fails nothing of it is left.
impl Drop for Nginx<'_> {
    fn drop(&mut self) {
        let Some(master) = self.master() else {
            return;
        };
        // One that ended before has left nobody to tell.
        let _ = kill_process(master, Signal::TERM);
        wait_until("nginx is gone", PROMPT, || is_over(master));
    }
}

fn pid_in(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

/// Whether it has ended; whose child it was may not have heard of it.
fn is_over(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Both servers, on the kernel first, under the same change.
fn compared(change: fn(&Nginx<'_>)) {
    let Some(host) = Host::new(&["nginx", "ab", "curl"]) else {
        return;
    };
    let site = &host.site;
    publish(site);
    fs::set_permissions(site.lab().www(), Permissions::from_mode(0o755)).unwrap();
    let plain = Nginx::new(site, Family::V4.peer(), "plain");
    let server = site.start_peer(site.peer(&plain.words()), PORT);
    plain.changed_under_load(change);
    drop(plain);
    server.finish(WITHIN);
    let ours = Nginx::new(site, Family::V4.ours(), "ours");
    let server = site.start_ours(host.run("0", &ours.words()), PORT);
    ours.changed_under_load(change);
    drop(ours);
    server.finish(WITHIN);
    let curl = format!("curl -sS http://{}:{PORT}/small", Family::V4.ours());
    let gone = finish(site.peer(&curl), WITHIN);
    assert_eq!(gone.status.code(), Some(7), "refused: {gone:?}");
    host.daemon.stop().must_succeed();
}

/// Reload: new workers beside the old ones, which finish what they have begun.
#[test]
fn workers_of_another_user_are_replaced() {
    compared(|nginx| {
        for _ in 0..3 {
            let master = nginx.master().unwrap();
            wait_until("two workers", PROMPT, || children(master).len() == 2);
            let old = children(master);
            nginx.signal(Signal::HUP);
            wait_until("the workers are others", PROMPT, || {
                let now = children(master);
                now.len() == 2 && now.iter().all(|pid| !old.contains(pid))
            });
        }
    });
}

/// Starts a server that leaves who has started it.
fn start_daemon(nginx: &mut Nginx<'_>, command: impl FnOnce(&str) -> Command) {
    nginx.daemon = "on";
    succeed(command(&nginx.words()));
    wait_until("two workers", PROMPT, || workers(nginx) == 2);
}

fn workers(nginx: &Nginx<'_>) -> usize {
    nginx.master().map_or(0, |master| children(master).len())
}

/// Binary upgrade, as nginx's manual has it: a new master beside the old one, whose workers end
/// first, and which ends then.
fn upgrade(nginx: &Nginx<'_>) {
    let old = nginx.master().unwrap();
    nginx.signal(Signal::USR2);
    wait_until("the new master and its workers", WITHIN, || {
        nginx.master().is_some_and(|new| new != old) && workers(nginx) == 2
    });
    kill_process(old, Signal::WINCH).unwrap();
    let new = nginx.master().unwrap();
    wait_until("the old workers are gone", WITHIN, || {
        children(old).iter().all(|&pid| pid == new || is_over(pid))
    });
    kill_process(old, Signal::QUIT).unwrap();
    wait_until("the old master is gone", WITHIN, || is_over(old));
}

#[test]
fn an_upgrade_of_the_binary_loses_no_request() {
    let Some(host) = Host::new(&["nginx"]) else {
        return;
    };
    let site = &host.site;
    publish(site);
    fs::set_permissions(site.lab().www(), Permissions::from_mode(0o755)).unwrap();
    let wanted = fs::read(site.lab().www().join("small")).unwrap();
    let losses = |nginx: &Nginx<'_>| {
        let at = SocketAddr::new(nginx.at, PORT);
        disturb(site, at, &wanted, || upgrade(nginx))
    };
    let mut plain = Nginx::new(site, Family::V4.peer(), "plain");
    start_daemon(&mut plain, |words| site.peer(words));
    let on_kernel = losses(&plain);
    drop(plain);
    let mut ours = Nginx::new(site, Family::V4.ours(), "ours");
    start_daemon(&mut ours, |words| host.run("0", words));
    let on_ours = losses(&ours);
    drop(ours);
    let none = Losses { cut: 0, lost: 0 };
    assert_eq!([on_kernel, on_ours], [none; 2]);
}
