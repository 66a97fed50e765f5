//! What the two SYNs agree on: MSS (RFC 9293 §3.7.1), window scaling and timestamps (RFC 7323),
//! SACK (RFC 2018).

use wire::tcp::{TcpHeader, TcpOptions, Timestamps};

use crate::command::Options;
use crate::config::Config;

/// RFC 7323 §2.3.
pub(crate) const MAX_WINDOW_SCALE: u8 = 14;
/// RFC 9293 §3.7.1 MUST-15 (SendMSS if no option was received): 576 and 1280 less the headers.
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Nobody honest has a smaller MSS; an attacker would have us send a header per byte.
const MIN_MSS: u16 = 64;
/// Timestamps with padding (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS_LEN: u16 = 12;

/// Bytes of IP and TCP header without options.
pub(crate) fn headers_len(is_ipv4: bool) -> u16 {
    let ip = if is_ipv4 { 20 } else { 40 };
    ip + TcpHeader::MIN_LEN as u16
}

/// The MSS option that we send: the MTU less fixed headers (RFC 6691), no more than the socket
/// wants. RFC 9293 MUST-67.
pub(crate) fn advertised_mss(config: &Config, mtu: u16, is_ipv4: bool, options: &Options) -> u16 {
    let mss = mtu.saturating_sub(headers_len(is_ipv4));
    mss.min(largest_segment(config, options)).max(MIN_MSS)
}

/// What the socket and the configuration want, whichever is less.
fn largest_segment(config: &Config, options: &Options) -> u16 {
    let clamp = config.max_segment.unwrap_or(u16::MAX);
    options.max_segment.unwrap_or(u16::MAX).min(clamp)
}

/// The MSS that the peer wants.
/// RFC 9293 MUST-14, MUST-15.
pub(crate) fn peer_mss(theirs: &TcpOptions, is_ipv4: bool) -> u16 {
    let default = if is_ipv4 {
        DEFAULT_MSS_V4
    } else {
        DEFAULT_MSS_V6
    };
    theirs.mss.unwrap_or(default).max(MIN_MSS)
}

/// Eff.snd.MSS (RFC 9293 §3.7.1): what the peer takes, what the path takes, what the socket wants,
/// less the options in every segment. RFC 9293 MUST-16. RFC 1122 §3.3.3-1.
pub(crate) fn effective_mss(
    config: &Config,
    peer: u16,
    mtu: u16,
    is_ipv4: bool,
    timestamps: bool,
    options: &Options,
) -> u16 {
    let path = mtu.saturating_sub(headers_len(is_ipv4));
    let mss = peer
        .min(path)
        .min(largest_segment(config, options))
        .max(MIN_MSS);
    mss - if timestamps { TIMESTAMPS_LEN } else { 0 }
}

/// The smallest scale with which the largest receive buffer can be offered.
/// RFC 7323 §2.3-3.
pub(crate) fn window_scale_for(max_buffer: u32) -> u8 {
    let doublings = max_buffer.saturating_sub(1) / u32::from(u16::MAX);
    let scale = u32::BITS - doublings.leading_zeros();
    (scale as u8).min(MAX_WINDOW_SCALE)
}

/// Fills in our side of the options of a SYN.
/// RFC 9293 MUST-14, SHLD-5, MAY-3; RFC 9768 §3.2.3.2.1-1.
pub(crate) fn add_syn_options(
    config: &Config,
    mss: u16,
    wscale: u8,
    tsval: u32,
    options: &mut TcpOptions,
) {
    options.mss = Some(mss);
    options.window_scale = config.window_scaling.then_some(wscale);
    // RFC 2018 §2-1.
    options.sack_permitted = true;
    options.timestamps = config.timestamps.then_some(Timestamps { tsval, tsecr: 0 });
}

/// What both sides offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub peer_mss: u16,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub scaling: bool,
    pub timestamps: bool,
    pub sack: bool,
}

