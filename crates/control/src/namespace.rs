//! Network namespaces by name: what a daemon and its programs must have in common.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::io::Errno;

use crate::Error;

/// A network namespace, as the kernel names it: device and inode of its file below `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetNamespace {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

impl NetNamespace {
    /// That of this thread.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn own() -> Result<Self, Error> {
        let file = fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
            Error::new(
                Errno::from_io_error(&error).unwrap_or(Errno::NOENT),
                format!("the network namespace of this process is unknown: {error}"),
                "mount /proc",
            )
        })?;
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
        })
    }
}

impl fmt::Display for NetNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}
