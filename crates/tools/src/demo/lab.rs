//! Where the demonstration happens: two network namespaces joined by a veth pair, or one machine as
//! it is; and a directory of files.

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

/// Two namespaces joined by two veth pairs: `mtcp0` and `peer0`, whose first end mTCP drives, and
/// `kern0` and `kern1` as the kernel makes them, over which its own server is measured.
#[derive(Debug)]
pub(crate) struct Lab(Namespaces);

impl Lab {
    /// Makes them.
    ///
    /// # Errors
    /// `ip` refused.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let namespaces = Namespaces::new("demo")?;
        let end = |device, addresses| End { device, addresses };
        let here = end("mtcp0", Vec::new());
        let there = end(
            "peer0",
            vec![
                format!("{OUR_NETWORK}.{KERNEL_THERE}/24"),
                format!("fd77::{KERNEL_THERE}/64"),
            ],
        );
        namespaces.join(&[here, there])?;
        let here = end("kern0", vec![format!("{KERNEL_SERVER}/24")]);
        let there = end("kern1", vec![format!("10.78.0.{KERNEL_THERE}/24")]);
        namespaces.join(&[here, there])?;
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

/// The network of the pair that mTCP drives.
pub(crate) const OUR_NETWORK: &str = "10.77.0";
/// The kernel's server that is measured beside mTCP.
pub(crate) const KERNEL_SERVER: &str = "10.78.0.1";
/// Last part of the kernel's addresses on the other end.
pub(crate) const KERNEL_THERE: u32 = 2;
