//! Network namespaces by name: what a daemon and its programs must have in common.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

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

/// The answer to who asked first in this process.
static FIRST: OnceLock<NetNamespace> = OnceLock::new();

impl NetNamespace {
    /// That of this thread. Where there is no `/proc`, in another root directory for instance, that
    /// of the thread which asked first.
    ///
    /// # Errors
    /// There is no `/proc`, and nobody has asked before.
    pub fn own() -> Result<Self, Error> {
        match (fs::metadata("/proc/thread-self/ns/net"), FIRST.get()) {
            (Ok(file), _) => {
                let own = Self {
                    device: file.dev(),
                    inode: file.ino(),
                };
                let _ = FIRST.set(own);
                Ok(own)
            }
            (Err(_), Some(first)) => Ok(*first),
            (Err(error), None) => Err(Error::new(
                Errno::from_io_error(&error).unwrap_or(Errno::NOENT),
                format!("the network namespace of this process is unknown: {error}"),
                "mount /proc",
            )),
        }
    }
}

impl fmt::Display for NetNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}
