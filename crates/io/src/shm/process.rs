//! Processes as words that several of them share: a PID with the time at which the process started,
//! so that another process that has the same PID later is not taken for it.

use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};

use crate::poll::{self, PollFd, PollFlags};

/// A process. Zero: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process(u64);

impl Process {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// This one.
    pub(super) fn own() -> Self {
        let pid = getpid().as_raw_nonzero().get().unsigned_abs();
        Self::new(pid, started("self"))
    }

    /// `started`: in ticks since the machine did. `None`: that is not known, and the PID has to do.
    fn new(pid: u32, started: Option<u32>) -> Self {
        Self(u64::from(started.unwrap_or_default()) << 32 | u64::from(pid))
    }

    pub(super) fn pid(self) -> u32 {
        self.0 as u32
    }

    fn started(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn id(self) -> Option<Pid> {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
    }

    pub(super) fn is_none(self) -> bool {
        self.pid() == 0
    }

    /// Whether it is this one, which may have been able to tell its time before, or not.
    pub(super) fn is_own(self) -> bool {
        let own = Self::own();
        let unknown = [self, own].iter().any(|process| process.started() == 0);
        self.pid() == own.pid() && (unknown || self == own)
    }

    /// Whether it has ended, perhaps without its parent having noticed, or was none.
    pub(super) fn is_gone(self) -> bool {
        let Some(pid) = self.id() else {
            return true;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => {
                let mut fds = [PollFd::new(&fd, PollFlags::IN)];
                let ended = poll::sleep(&mut fds, Some(Duration::ZERO)).is_ok_and(|n| n > 0);
                ended || self.is_another()
            }
            Err(error) => error == Errno::SRCH,
        }
    }

    /// Whether no process has its PID any more. That costs least to ask.
    pub(super) fn is_missing(self) -> bool {
        self.id()
            .is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// Whether the process that has this PID now started at another time.
    pub(super) fn is_another(self) -> bool {
        // Where /proc tells of other PIDs than ours, it says nothing of itself either.
        let known = self.started() != 0 && started("self").is_some();
        let now = known.then(|| started(&self.pid().to_string())).flatten();
        now.is_some_and(|now| now != self.started())
    }
}

/// When a process started, by proc(5). `None`: it is not told, or of the PIDs of another namespace.
fn started(name: &str) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
    let (pid, rest) = line.split_once(' ')?;
    let own = getpid().as_raw_nonzero().get().to_string();
    if name == "self" && pid != own {
        return None;
    }
    // The name of the program may have spaces and parentheses of its own.
    let (_, fields) = rest.rsplit_once(')')?;
    /// Of `starttime`, field 22, among those behind the name, which is field 2.
    const STARTTIME: usize = 22 - 3;
    let ticks: u64 = fields
        .split_ascii_whitespace()
        .nth(STARTTIME)?
        .parse()
        .ok()?;
    // 0 means that it is not known.
    Some((ticks as u32).max(1))
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// The process that a child is.
    pub(in super::super) fn of(child: &Child) -> Process {
        Process::new(child.id(), started(&child.id().to_string()))
    }

    /// A process that lives until its stdin ends.
    pub(in super::super) fn living() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// The process that had the PID of this child before it.
    pub(in super::super) fn before(child: &Child) -> Process {
        let now = of(child);
        Process::new(now.pid(), Some(now.started() - 1))
    }

    #[test]
    fn a_process_is_itself_until_it_ends() {
        let own = Process::own();
        assert!(own.started() != 0 && !own.is_gone() && !own.is_missing() && !own.is_another());
        let mut child = living();
        let process = of(&child);
        assert!(!process.is_gone());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(process.is_gone() && process.is_missing());
        assert!(Process::NONE.is_gone() && Process::NONE.is_none());
    }

    #[test]
    fn another_with_the_same_pid_is_not_taken_for_it() {
        let mut child = living();
        let before = before(&child);
        assert!(before.is_gone() && before.is_another() && !before.is_missing());
        // What says nothing of the time is known by its PID alone.
        let unknown = Process::new(child.id(), None);
        assert!(!unknown.is_gone() && !unknown.is_another() && !unknown.is_own());
        assert!(Process::new(std::process::id(), None).is_own() && Process::own().is_own());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