impl Agreed {
    /// From the options of the peer's SYN and what `config` lets us offer.
    /// RFC 7323 §2.2-1, §2.3-4.
    pub fn new(config: &Config, our_wscale: u8, theirs: &TcpOptions, is_ipv4: bool) -> Self {
        // RFC 7323 §2.2: both or neither; §2.3: more than 14 is taken for 14.
        let scales = theirs
            .window_scale
            .filter(|_| config.window_scaling)
            .map(|theirs| (theirs.min(MAX_WINDOW_SCALE), our_wscale));
        let (snd_wscale, rcv_wscale) = scales.unwrap_or((0, 0));
        Self {
            peer_mss: peer_mss(theirs, is_ipv4),
            snd_wscale,
            rcv_wscale,
            scaling: scales.is_some(),
            timestamps: config.timestamps && theirs.timestamps.is_some(),
            sack: theirs.sack_permitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 MUST-15.
    #[test]
    fn mss_without_an_option() {
        assert_eq!(peer_mss(&TcpOptions::default(), true), 536);
        assert_eq!(peer_mss(&TcpOptions::default(), false), 1220);
    }

    /// RFC 9293 MUST-16.
    #[test]
    fn effective_mss_is_the_smallest() {
        let none = Options::default();
        let config = &Config::default();
        assert_eq!(effective_mss(config, 1460, 1500, true, false, &none), 1460);
        assert_eq!(effective_mss(config, 1460, 1500, true, true, &none), 1448);
        assert_eq!(effective_mss(config, 9000, 1500, false, false, &none), 1440);
        let small = Options {
            max_segment: Some(1000),
            ..none
        };
        assert_eq!(effective_mss(config, 1460, 1500, true, false, &small), 1000);
        assert_eq!(advertised_mss(config, 1500, true, &small), 1000);
        // Clamped for all sockets, in both directions.
        let clamp = Config {
            max_segment: Some(900),
            ..Config::default()
        };
        assert_eq!(effective_mss(&clamp, 1460, 1500, true, false, &small), 900);
        assert_eq!(advertised_mss(&clamp, 1500, true, &none), 900);
        // A hostile MSS does not make segments without payload.
        let hostile = TcpOptions {
            mss: Some(0),
            ..TcpOptions::default()
        };
        assert!(effective_mss(config, peer_mss(&hostile, true), 1500, true, true, &none) >= 48);
    }

    /// RFC 7323 §2.3-3.
    #[test]
    fn scale_is_as_small_as_the_buffer_allows() {
        assert_eq!(window_scale_for(65_535), 0);
        assert_eq!(window_scale_for(65_536), 1);
        assert_eq!(window_scale_for(8 << 20), 8);
        assert_eq!(window_scale_for(u32::MAX), 14);
        let largest = |scale: u8| u64::from(u16::MAX) << scale;
        for max_buffer in (0..31).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]) {
            let scale = window_scale_for(max_buffer);
            assert!(largest(scale) >= max_buffer.into() || scale == MAX_WINDOW_SCALE);
            assert!(scale == 0 || largest(scale - 1) < max_buffer.into());
        }
    }

    /// RFC 7323 §2.2-1, §2.3-4.
    #[test]
    fn options_count_only_if_both_offer_them() {
        let config = Config::default();
        let bare = Agreed::new(&config, 7, &TcpOptions::default(), true);
        assert_eq!((bare.snd_wscale, bare.rcv_wscale), (0, 0));
        assert!(!bare.timestamps && !bare.sack);
        let full = TcpOptions {
            window_scale: Some(15),
            timestamps: Some(Timestamps::default()),
            sack_permitted: true,
            ..TcpOptions::default()
        };
        let agreed = Agreed::new(&config, 7, &full, true);
        assert_eq!((agreed.snd_wscale, agreed.rcv_wscale), (14, 7));
        assert!(agreed.timestamps && agreed.sack);
        let plain = Config {
            timestamps: false,
            window_scaling: false,
            ..config
        };
        let agreed = Agreed::new(&plain, 7, &full, true);
        assert_eq!((agreed.snd_wscale, agreed.rcv_wscale), (0, 0));
        assert!(!agreed.timestamps);
    }
}
