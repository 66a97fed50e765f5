//! Child processes that do not outlive their owner.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::signals::Stop;

/// How often whoever waits looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long a child may take until it says its first line: a client of a benchmark fills up before.
const START: Duration = Duration::from_secs(60);

/// A running child; killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// What it printed first.
    first: String,
    /// What it prints after its first line.
    lines: mpsc::Receiver<Result<String, String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its first line.
    pub(crate) fn first_line(&self) -> &str {
        &self.first
    }

    /// Gives it an empty line, and waits for what it says next, for at most `limit`.
    ///
    /// # Errors
    /// It does not listen, it ended, took too long, or `stop` was requested.
    pub(crate) fn ask(&mut self, limit: Duration, stop: &Stop) -> anyhow::Result<String> {
        let input = self.child.stdin.as_mut().context("it has no input")?;
        input.write_all(b"\n").context("it does not listen")?;
        next(&self.lines, Instant::now() + limit, stop)
    }

    /// Ends its input and waits until it has ended, for at most `limit`; what it printed that
    /// nobody has asked for.
    ///
    /// # Errors
    /// It failed, took too long, or `stop` was requested.
    pub(crate) fn finish(mut self, limit: Duration, stop: &Stop) -> anyhow::Result<String> {
        drop(self.child.stdin.take());
        let status = ended(&mut self.child, limit, stop)?;
        if !status.success() {
            bail!("it failed ({status})");
        }
        let lines: Vec<String> = self.lines.iter().map_while(Result::ok).collect();
        Ok(lines.join("\n"))
    }

    /// Asks it to stop and waits for at most five seconds; whether it ended well by itself.
    pub(crate) fn stop(mut self) -> bool {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => std::thread::sleep(LOOK),
                Err(_) => return false,
            }
        }
        false
    }
}

/// A child, once it has printed its first line: for a server, that it listens.
pub(crate) fn start(mut command: Command, stop: &Stop) -> anyhow::Result<Running> {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let (sender, lines) = mpsc::channel();
    let mut running = Running {
        child,
        first: String::new(),
        lines,
    };
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    std::thread::spawn(move || listen(stdout, stderr, &sender));
    running.first = next(&running.lines, Instant::now() + START, stop)?;
    Ok(running)
}

/// The next line of a child, or its complaint as an error.
fn next(
    lines: &mpsc::Receiver<Result<String, String>>,
    deadline: Instant,
    stop: &Stop,
) -> anyhow::Result<String> {
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(complaint)) => bail!("{complaint}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!("it ended without a word"),
            Err(mpsc::RecvTimeoutError::Timeout) => check(stop, deadline)?,
        }
    }
}

/// Passes on what a child prints, line by line, and its complaint in the end.
fn listen(
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    sender: &mpsc::Sender<Result<String, String>>,
) {
    let (Some(stdout), Some(mut stderr)) = (stdout, stderr) else {
        return;
    };
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        // Whoever asked may have gone away meanwhile; the child shall not wait for us.
        let _ = sender.send(Ok(line.trim().to_owned()));
    }
    let mut said = String::new();
    let _ = stderr.read_to_string(&mut said);
    let complaint = without_warnings(&said);
    if !complaint.is_empty() {
        let _ = sender.send(Err(complaint));
    }
}

/// What a child of ours complains of. Its warnings are no complaint; they are passed on.
fn without_warnings(said: &str) -> String {
    let complaint = said.trim().lines().filter(|line| {
        let warning = line.strip_prefix("mtcp: warning: ");
        if let Some(warning) = warning {
            log::warn!("{warning}");
        }
        warning.is_none()
    });
    complaint.collect::<Vec<_>>().join("\n")
}

/// Waits until a child has ended, for at most `limit`.
fn ended(child: &mut Child, limit: Duration, stop: &Stop) -> anyhow::Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        check(stop, deadline)?;
        std::thread::sleep(LOOK);
    }
}

fn check(stop: &Stop, deadline: Instant) -> anyhow::Result<()> {
    if stop.requested() {
        bail!("interrupted");
    }
    if Instant::now() >= deadline {
        bail!("it took too long");
    }
    Ok(())
}

/// Runs a command to its end, for at most `limit`; what it printed.
///
/// # Errors
/// It failed (with its last complaint), took too long, or `stop` was requested.
pub(crate) fn output(mut command: Command, limit: Duration, stop: &Stop) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let mut running = Running {
        child,
        first: String::new(),
        lines: mpsc::channel().1,
    };
    let stdout = collect(running.child.stdout.take());
    let stderr = collect(running.child.stderr.take());
    let status = ended(&mut running.child, limit, stop)?;
    let stdout = stdout
        .recv_timeout(Duration::from_secs(5))
        .unwrap_or_default();
    if !status.success() {
        let complaint = stderr
            .recv_timeout(Duration::from_secs(5))
            .unwrap_or_default();
        let complaint = without_warnings(&complaint);
        let complaint = [complaint.trim(), stdout.trim()]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or("no word")
            .replace('\n', " ");
        bail!("{name} failed ({status}): {complaint}");
    }
    Ok(stdout)
}

/// Reads all of a pipe on a thread of its own, so that the child never waits for us.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is what there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_failures() {
        let stop = Stop::default();
        let limit = Duration::from_secs(20);
        assert_eq!(
            output(shell("echo hello"), limit, &stop).unwrap(),
            "hello\n"
        );
        let error = output(shell("echo broken >&2; exit 3"), limit, &stop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
        let error = output(shell("sleep 60"), Duration::from_millis(50), &stop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("too long"), "{error}");
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let error = start(shell("echo no such thing >&2; exit 2"), &Stop::default())
            .unwrap_err()
            .to_string();
        assert_eq!(error, "no such thing");
        let warned = "echo mtcp: warning: not that >&2; echo but this >&2; exit 2";
        let error = start(shell(warned), &Stop::default()).unwrap_err();
        assert_eq!(error.to_string(), "but this");
        let running = start(shell("echo listening; exec sleep 60"), &Stop::default()).unwrap();
        assert_eq!(running.first_line(), "listening");
        assert!(!running.stop());
    }

    #[test]
    fn a_child_is_asked_line_by_line() {
        let stop = Stop::default();
        let limit = Duration::from_secs(20);
        let running = start(
            shell("echo one; read line; echo two; read line; echo three"),
            &stop,
        );
        let mut running = running.unwrap();
        assert_eq!(running.ask(limit, &stop).unwrap(), "two");
        assert_eq!(running.finish(limit, &stop).unwrap(), "three");
        let running = start(shell("echo one; exit 3"), &stop).unwrap();
        assert!(running.finish(limit, &stop).is_err());
    }
}
