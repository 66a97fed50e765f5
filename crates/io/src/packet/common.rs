//! What holds for all ports of an interface.

use std::os::fd::OwnedFd;

use super::behind_tap::BehindTap;

/// What the ports of an interface have in common; it ends with the last of them, in any process.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not looked at")]
pub(super) struct Common {
    /// Keep other processes from our addresses on the interface.
    pub(super) claims: Vec<OwnedFd>,
    /// Keeps the kernel from what is ours, where it can be had.
    pub(super) behind_tap: Option<BehindTap>,
    /// Keeps the interface listening to our groups.
    pub(super) groups: Option<OwnedFd>,
}
