//! Daemons as child processes.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{LONG, mtcp, wait};

/// A directory that others can reach, for sockets and settings.
pub fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A daemon with its socket below `directory`.
pub fn command(directory: &Path, more: &[&str]) -> Command {
    let mut command = mtcp();
    command
        .arg("daemon")
        .arg("--directory")
        .arg(directory.join("run"))
        .args(more)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A link of its own.
pub const LINK: [&str; 4] = ["--io", "loop:d", "--addr", "10.0.0.2/24"];

/// A daemon that is ready; killed with its owner.
#[derive(Debug)]
pub struct Daemon(pub Option<Child>);

impl Daemon {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let daemon = Self(Some(child));
        assert!(line.starts_with("mtcp daemon: listening at "), "{line}");
        daemon
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until it has ended; what it said.
    pub fn end(mut self) -> Output {
        wait(self.0.take().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
