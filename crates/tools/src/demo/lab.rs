//! Where the demonstration happens: two network namespaces joined by a veth pair, or one machine as it is; and a directory of files.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// A directory that goes with its owner.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A new directory only for us.
    pub(crate) fn new() -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        // Command lines are split at blanks here.
        let base = Some(std::env::temp_dir())
            .filter(|base| !base.to_string_lossy().contains(char::is_whitespace));
        let path = base
            .unwrap_or_else(|| PathBuf::from("/tmp"))
            .join(format!("mtcp-demo-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make '{}'", path.display()))?;
        Ok(Self(path))
    }

    /// The path of `name` in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Fills it: `big` with random bytes, `small` of 1 kB.
    pub(crate) fn fill(&self, megabytes: u64) -> anyhow::Result<()> {
        let mut random = std::fs::File::open("/dev/urandom")
            .context("no random bytes")?
            .take(megabytes * 1_000_000);
        let mut big = std::fs::File::create(self.path("big"))?;
        std::io::copy(&mut random, &mut big)?;
        big.flush()?;
        std::fs::write(self.path("small"), [b'x'; 1000])?;
        std::fs::create_dir_all(self.path("incoming"))?;
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nothing more can be done about what cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two namespaces joined by a veth pair: `mtcp0` in the one whose interface mTCP drives, `peer0` in the one where the kernel is.
#[derive(Debug)]
pub(crate) struct Lab {
    ours: String,
    theirs: String,
}

const PREFIX: &str = "mtcp-demo-";

impl Lab {
    /// Makes them, after removing what demonstrations left behind that were killed.
    ///
    /// # Errors
    /// `ip` or `ethtool` refused.
    pub(crate) fn new() -> anyhow::Result<Self> {
        remove_stale();
        let pid = std::process::id();
        let lab = Self {
            ours: format!("{PREFIX}{pid}-a"),
            theirs: format!("{PREFIX}{pid}-b"),
        };
        for name in [&lab.ours, &lab.theirs] {
            ip(&["netns", "add", name])?;
        }
        ip(&[
            "link",
            "add",
            "mtcp0",
            "netns",
            &lab.ours,
            "type",
            "veth",
            "peer",
            "name",
            "peer0",
            "netns",
            &lab.theirs,
        ])?;
        for (namespace, device, host) in [
            (&lab.ours, "mtcp0", KERNEL_HERE),
            (&lab.theirs, "peer0", KERNEL_THERE),
        ] {
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            ip(&[
                "-n",
                namespace,
                "address",
                "add",
                &format!("10.77.0.{host}/24"),
                "dev",
                device,
            ])?;
            ip(&["-n", namespace, "link", "set", device, "up"])?;
            ip(&[
                "-n",
                namespace,
                "address",
                "add",
                &format!("fd77::{host}/64"),
                "dev",
                device,
                "nodad",
            ])?;
        }
        // The kernel leaves checksums to hardware that a veth pair does not have; and its end must poll (GRO) to get our frames.
        let mut command = lab.in_theirs("ethtool");
        run(command.args(["-K", "peer0", "tx", "off", "gro", "on"]))?;
        Ok(lab)
    }

    /// A command in the namespace of the interface that mTCP drives.
    pub(crate) fn in_ours(&self, program: &str) -> Command {
        inside(&self.ours, program)
    }

    /// A command in the kernel's namespace.
    pub(crate) fn in_theirs(&self, program: &str) -> Command {
        inside(&self.theirs, program)
    }
}

/// Last part of the kernel's addresses on our end: what is measured beside mTCP.
pub(crate) const KERNEL_HERE: u32 = 3;
/// Last part of the kernel's addresses on the other end.
pub(crate) const KERNEL_THERE: u32 = 2;

impl Drop for Lab {
    fn drop(&mut self) {
        for name in [&self.ours, &self.theirs] {
            // The interfaces go with them. It may not be there if making it failed.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn inside(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", namespace, program])
        .env("PATH", search_path());
    command
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

/// Removes the namespaces of demonstrations whose process is gone.
fn remove_stale() {
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another demonstration may be doing the same.
            let _ = ip(&["netns", "del", &name]);
        }
    }
}
