//! The ends of a flow, in words.

use std::fmt;
use std::net::IpAddr;

/// The ends of a flow and the bytes that are there of its transport.
#[derive(Clone, Copy)]
pub(super) struct Transport<'a> {
    pub(super) family: &'static str,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) bytes: &'a [u8],
    /// Length that the IP header claims, in bytes; `bytes` may be shorter.
    pub(super) claimed: usize,
}

/// `IP 10.0.0.1 > 10.0.0.2: `.
pub(super) fn addresses(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    let Transport {
        family, src, dst, ..
    } = transport;
    write!(f, "{family} {src} > {dst}: ")
}

/// `IP 10.0.0.1.4000 > 10.0.0.2.80: `, or without ports if they are cut off.
pub(super) fn endpoints(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    let Some(&[s0, s1, d0, d1]) = transport.bytes.first_chunk::<4>() else {
        return addresses(f, transport);
    };
    let Transport {
        family, src, dst, ..
    } = transport;
    let src_port = u16::from_be_bytes([s0, s1]);
    let dst_port = u16::from_be_bytes([d0, d1]);
    write!(f, "{family} {src}.{src_port} > {dst}.{dst_port}: ")
}
