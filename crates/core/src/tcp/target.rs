//! Where a segment goes, and how.

use std::net::IpAddr;

use wire::frame::MacAddr;
use wire::ip::Ecn;

use crate::command::Options;
use crate::ip::{HOP_LIMIT, Path};

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

/// `path` with the header fields that `options` ask for.
/// RFC 9293 MUST-48, MUST-49; RFC 1122 §3.2.1.6-1, §3.2.1.7-3.
#[inline]
pub(crate) fn marked(path: &Path, options: &Options) -> Path {
    let marking = if path.src.is_ipv4() {
        options.v4
    } else {
        options.v6
    };
    // As a whole: field by field it would be moved around.
    let mut path = *path;
    path.class = marking.class;
    path.hop_limit = marking.hop_limit.unwrap_or(HOP_LIMIT);
    path
}
