//! Private daemons: one for all programs of a user, a network namespace and a link. The first that
//! needs it starts it; it is nobody's child, and ends about a second after the last one is gone.
//!
//! Whoever starts or joins holds a lock meanwhile, and so does a daemon that ends. So four programs
//! that start at once meet in one daemon, and none meets one that is about to end.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::client::{self, Found, Session};
use crate::lock::Lock;
use crate::place::Place;
use crate::{Build, Error, NetNamespace, sys};

/// How long a private daemon stays when its last program is gone.
pub const LINGER: Duration = Duration::from_secs(1);
/// Within what a daemon must be ready: it may have to ask whether another host has its address.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a daemon waits for the one before it to end.
pub const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(10);
/// What a daemon says when it serves.
const READY: &str = "mtcp daemon: ready";
/// Bytes that a daemon may say before that.
const SAID_MAX: usize = 64 << 10;

/// A private daemon that serves us.
#[derive(Debug)]
pub struct Joined {
    /// The connection to it.
    pub session: Session,
    /// What it warned of when we started it, one line each; `None`: it ran already.
    pub started: Option<Vec<String>>,
}

/// The name of the private daemon of this namespace and these words, which say what it is for.
pub fn key(namespace: NetNamespace, words: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    for number in [namespace.device, namespace.inode] {
        number.to_le_bytes().into_iter().for_each(&mut add);
    }
    for word in words {
        word.bytes().chain([0]).for_each(&mut add);
    }
    format!("private-{hash:016x}")
}

/// A session with the private daemon of this key, which `command` (a program and its arguments)
/// starts in the background if there is none: see [`detach`].
///
/// # Errors
/// Why it cannot start, as it says itself; it does not get ready; or no directory can be had.
pub fn start_or_join(
    places: &[Place],
    key: &str,
    build: &Build,
    command: &[OsString],
) -> Result<Joined, Error> {
    let join = || client::named(places, key, build);
    if let Found::Session(session) = join()? {
        return Ok(Joined {
            session,
            started: None,
        });
    }
    let place = usable(places)?;
    let path = place.start_lock(key);
    let _lock = Lock::take(&path, START_TIMEOUT)?.map_err(|holder| stuck(&path, holder))?;
    // Somebody else may have started it meanwhile.
    if let Found::Session(session) = join()? {
        return Ok(Joined {
            session,
            started: None,
        });
    }
    let warnings = start(command)?;
    match join()? {
        Found::Session(session) => Ok(Joined {
            session,
            started: Some(warnings),
        }),
        Found::Nobody(error) => Err(error),
    }
}

/// The first place that can be used.
///
/// # Errors
/// Why the last one cannot.
pub fn usable(places: &[Place]) -> Result<&Place, Error> {
    let mut failure = Error::new(
        Errno::NOENT,
        "there is no directory for sockets",
        "name one",
    );
    for place in places {
        match place.make() {
            Ok(()) => return Ok(place),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn stuck(path: &Path, holder: Option<u32>) -> Error {
    let who = holder.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    Error::new(
        Errno::TIMEDOUT,
        format!("{who} keeps the lock '{}'", path.display()),
        "see what it does, or end it",
    )
}

/// Starts the daemon; what it said before it was ready.
fn start(command: &[OsString]) -> Result<Vec<String>, Error> {
    let error = |what: &str, error: &io::Error| {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        let cause = format!("cannot start a daemon: {what}: {error}");
        Error::new(errno, cause, "raise the limits of processes and open files")
    };
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Error::new(Errno::INVAL, "cannot start a daemon: no program", "name it"))?;
    let (said, says) = io::pipe().map_err(|cause| error("no pipe", &cause))?;
    let also = says.try_clone().map_err(|cause| error("no pipe", &cause))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(says)
        .stderr(also)
        // It takes no calls of its own, and is not the service that we may be.
        .env_remove("LD_PRELOAD")
        .env_remove("NOTIFY_SOCKET");
    let spawned = command.spawn();
    // Its ends of the pipe go with it.
    drop(command);
    let mut child =
        spawned.map_err(|cause| error(&format!("'{}'", program.to_string_lossy()), &cause))?;
    let said = read_until_ready(said, Instant::now() + START_TIMEOUT);
    // It has ended or will at once; somebody else may have waited for all children.
    let _ = child.wait();
    said
}

/// Lines until it is ready. The last one says why it is not.
fn read_until_ready(mut pipe: PipeReader, end: Instant) -> Result<Vec<String>, Error> {
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said);
        if let Some((before, _)) = text.split_once(&format!("{READY}\n")) {
            return Ok(before.lines().map(str::to_owned).collect());
        }
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => {
                let cause =
                    format!("a daemon that was started is not ready after {START_TIMEOUT:?}");
                return Err(Error::new(Errno::TIMEDOUT, cause, "see what it does (ps)"));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno, &text)),
        }
        let mut bytes = [0; 4096];
        match pipe.read(&mut bytes) {
            Ok(0) => return Err(failed(Errno::CHILD, &text)),
            Ok(count) if said.len() < SAID_MAX => said.extend(&bytes[..count]),
            Ok(_) => return Err(failed(Errno::MSGSIZE, &text)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(failed(
                    Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    &text,
                ));
            }
        }
    }
}

