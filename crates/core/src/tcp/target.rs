//! Where a segment goes, and how.

use std::net::IpAddr;

use wire::frame::MacAddr;
use wire::ip::Ecn;

use crate::ip::Path;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub path: &'a Path,
    pub mac: MacAddr,
    pub dst: IpAddr,
    pub ecn: Ecn,
    /// The link finishes checksums.
    pub partial: bool,
}
