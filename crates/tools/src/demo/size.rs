//! How much a demonstration does.

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) megabytes: u64,
    pub(super) requests: u64,
    pub(super) seconds: &'static str,
}
