//! Who may run now: tests that measure run alone, others beside each other; without root nobody
//! does.

use std::fs::{File, OpenOptions};
use std::sync::Once;

use rustix::fs::{FlockOperation, flock};

use crate::{namespace, process, programs};

/// Kept open by a test while it runs.
#[derive(Debug)]
pub struct Gate(#[allow(dead_code)] File);

impl Gate {
    /// Waits until this test may run with nothing of the suite beside it. `None`, with a printed
    /// reason: it cannot run here.
    pub fn alone() -> Option<Self> {
        Self::enter(FlockOperation::LockExclusive)
    }

    /// Waits until this test may run beside others that do not mind.
    pub fn beside_others() -> Option<Self> {
        Self::enter(FlockOperation::LockShared)
    }

    fn enter(operation: FlockOperation) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            crate::skipped("needs root for network namespaces, AF_XDP and TAP");
            return None;
        }
        let path = std::env::temp_dir().join("mtcp-interop.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        flock(&file, operation).unwrap();
        prepare();
        Some(Self(file))
    }
}

/// Once per test program: what it needs is there, and what a killed run left behind is gone.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        programs::require(&["ip", "ethtool", "curl", "ping"]);
        process::raise_open_files();
        namespace::sweep();
    });
}
