//! Two network namespaces, and veth pairs between them.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Linux's own values of what a new namespace takes from the machine's settings otherwise, below
/// `/proc/sys/net/ipv4`. What is measured in a namespace shall not depend on how somebody tuned the
/// machine.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 131072 6291456"),
    ("tcp_wmem", "4096 16384 4194304"),
];

/// Two namespaces that go with their owner.
#[derive(Debug)]
pub(crate) struct Namespaces {
    names: [String; 2],
}

/// One end of a veth pair: its name and the kernel's addresses on it, with the lengths of their
/// networks.
#[derive(Debug)]
pub(crate) struct End<'a> {
    /// The interface.
    pub(crate) device: &'a str,
    /// What the kernel answers to.
    pub(crate) addresses: Vec<String>,
}

impl Namespaces {
    /// Makes them for `what`, after removing what its earlier runs left behind that were killed.
    ///
    /// # Errors
    /// `ip` refused.
    pub(crate) fn new(what: &str) -> anyhow::Result<Self> {
        let prefix = format!("mtcp-{what}-");
        remove_stale(&prefix);
        let pid = std::process::id();
        let made = Self {
            names: ["a", "b"].map(|side| format!("{prefix}{pid}-{side}")),
        };
        for name in &made.names {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        for side in 0..made.names.len() {
            made.enter(side, set_defaults)??;
        }
        Ok(made)
    }

    /// Does `work` on a thread in the first (0) or second (1) namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub(crate) fn enter<T: Send>(
        &self,
        side: usize,
        work: impl FnOnce() -> T + Send,
    ) -> anyhow::Result<T> {
        let path = Path::new("/run/netns").join(self.name(side));
        let enter = || -> anyhow::Result<T> {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("cannot enter {}", path.display()))?;
            Ok(work())
        };
        thread::scope(|scope| match scope.spawn(enter).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Joins them by a veth pair.
    ///
    /// # Errors
    /// `ip` refused.
    pub(crate) fn join(&self, ends: &[End<'_>; 2]) -> anyhow::Result<()> {
        let [ours, theirs] = &self.names;
        let [first, second] = ends;
        ip(&[
            "link",
            "add",
            first.device,
            "netns",
            ours,
            "type",
            "veth",
            "peer",
            "name",
            second.device,
            "netns",
            theirs,
        ])?;
        for (namespace, end) in self.names.iter().zip(ends) {
            bring_up(namespace, end)?;
        }
        Ok(())
    }

    /// Makes a TAP device in the first (0) or second (1) of them; the program that opens it is its
    /// other end.
    ///
    /// # Errors
    /// `ip` refused.
    pub(crate) fn tap(&self, side: usize, end: &End<'_>) -> anyhow::Result<()> {
        let name = self.name(side);
        ip(&[
            "-n", name, "tuntap", "add", "dev", end.device, "mode", "tap", "vnet_hdr",
        ])?;
        bring_up(name, end)
    }

    /// Runs ethtool in the first (0) or second (1) namespace.
    ///
    /// # Errors
    /// ethtool refused.
    pub(crate) fn ethtool(&self, side: usize, arguments: &[&str]) -> anyhow::Result<()> {
        run(self.command(side, "ethtool").args(arguments))
    }

    /// A command in the first (0) or second (1) namespace.
    pub(crate) fn command(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.name(side), program])
            .env("PATH", search_path());
        command
    }

    fn name(&self, side: usize) -> &str {
        &self.names[usize::from(side != 0)]
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // The interfaces go with them. It may not be there if making it failed.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Sets [`DEFAULTS`] in this thread's namespace.
fn set_defaults() -> anyhow::Result<()> {
    for (key, value) in DEFAULTS {
        let path = Path::new("/proc/sys/net/ipv4").join(key);
        std::fs::write(&path, value).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn bring_up(namespace: &str, end: &End<'_>) -> anyhow::Result<()> {
    ip(&["-n", namespace, "link", "set", end.device, "up"])?;
    for address in &end.addresses {
        let mut arguments = vec![
            "-n", namespace, "address", "add", address, "dev", end.device,
        ];
        if address.contains(':') {
            arguments.push("nodad");
        }
        ip(&arguments)?;
    }
    Ok(())
}

/// The search path with the directories of administrators, which an ordinary shell may lack.
pub(crate) fn search_path() -> String {
    format!(
        "{}:/usr/local/sbin:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    )
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip")
        .args(arguments)
        .env("PATH", search_path()))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        let arguments: Vec<_> = command
            .get_args()
            .map(|argument| argument.to_string_lossy())
            .collect();
        bail!(
            "'ip {}': {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Removes the namespaces of runs whose process is gone.
fn remove_stale(prefix: &str) {
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another run may be doing the same.
            let _ = ip(&["netns", "del", &name]);
        }
    }
}
