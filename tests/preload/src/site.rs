//! Where a program runs: our end, where `mtcp run` gives it sockets of mTCP, or the peer's, where a
//! kernel answers.

use std::fs::Permissions;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use interop::process::{self, Finished, PROMPT};
use interop::{
    Family, Gate, Kind, Lab, Namespace, Process, baseline, programs, through_daemon,
    through_private_daemon,
};

/// Longest that a client may take for all of its work.
pub const WITHIN: Duration = Duration::from_secs(90);

/// Two stations joined by a veth pair, and room for files.
#[derive(Debug)]
pub struct Site {
    /// What has the link, if it is not each program.
    daemon: OnceLock<Process>,
    lab: Lab,
    /// Processes of a program on our end that serve at once.
    workers: u32,
    _gate: Gate,
}

impl Site {
    /// Ready for these programs. `None`, with a printed reason: this test cannot run here.
    pub fn new(needed: &[&str]) -> Option<Self> {
        Self::with_workers(needed, 1)
    }

    /// The same, for programs with so many worker processes, each with a queue of its own.
    pub fn with_workers(needed: &[&str], workers: u32) -> Option<Self> {
        Self::on(needed, (1500, workers), workers)
    }

    /// The same, on a link whose packets lie in several frames, and with queues enough for none of
    /// them to come through traffic control.
    pub fn with_long_packets(needed: &[&str]) -> Option<Self> {
        Self::on(needed, (9000, 2), 1)
    }

    /// The same, through packet sockets.
    pub fn by_packet_sockets(needed: &[&str]) -> Option<Self> {
        Self::through(Kind::Packet, needed, (1500, 1), 1)
    }

    fn on(needed: &[&str], shape: (u32, u32), workers: u32) -> Option<Self> {
        Self::through(Kind::Afxdp, needed, shape, workers)
    }

    fn through(
        kind: Kind,
        needed: &[&str],
        (mtu, queues): (u32, u32),
        workers: u32,
    ) -> Option<Self> {
        let gate = Gate::beside_others()?;
        programs::require(needed);
        Some(Self {
            daemon: OnceLock::new(),
            lab: Lab::with(kind, mtu, queues),
            workers,
            _gate: gate,
        })
    }

    /// A program on our end: its name and its words.
    pub fn ours(&self, words: &str) -> Command {
        let mut words = words.split_whitespace();
        let program = programs::find(words.next().unwrap()).unwrap();
        let mut command = if baseline() {
            self.lab.ours().command(program)
        } else if through_private_daemon() {
            let mut command = self.lab.mtcp(&["run"]);
            command.env("XDG_RUNTIME_DIR", self.lab.files());
            command.args(["--shared", "--"]).arg(program);
            command
        } else if through_daemon() {
            let directory = self.lab.files().join("run");
            self.daemon.get_or_init(|| self.start_daemon(&directory));
            let mut command = self.lab.ours().command(programs::mtcp());
            command.args(["run", "--io"]);
            command.arg(format!("daemon:{}/default", directory.display()));
            command.arg("--").arg(program);
            command
        } else {
            let mut command = self.lab.mtcp(&["run"]);
            command.args(["--workers", &self.workers.to_string()]);
            command.arg("--").arg(program);
            command
        };
        command.args(words);
        command
    }

    fn start_daemon(&self, directory: &Path) -> Process {
        let mut command = self.lab.mtcp(&["daemon"]);
        command.arg("--directory").arg(directory);
        let mut daemon = Process::start(command);
        daemon.wait_for("listening at", PROMPT);
        daemon
    }

    /// What the stack of a program that has ended has said: the program did, or the daemon.
    pub fn stack_said(&self, program: &Finished) -> String {
        if through_private_daemon() {
            let files = std::fs::read_dir(self.file("mtcp")).unwrap();
            let files = files.map(|file| file.unwrap().path());
            let logs = files.filter(|file| file.extension().is_some_and(|kind| kind == "log"));
            return logs
                .map(|log| std::fs::read_to_string(log).unwrap())
                .collect();
        }
        self.daemon
            .get()
            .map_or_else(|| program.stderr.clone(), Process::said)
    }

    /// A program on the peer's kernel.
    pub fn peer(&self, words: &str) -> Command {
        let mut words = words.split_whitespace();
        let program = programs::find(words.next().unwrap()).unwrap();
        let mut command = self.lab.peer().command(program);
        command.args(words);
        command
    }

    /// Starts a server on our end; it answers on `port` when this returns.
    pub fn start_ours(&self, command: Command, port: u16) -> Process {
        let mut server = Process::start(command);
        let at = SocketAddr::new(Family::V4.ours(), port);
        wait_answers(&mut server, self.lab.peer(), at);
        self.lab.wait_peer_hears();
        server
    }

    /// Kills a server of `start_ours`; nothing listens at `port` when this returns. A daemon hears
    /// of the end of a program a little after who waits for the process.
    pub fn kill_ours(&self, server: Process, port: u16) {
        server.kill();
        let at = SocketAddr::new(Family::V4.ours(), port);
        let end = Instant::now() + PROMPT;
        while answers(self.lab.peer(), at) {
            assert!(Instant::now() < end, "{at} still answers");
        }
    }

    /// Starts a server on the peer's kernel; it answers on `port` when this returns.
    pub fn start_peer(&self, command: Command, port: u16) -> Process {
        let mut server = Process::start(command);
        let at = SocketAddr::new(Family::V4.peer(), port);
        wait_answers(&mut server, self.lab.peer(), at);
        server
    }

    /// The two stations.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// A file of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.lab.files().join(name)
    }

    /// Lets other users than root see the files.
    pub fn open_to_all(&self) {
        let mode = Permissions::from_mode(0o755);
        std::fs::set_permissions(self.lab.files(), mode).unwrap();
    }

    /// Writes a file of this test: its name.
    pub fn write(&self, name: &str, text: &str) -> String {
        let file = self.file(name);
        std::fs::write(&file, text).unwrap();
        spell(&file)
    }
}

/// A path as a word.
pub fn spell(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Runs a client to its good end.
pub fn succeed(command: Command) -> Finished {
    process::finish(command, WITHIN).must_succeed()
}

fn wait_answers(server: &mut Process, from: &Namespace, at: SocketAddr) {
    let end = Instant::now() + PROMPT;
    while !answers(from, at) {
        assert!(server.is_running(), "ended before it listened: {server:?}");
        assert!(Instant::now() < end, "no answer from {at}: {server:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn answers(from: &Namespace, at: SocketAddr) -> bool {
    from.enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok())
}
