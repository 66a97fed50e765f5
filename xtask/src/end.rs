//! An end of a measured connection: a program that says on its first line that it is ready, and on
//! its last what it found.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child::{Running, Stop};

/// How long an end may take to start, to do its work or to end: some hundred times what it takes
/// where nobody else works.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

/// A running end, and the files that it writes its words to.
pub struct End {
    running: Running,
    said: PathBuf,
    complained: PathBuf,
}

impl End {
    pub fn start(mut command: Command, name: &Path) -> Result<Self> {
        let (said, complained) = (name.with_extension("said"), name.with_extension("error"));
        let file = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        command
            .stdin(Stdio::null())
            .stdout(file(&said)?)
            .stderr(file(&complained)?);
        Ok(Self {
            running: Running::start(&mut command)?,
            said,
            complained,
        })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Waits for its first line, and returns it: for a server, that clients may come.
    pub fn has_said(&mut self, stop: &Stop) -> Result<String> {
        let said = &self.said;
        let line = |ended: Option<_>| {
            let there = read(said).contains('\n');
            (there || ended.is_some()).then_some(there)
        };
        ensure!(
            self.running.until(LIMIT, stop, line)?,
            "{}",
            self.complaint()
        );
        let said = read(&self.said);
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.running.terminate();
    }

    /// Waits until it has ended; what it said.
    pub fn finish(mut self, stop: &Stop) -> Result<String> {
        let status = self.running.wait(LIMIT, stop)?;
        ensure!(status.success(), "{} ({status})", self.complaint());
        Ok(read(&self.said))
    }

    /// The last line of its complaint.
    fn complaint(&self) -> String {
        let all = read(&self.complained);
        all.lines().last().unwrap_or("it said no word").to_owned()
    }
}

/// What has been written so far; nothing if it cannot be read.
fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(script: &str, directory: &Path) -> End {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        End::start(command, &directory.join("end")).unwrap()
    }

    #[test]
    fn an_end_that_fails_is_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let script = "echo first >&2; echo last >&2; exit 2";
        let error = end(script, directory.path()).has_said(&stop).unwrap_err();
        assert_eq!(error.to_string(), "last");
        let error = end(script, directory.path()).finish(&stop).unwrap_err();
        assert!(error.to_string().starts_with("last ("), "{error}");
    }

    #[test]
    fn a_server_says_that_it_is_ready_and_ends_when_asked() {
        let directory = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let script = "trap 'exit 0' TERM; echo 9000; while :; do sleep 0.01; done";
        let mut server = end(script, directory.path());
        assert_eq!(server.has_said(&stop).unwrap(), "9000");
        server.terminate();
        assert_eq!(server.finish(&stop).unwrap(), "9000\n");
    }
}
