//! A daemon that has the stack, and programs of users without rights on it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use interop::process::PROMPT;
use interop::{Process, baseline, programs};

use crate::Site;
use crate::site::spell;

/// A daemon, and `mtcp` where other users may execute it.
#[derive(Debug)]
pub struct Host {
    /// The daemon.
    pub daemon: Process,
    /// The two stations.
    pub site: Site,
}

impl Host {
    /// `None`: one of these programs is not installed, or all is to run on the kernel.
    pub fn new(needed: &[&str]) -> Option<Self> {
        let site = Site::new(needed).filter(|_| !baseline())?;
        site.open_to_all();
        let own = programs::mtcp();
        for name in ["mtcp", "libmtcp_preload.so"] {
            fs::copy(own.with_file_name(name), site.file(name)).unwrap();
            fs::set_permissions(site.file(name), Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = site.lab().mtcp(&["daemon"]);
        command.arg("--directory").arg(site.file("run"));
        let mut daemon = Process::start(command);
        daemon.wait_for("listening at", PROMPT);
        Some(Self { daemon, site })
    }

    /// A program of somebody without rights.
    pub fn run(&self, user: &str, words: &str) -> Command {
        let mut command = self.site.lab().ours().command("setpriv");
        command
            .args(["--reuid", user, "--regid", user, "--clear-groups"])
            .arg(self.site.file("mtcp"))
            .args(["run", "--allow", "io-uring", "--io"])
            .arg(format!("daemon:{}/default", spell(&self.site.file("run"))))
            .arg("--");
        let mut words = words.split_whitespace();
        command.arg(programs::find(words.next().unwrap()).unwrap());
        command.args(words);
        command
    }
}
