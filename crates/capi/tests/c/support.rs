//! Installs the library that this test was built with, compiles C programs against it, runs them
//! with a deadline.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Every program here is done long before.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Where things are installed, once per run.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
        // There the first time only.
        let _ = fs::remove_dir_all(&prefix);
        install(&prefix, "");
        prefix
    })
}

/// Runs the install script.
pub fn install(prefix: &Path, destdir: &str) {
    // cargo leaves the libraries beside the tests.
    let built = env::current_exe().unwrap().parent().unwrap().to_owned();
    let mut command = Command::new("sh");
    command
        .arg(root().join("crates/capi/install.sh"))
        .arg(prefix)
        .arg(destdir)
        .env("MTCP_LIB_DIR", built);
    succeed(&mut command);
}

/// What pkg-config says of the installed library.
pub fn pkg_config(flags: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command
        .args(flags)
        .arg("libmtcp")
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    words(&succeed(&mut command).stdout)
}

pub fn words(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles `source` (below the root) with warnings as errors into `dir`.
pub fn compile(source: &str, dir: &Path) -> PathBuf {
    let program = dir.join(Path::new(source).file_stem().unwrap());
    let rpath = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root().join(source));
    command
        .args(pkg_config(&["--cflags", "--libs"]))
        .args(["-pthread", &rpath]);
    succeed(&mut command);
    program
}

/// A directory of a test's own, with configurations of two ends of a link.
pub struct Lab {
    pub dir: TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A configuration: this end is `10.0.0.HOST` and `fd00::HOST`.
    pub fn conf(&self, name: &str, host: u8, more: &str) -> PathBuf {
        let link = self.dir.path().join("link");
        let text = format!(
            "io = shm\nport = {}\naddr = 10.0.0.{host}/24 fd00::{host}/64\nrcvbuf = 65536\npin = no\n{more}\n",
            link.display()
        );
        let file = self.dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// A daemon at the same end and place, and a configuration that attaches to it. `None`: the
    /// command that it is was not built, which is said.
    pub fn daemon(&self, host: u8) -> Option<(Running, PathBuf)> {
        // Beside the directory of the tests.
        let tests = env::current_exe().unwrap();
        let mtcp = tests.ancestors().nth(2).unwrap().join("mtcp");
        if !mtcp.exists() {
            let reason = "skipped: there is no mtcp: build it (cargo build -p tools)";
            let _ = writeln!(std::io::stdout(), "\n{reason}"); // println! would be captured
            return None;
        }
        let run = self.dir.path().join("run");
        let mut command = self.command(&mtcp);
        command.args(["daemon", "--name", "c", "--directory"]);
        command.arg(&run).arg("--config");
        command.arg(self.conf("daemon.conf", host, ""));
        let mut daemon = Running::start(&mut command);
        let mut line = String::new();
        let mut said = BufReader::new(daemon.0.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.contains("listening at"), "{line}");
        let file = self.dir.path().join("attached.conf");
        let text = format!(
            "io = daemon:{}\nrcvbuf = 65536\npin = no\n",
            run.join("c").display()
        );
        fs::write(&file, text).unwrap();
        Some((daemon, file))
    }

    /// A program to run here.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path());
        command
    }

    /// A program that compares with the kernel, whose settings are Linux's own there. `None`: there
    /// is no such place, which is said.
    pub fn beside_kernel(&self, program: &Path) -> Option<Command> {
        let found = netns::command(program).map_err(|reason| {
            let _ = writeln!(std::io::stdout(), "\nskipped: {reason}"); // println! would be captured
        });
        found.ok().map(|mut command| {
            command.current_dir(self.dir.path());
            command
        })
    }
}

/// A program that is ended when the test ends.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?}: {error}")),
        )
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: no memory is involved; the child has not been waited for.
        unsafe { libc::kill(self.0.id() as libc::pid_t, signal) };
    }

    /// Waits for the end, which must come before the deadline. What it prints must fit into a pipe.
    pub fn finish(mut self) -> Output {
        let end = Instant::now() + DEADLINE;
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("still running after {DEADLINE:?}"),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            from.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let stdout = read(
            self.0
                .stdout
                .as_mut()
                .map(|pipe| pipe as &mut dyn std::io::Read),
        );
        let stderr = read(
            self.0
                .stderr
                .as_mut()
                .map(|pipe| pipe as &mut dyn std::io::Read),
        );
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if all is well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program that must succeed before the deadline.
pub fn run(command: &mut Command) -> Output {
    let text = format!("{command:?}");
    let output = Running::start(command).finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{text}: {}\n{stderr}",
        output.status
    );
    output
}
