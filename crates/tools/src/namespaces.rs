//! Two network namespaces, and veth pairs between them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// Two namespaces that go with their owner.
#[derive(Debug)]
pub(crate) struct Namespaces {
    names: [String; 2],
}

/// One end of a veth pair: its name and the kernel's addresses on it, with the lengths of their networks.
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
        Ok(made)
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

    /// Makes a TAP device in the first (0) or second (1) of them; the program that opens it is its other end.
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
