//! This build, for programs that attach.

use control::Build;

/// Its version, and how it lays out what it shares with them.
pub(crate) fn build() -> Build {
    Build::new(env!("CARGO_PKG_VERSION"), mtcp::service::LAYOUT)
}
