//! Where the demonstration happens: two network namespaces joined by a veth pair, or one machine as it is; and a directory of files.

use std::io::{Read, Write};
use std::process::Command;

use anyhow::Context;

use crate::directory::Directory;
use crate::namespaces::{End, Namespaces};

/// Fills the directory: `big` with random bytes, `small` of 1 kB.
pub(crate) fn fill(directory: &Directory, megabytes: u64) -> anyhow::Result<()> {
    let mut random = std::fs::File::open("/dev/urandom")
        .context("no random bytes")?
        .take(megabytes * 1_000_000);
    let mut big = std::fs::File::create(directory.path("big"))?;
    std::io::copy(&mut random, &mut big)?;
    big.flush()?;
    std::fs::write(directory.path("small"), [b'x'; 1000])?;
    std::fs::create_dir_all(directory.path("incoming"))?;
    Ok(())
}

/// Two namespaces joined by a veth pair: `mtcp0` in the one whose interface mTCP drives, `peer0` in the one where the kernel is.
#[derive(Debug)]
pub(crate) struct Lab(Namespaces);

impl Lab {
    /// Makes them.
    ///
    /// # Errors
    /// `ip` or `ethtool` refused.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let namespaces = Namespaces::new("demo")?;
        let end = |device, host| End {
            device,
            addresses: vec![format!("10.77.0.{host}/24"), format!("fd77::{host}/64")],
        };
        namespaces.join(&[end("mtcp0", KERNEL_HERE), end("peer0", KERNEL_THERE)])?;
        // The kernel leaves checksums to hardware that a veth pair does not have; and its end must poll (GRO) to get our frames.
        namespaces.ethtool(1, &["-K", "peer0", "tx", "off", "gro", "on"])?;
        Ok(Self(namespaces))
    }

    /// A command in the namespace of the interface that mTCP drives.
    pub(crate) fn in_ours(&self, program: &str) -> Command {
        self.0.command(0, program)
    }

    /// A command in the kernel's namespace.
    pub(crate) fn in_theirs(&self, program: &str) -> Command {
        self.0.command(1, program)
    }
}

/// Last part of the kernel's addresses on our end: what is measured beside mTCP.
pub(crate) const KERNEL_HERE: u32 = 3;
/// Last part of the kernel's addresses on the other end.
pub(crate) const KERNEL_THERE: u32 = 2;
