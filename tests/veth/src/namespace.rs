//! Network namespaces with a name, so that programs can be started in them; removed with their
//! owner.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{self, Finished};

const PREFIX: &str = "mtcp-interop-";
/// Which packets a peer takes, below `/proc/sys/net/ipv4`, shall not depend on how somebody tuned
/// the machine either.
const DEFAULTS: &[(&str, &str)] = &[
    ("conf/all/rp_filter", "0"),
    ("conf/default/rp_filter", "0"),
    ("conf/all/arp_ignore", "0"),
    ("conf/default/arp_ignore", "0"),
    ("conf/all/arp_announce", "0"),
    ("conf/default/arp_announce", "0"),
    ("conf/all/arp_filter", "0"),
    ("conf/default/arp_filter", "0"),
];
/// Longest that a program which only changes settings may take.
const SETTING: Duration = Duration::from_secs(30);

/// A network namespace. What still runs inside ends with it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one with Linux's default settings, loopback up, no waiting for duplicate addresses.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = Self {
            name: format!("{PREFIX}{}-{number}", std::process::id()),
        };
        run("ip", &["netns", "add", &namespace.name]);
        for (key, value) in netns::SETTINGS {
            namespace.set(&format!("net/{key}"), value);
        }
        for (key, value) in DEFAULTS {
            namespace.set(&format!("net/ipv4/{key}"), value);
        }
        namespace.ip("link set lo up");
        for scope in ["all", "default"] {
            namespace.set(&format!("net/ipv6/conf/{scope}/accept_dad"), "0");
        }
        namespace
    }

    /// What `ip` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these words inside.
    pub fn ip(&self, words: &str) -> String {
        let mut command = Command::new("ip");
        command.args(["-n", &self.name]).args(words.split(' '));
        succeeded(process::finish(command, SETTING))
    }

    /// Runs a program with these words inside; what it printed.
    pub fn run(&self, program: &str, words: &str) -> String {
        let mut command = self.command(program);
        command.args(words.split(' ').filter(|word| !word.is_empty()));
        succeeded(process::finish(command, SETTING))
    }

    /// A program to start inside.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name])
            .arg(program.as_ref());
        command
    }

    /// Does `work` on a thread inside. Sockets that it makes stay inside.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(self.path()).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets `/proc/sys/KEY`, if this kernel has it.
    pub fn set(&self, key: &str, value: &str) {
        self.enter(|| {
            let path = Path::new("/proc/sys").join(key);
            if path.exists() {
                std::fs::write(&path, value)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        });
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Servers have children that nobody else knows of.
        end_processes(&self.name);
        remove(&self.name);
    }
}

/// Removes the namespaces of test programs that are no more, and what still runs in them.
pub fn sweep() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            end_processes(&name);
            remove(&name);
        }
    }
}

fn end_processes(name: &str) {
    let Ok(listed) = Command::new("ip").args(["netns", "pids", name]).output() else {
        return;
    };
    for pid in String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| line.trim().parse().ok())
    {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn remove(name: &str) {
    // Nothing better can be done about a failure, and the test that owns it may already be failing.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

fn run(program: &str, words: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(words);
    succeeded(process::finish(command, SETTING))
}

fn succeeded(finished: Finished) -> String {
    finished.must_succeed().stdout
}
