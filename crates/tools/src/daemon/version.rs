//! This build, for programs that attach.

use control::Build;

/// Its version, and how it lays out what it shares with them.
pub(super) fn build() -> Build {
    // What lies in shared memory is hashed here, as soon as something does.
    Build::new(env!("CARGO_PKG_VERSION"), 0)
}
