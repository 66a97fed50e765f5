//! Child processes that do not outlive this one.

use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often whoever waits looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long a child that is not wanted any more has to clean up.
const GRACE: Duration = Duration::from_secs(5);

/// Set once the user asked to stop.
#[derive(Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Watches for SIGINT and SIGTERM from now on.
    pub fn watch() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .context("cannot watch signals")?;
        }
        Ok(stop)
    }

    /// Whether the user asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A running child. When dropped it is asked to end, so that it cleans up, and killed if it does
/// not.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        if let Ok(None) = self.0.try_wait() {
            self.terminate();
            let _ = self.wait(Some(GRACE), &Stop::default());
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(Self(child))
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
    }

    /// Waits until it has ended, for at most `limit`.
    pub fn wait(&mut self, limit: Option<Duration>, stop: &Stop) -> Result<ExitStatus> {
        self.until(limit, stop, |status| status)
    }

    /// Waits until `look` has an answer, which is given how the child ended if it did, for at most
    /// `limit`.
    pub fn until<T>(
        &mut self,
        limit: Option<Duration>,
        stop: &Stop,
        mut look: impl FnMut(Option<ExitStatus>) -> Option<T>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            let status = self.0.try_wait().context("cannot wait for a child")?;
            if let Some(answer) = look(status) {
                return Ok(answer);
            }
            if stop.is_asked() {
                bail!("interrupted");
            }
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                bail!("it took too long");
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

    fn shell(script: &str) -> Running {
        Running::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_child_is_waited_for_until_it_ends_or_for_too_long() {
        let stop = Stop::default();
        let status = shell("exit 3").wait(LIMIT, &stop).unwrap();
        assert_eq!(status.code(), Some(3));
        let mut sleeper = shell("exec sleep 60");
        let error = sleeper.wait(Some(LOOK), &stop).unwrap_err();
        assert_eq!(error.to_string(), "it took too long");
        sleeper.terminate();
        assert_eq!(sleeper.wait(LIMIT, &stop).unwrap().code(), None);
    }

    #[test]
    fn a_child_that_is_dropped_cleans_up() {
        let directory = tempfile::tempdir().unwrap();
        let [ready, clean] = ["ready", "clean"].map(|name| directory.path().join(name));
        let script = format!(
            "trap 'touch {}; exit' TERM; touch {}; while :; do sleep 0.01; done",
            clean.display(),
            ready.display()
        );
        let mut child = shell(&script);
        let is_ready = |_| ready.exists().then_some(());
        child.until(LIMIT, &Stop::default(), is_ready).unwrap();
        drop(child);
        assert!(clean.exists());
    }

    #[test]
    fn nobody_waits_on_when_asked_to_stop_and_nothing_is_left() {
        let stop = Stop::default();
        stop.0.store(true, Ordering::Release);
        let mut sleeper = shell("exec sleep 60");
        let pid = Pid::from_child(&sleeper.0);
        let error = sleeper.wait(LIMIT, &stop).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        drop(sleeper);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