fn failed(errno: Errno, said: &str) -> Error {
    let last = said.lines().last().unwrap_or("it ended without a word");
    let last = last.strip_prefix("mtcp: ").unwrap_or(last);
    Error::new(errno, format!("no daemon for this link: {last}"), "")
}

/// In the process that [`start_or_join`] started: starts `command`, which becomes the daemon, and
/// is to end at once, so that the daemon is nobody's child. What it was not given goes.
///
/// # Errors
/// It cannot be started.
pub fn detach(command: &[OsString]) -> io::Result<()> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    sys::close_from(3)?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}

/// In the daemon, when it serves: says so to who started it, and lets go of what it had from there.
/// What it says from now on goes to `log`.
///
/// # Errors
/// The file cannot be written.
pub fn say_ready(log: &Path) -> io::Result<()> {
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_APPEND)
        .open(log)?;
    let null = OpenOptions::new().read(true).open("/dev/null")?;
    let mut out = io::stdout().lock();
    // Who started it may be gone; others come.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
    dup2_stdin(&null)?;
    dup2_stdout(&log)?;
    dup2_stderr(&log)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_namespace_and_words() {
        let here = NetNamespace {
            device: 4,
            inode: 5,
        };
        let there = NetNamespace {
            device: 4,
            inode: 6,
        };
        let one = key(here, &["tap:t0", "10.0.0.2/24"]);
        assert_eq!(one, key(here, &["tap:t0", "10.0.0.2/24"]));
        assert_ne!(one, key(there, &["tap:t0", "10.0.0.2/24"]));
        assert_ne!(one, key(here, &["tap:t01", "0.0.0.2/24"]));
        assert!(crate::place::check_name(&one).is_ok());
    }

    fn says(text: &str) -> Result<Vec<String>, Error> {
        let (read, mut write) = io::pipe().unwrap();
        let text = text.to_owned();
        // A pipe may not hold all of it, and who reads may stop.
        std::thread::spawn(move || write.write_all(text.as_bytes()));
        read_until_ready(read, Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn a_daemon_says_warnings_and_ready_or_why_not() {
        assert_eq!(says("mtcp daemon: ready\n"), Ok(vec![]));
        assert_eq!(
            says("mtcp: warning: x\nmtcp daemon: ready\n"),
            Ok(vec!["mtcp: warning: x".to_owned()])
        );
        let why = |text| says(text).unwrap_err().to_string();
        assert_eq!(
            why("mtcp: warning: x\nmtcp: no link: make one\n"),
            "no daemon for this link: no link: make one"
        );
        assert_eq!(why(""), "no daemon for this link: it ended without a word");
        assert!(says(&"x\n".repeat(100_000)).is_err());
    }

    #[test]
    fn one_that_says_nothing_is_not_waited_for_for_ever() {
        let (read, _write) = io::pipe().unwrap();
        let error = read_until_ready(read, Instant::now()).unwrap_err();
        assert_eq!(error.errno(), Errno::TIMEDOUT);
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let base = tempfile::tempdir().unwrap();
        let places = [Place::private(base.path().join("mtcp"))];
        let build = Build::new("test", 0);
        let command = [OsString::from("/nonexistent/mtcp")];
        let error = start_or_join(&places, "x", &build, &command).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot start a daemon: '/nonexistent/mtcp'"),
            "{error}"
        );
    }
}
