//! Processes that end with the test that started them, and say what they printed when it fails.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// How long a program may take to start or to stop.
pub const PROMPT: Duration = Duration::from_secs(20);
/// Output kept per stream; programs here print little.
const MOST_OUTPUT: usize = 1 << 20;
const POLL: Duration = Duration::from_millis(2);

type Captured = Arc<Mutex<Vec<u8>>>;

/// A running program. Killed when dropped; its output is shown if that happens because a test
/// fails.
pub struct Process {
    child: Child,
    name: String,
    stdout: Captured,
    stderr: Captured,
    readers: Vec<JoinHandle<()>>,
}

/// What a program left when it ended.
#[derive(Debug)]
pub struct Finished {
    /// The command line.
    pub name: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.child.id())
    }
}

impl Process {
    /// Starts `command`.
    pub fn start(mut command: Command) -> Self {
        let name = spell(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let (stdout, stderr) = (Captured::default(), Captured::default());
        let readers = vec![
            capture(child.stdout.take().unwrap(), Arc::clone(&stdout)),
            capture(child.stderr.take().unwrap(), Arc::clone(&stderr)),
        ];
        Self {
            child,
            name,
            stdout,
            stderr,
            readers,
        }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        text(&self.stdout)
    }

    /// What it has said on stderr so far.
    pub fn said(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until it has printed `wanted`.
    pub fn wait_for(&mut self, wanted: &str, within: Duration) {
        self.wait_until(|process| process.printed().contains(wanted), wanted, within);
    }

    /// Waits until it has said `wanted` on stderr.
    pub fn wait_for_warning(&mut self, wanted: &str, within: Duration) {
        self.wait_until(
            |process| text(&process.stderr).contains(wanted),
            wanted,
            within,
        );
    }

    fn wait_until(&mut self, done: impl Fn(&Self) -> bool, wanted: &str, within: Duration) {
        let end = Instant::now() + within;
        while !done(self) {
            let gone = self.child.try_wait().unwrap();
            assert!(
                gone.is_none(),
                "ended ({}) before it printed '{wanted}': {self:?}",
                gone.unwrap()
            );
            assert!(
                Instant::now() < end,
                "did not print '{wanted}' in {within:?}: {self:?}"
            );
            thread::sleep(POLL);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    /// Processor time so far, of all its threads.
    pub fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let nanoseconds = tasks.flatten().filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks it to stop, and waits; it must say that all was well.
    pub fn stop(self) -> Finished {
        self.signal(Signal::TERM);
        self.finish(PROMPT).must_succeed()
    }

    /// Waits until it ends by itself.
    pub fn finish(mut self, within: Duration) -> Finished {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                start.elapsed() < within,
                "still running after {within:?}: {self:?}"
            );
            thread::sleep(POLL);
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Finished {
            name: self.name.clone(),
            status,
            stdout: self.printed(),
            stderr: text(&self.stderr),
            took: start.elapsed(),
        }
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn end(&mut self) {
        // It may have ended already; both calls then do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            let state = self.child.try_wait().ok().flatten();
            let state = state.map_or("running".to_owned(), |status| status.to_string());
            eprintln!(
                "--- {self:?}: {state}\n{}{}---",
                self.printed(),
                text(&self.stderr)
            );
        }
        self.end();
    }
}

impl Finished {
    /// Itself, if the program succeeded.
    pub fn must_succeed(self) -> Self {
        assert!(self.status.success(), "{self}");
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            status,
            stdout,
            stderr,
            took,
        } = self;
        write!(f, "{name}: {status} after {took:?}\n{stdout}{stderr}")
    }
}

/// Runs `command` to its end.
pub fn finish(command: Command, within: Duration) -> Finished {
    Process::start(command).finish(within)
}

/// Thousands of connections are thousands of files: as many as this user may have.
pub fn raise_open_files() {
    const WANTED: u64 = 200_000;
    let hard = getrlimit(Resource::Nofile).maximum;
    for maximum in [hard.map(|maximum| maximum.max(WANTED)), hard] {
        let wanted = Rlimit {
            current: maximum,
            maximum,
        };
        if setrlimit(Resource::Nofile, wanted).is_ok() {
            return;
        }
    }
}

/// Waits until `is_so`.
pub fn wait_until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < within, "not in {within:?}: {what}");
        thread::sleep(POLL);
    }
    start.elapsed()
}

fn capture(mut from: impl Read + Send + 'static, into: Captured) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST_OUTPUT.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..read.min(room)]);
        }
    })
}

fn text(captured: &Captured) -> String {
    let bytes = captured.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn spell(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
