//! A running guest.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use interop::process::wait_until;
use interop::{Namespace, Process};
use tempfile::TempDir;

use crate::card::Card;
use crate::packages::Packages;

/// A guest boots in some ten seconds on a machine that has nothing else to do.
const BOOT: Duration = Duration::from_secs(180);
const MARK: &str = "@@ ";

/// A virtual machine, ended when dropped.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    line: UnixStream,
    said: Vec<u8>,
    files: TempDir,
}

/// What a script did.
#[derive(Debug)]
pub struct Done {
    /// Its exit status.
    pub status: i32,
    /// What it printed, on both streams.
    pub printed: String,
}

impl Done {
    /// What it printed; fails the test if it did not succeed.
    #[track_caller]
    pub fn must_succeed(self) -> String {
        assert_eq!(self.status, 0, "{}", self.printed);
        self.printed
    }
}

/// The hardware address of the n-th card.
pub fn mac(number: usize) -> String {
    format!("02:00:00:00:{number:02x}:02")
}

/// The n-th tap in the namespace that is the other end of all cables.
pub fn tap(number: usize) -> String {
    format!("card{number}")
}

impl Guest {
    /// Boots one with these cards; their cables end in taps in `peer`.
    pub fn boot(packages: &Packages, initramfs: &[u8], peer: &Namespace, cards: &[Card]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let archive = files.path().join("initramfs");
        fs::write(&archive, initramfs).unwrap();
        let socket = files.path().join("line");
        let emulator = packages.emulator();
        let mut command = peer.command(emulator.get_program());
        command.envs(
            emulator
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command.args(emulator.get_args());
        command.args([
            "-machine",
            "q35,accel=tcg",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "2048",
        ]);
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        command.arg("-kernel").arg(packages.kernel());
        command.arg("-initrd").arg(&archive);
        command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
        command
            .arg("-serial")
            .arg(format!("file:{}", files.path().join("console").display()));
        command.args(["-device", "virtio-rng-pci"]);
        command.arg("-chardev");
        command.arg(format!(
            "socket,id=line,path={},server=on,wait=off",
            socket.display()
        ));
        command.args(["-serial", "chardev:line"]);
        for (number, card) in cards.iter().enumerate() {
            plug(&mut command, number, *card);
        }
        let process = Process::start(command);
        let line = connect(&socket);
        line.set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut guest = Self {
            process,
            line,
            said: Vec::new(),
            files,
        };
        guest.until(&format!("{MARK}ready"), BOOT);
        guest
    }

    /// Runs a script in it.
    pub fn run(&mut self, script: &str, within: Duration) -> Done {
        let head = format!("{} {}\n", within.as_secs().max(1), script.len());
        self.line.write_all(head.as_bytes()).unwrap();
        self.line.write_all(script.as_bytes()).unwrap();
        let printed = self.until(MARK, within + Duration::from_secs(30));
        let status = self.until("\n", Duration::from_secs(10));
        Done {
            status: status.trim().parse().unwrap_or(-1),
            printed: printed.trim_end_matches(MARK).replace('\r', ""),
        }
    }

    /// What it says up to and with `mark`.
    fn until(&mut self, mark: &str, within: Duration) -> String {
        let end = Instant::now() + within;
        loop {
            let text = String::from_utf8_lossy(&self.said);
            if let Some(at) = text.find(mark) {
                let whole = text[..at + mark.len()].to_owned();
                self.said = text.as_bytes()[at + mark.len()..].to_vec();
                return whole;
            }
            let text = text.into_owned();
            assert!(
                self.process.is_running() && Instant::now() < end,
                "no '{mark}' from the guest, which said '{text}'; its console: {}; the emulator: {:?}",
                self.console(),
                self.process
            );
            let mut more = [0; 4096];
            if let Ok(count) = self.line.read(&mut more) {
                self.said.extend_from_slice(&more[..count]);
            }
        }
    }

    fn console(&self) -> String {
        fs::read(self.files.path().join("console"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

fn plug(command: &mut std::process::Command, number: usize, card: Card) {
    let mut cable = format!(
        "tap,id=cable{number},ifname={},script=no,downscript=no,vhost=off",
        tap(number)
    );
    if card.queues > 1 {
        cable += &format!(",queues={}", card.queues);
    }
    command.args(["-netdev", &cable]);
    command.arg("-device");
    command.arg(format!(
        "{},netdev=cable{number},mac={},romfile=",
        card.device,
        mac(number)
    ));
}

fn connect(socket: &Path) -> UnixStream {
    let mut line = None;
    wait_until("the emulator listens", Duration::from_secs(30), || {
        line = UnixStream::connect(socket).ok();
        line.is_some()
    });
    line.unwrap()
}
