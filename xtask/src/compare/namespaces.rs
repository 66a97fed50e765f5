//! Two namespaces, joined by a veth pair.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The server's interface, which has no address of the kernel's, and the client's, with its
/// address.
pub const DEVICES: [&str; 2] = ["mtcp0", "mtcp1"];
const CLIENT: &str = "10.9.0.250/24";

/// They go with their owner, and the interfaces with them.
pub struct Namespaces([String; 2]);

impl Namespaces {
    /// Makes them. Fails without root or `ip`.
    pub fn new() -> Result<Self> {
        let id = std::process::id();
        let made = Self(["a", "b"].map(|end| format!("mtcp-compare-{id}-{end}")));
        let [server, client] = &made.0;
        ip(&format!("netns add {server}"))?;
        ip(&format!("netns add {client}"))?;
        let [ours, theirs] = DEVICES;
        ip(&format!(
            "link add {ours} netns {server} type veth peer name {theirs} netns {client}"
        ))?;
        ip(&format!("-n {server} link set {ours} up"))?;
        ip(&format!("-n {client} link set {theirs} up"))?;
        ip(&format!("-n {client} address add {CLIENT} dev {theirs}"))?;
        Ok(made)
    }

    /// A program in the namespace of the server (0) or of the client (1). Its process has the
    /// number of what is started.
    pub fn command(&self, end: usize, program: &Path) -> Command {
        let mut command = command();
        let name = &self.0[usize::from(end != 0)];
        command.args(["netns", "exec", name]).arg(program);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // It is not there if making it failed.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(words: &str) -> Result<()> {
    let output = command().args(words.split_whitespace()).output();
    let output = output.context("cannot run ip (Debian: apt install iproute2)")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {words}: {}", complaint.trim());
    Ok(())
}

/// `ip`, which an ordinary user's search path may lack.
fn command() -> Command {
    let mut command = Command::new("ip");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
