//! Headers and payload, written straight into the frame that the port lends.

use std::net::IpAddr;

use wire::frame::{FrameSink, MacAddr, TxChecksum, TxMeta};
use wire::ip::{Ecn, Protocol};
use wire::tcp::{
    CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions, Timestamps, fill_checksum,
    fill_partial_checksum,
};
use wire::time::Instant;

use crate::ip::{Net, Path, headers_len};
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::options::add_syn_options;
use crate::tcp::output::{Kind, Plan};
use crate::tcp::usual::{START, copy, write_usual};

/// Where a segment goes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub path: &'a Path,
    pub mac: MacAddr,
    pub dst: IpAddr,
    pub ecn: Ecn,
    /// The link finishes checksums.
    pub partial: bool,
}

/// Writes a whole frame. A frame that is too short for it (no port lends one) stays empty.
/// RFC 9293 MUST-2.
pub(crate) fn write_frame(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: (&[u8], &[u8]),
) -> TxMeta {
    match write_usual(frame, net, target, header, payload) {
        Some(len) => TxMeta {
            len,
            checksum: TxChecksum::Partial {
                start: START as u16,
                offset: CHECKSUM_OFFSET,
            },
            segment: 0,
        },
        None => write_any(frame, net, target, header, payload),
    }
}

/// Writes a frame of any kind.
#[inline(never)]
pub(crate) fn write_any(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: (&[u8], &[u8]),
) -> TxMeta {
    let Target { path, dst, .. } = *target;
    let start = headers_len(dst);
    let Some(rest) = frame.get_mut(start..) else {
        return TxMeta::default();
    };
    // First, as it says how long it is.
    let header_len = header.emit(rest);
    let segment_len = header_len + payload.0.len() + payload.1.len();
    let Some(segment) = rest.get_mut(..segment_len).filter(|_| header_len > 0) else {
        return TxMeta::default();
    };
    copy(segment.get_mut(header_len..).unwrap_or_default(), payload);
    let checksum = if target.partial {
        fill_partial_checksum(path.src, dst, segment, segment_len);
        TxChecksum::Partial {
            start: start as u16,
            offset: CHECKSUM_OFFSET,
        }
    } else {
        fill_checksum(path.src, dst, segment);
        TxChecksum::Complete
    };
    let (tcp, ecn) = (Protocol::TCP, target.ecn.bits());
    if net.write_headers(frame, path, target.mac, dst, tcp, segment_len, ecn) == 0 {
        return TxMeta::default();
    }
    TxMeta {
        len: start + segment_len,
        checksum,
        segment: 0,
    }
}

/// Writes a segment into a frame that `sink` lends; its length in bytes, `None` if there was no frame.
pub(crate) fn send_segment(
    sink: &mut impl FrameSink,
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: (&[u8], &[u8]),
) -> Option<usize> {
    let mut len = 0;
    let sent = sink.send(|frame| {
        let meta = write_frame(frame, net, target, header, payload);
        len = meta.len;
        meta
    });
    sent.then_some(len)
}

impl Conn<'_> {
    /// The header of a planned segment, to a place that is as it is by default: it is too large to be moved around. From here on the window
    /// in it is on offer.
    #[inline(always)]
    pub fn fill_header(&mut self, now: Instant, plan: &Plan, header: &mut TcpHeader) {
        let is_syn = plan.kind == Kind::Syn;
        let window = if is_syn {
            self.syn_window()
        } else {
            self.receive().take_window()
        };
        let has_ack = plan.flags.contains(TcpFlags::ACK);
        header.src_port = self.key.local().port();
        header.dst_port = self.key.remote().port();
        header.seq = plan.seq;
        if has_ack {
            header.ack = self.hot.rcv.nxt;
        }
        header.flags = plan.flags | self.ecn_bits(plan);
        header.window = window;
        if is_syn {
            self.add_syn_options(now, has_ack, &mut header.options);
        } else {
            self.add_options(now, &mut header.options);
        }
    }

    /// The ECN bits of a planned segment.
    #[inline(always)]
    pub fn ecn_bits(&self, plan: &Plan) -> TcpFlags {
        let ecn = self.ecn_view();
        if plan.kind == Kind::Syn {
            ecn.syn_flags()
        } else {
            ecn.flags(|| plan.outgoing(self.hot.snd_nxt))
        }
    }

    /// The window in a SYN is never scaled (RFC 7323 §2.2).
    /// RFC 7323 §2.2-4.
    fn syn_window(&mut self) -> u16 {
        let window = self.hot.rcv_wnd().min(u32::from(u16::MAX));
        window as u16
    }

    /// Those of a SYN, to where there are none yet.
    /// RFC 7323 §3.2-2.
    pub fn add_syn_options(&self, now: Instant, is_reply: bool, options: &mut TcpOptions) {
        let tsval = self.tsval(now);
        let (config, cold) = (&self.sh.config, &*self.cold);
        add_syn_options(config, cold.local_mss, cold.offer_wscale, tsval, options);
        options.fast_open = self.fast_open_option(now);
        if is_reply {
            // Simultaneous open: answer what the peer's SYN offered. A cookie here would be one for the peer (RFC 7413 §4.1.2), and
            // ours is from it.
            options.fast_open = options
                .fast_open
                .filter(|_| !self.cold.fast_open.is_client());
            options.sack_permitted = self.has(Flags::SACK);
            options.window_scale = options.window_scale.filter(|_| self.has(Flags::SCALING));
            options.timestamps = self.has(Flags::TIMESTAMPS).then_some(Timestamps {
                tsval,
                tsecr: self.hot.ts_recent,
            });
        }
    }

    /// The options of a segment that is no SYN, to where there are none yet: what is large and written piece by piece is not to be copied.
    /// RFC 9293 MUST-65; RFC 2018 §2-1, §4-2; RFC 7323 §3.2-1, §3.2-5, §4.3-2.
    #[inline]
    pub fn add_options(&self, now: Instant, options: &mut TcpOptions) {
        // RFC 7323 §3.2: once agreed on, in every segment but RST.
        if self.has(Flags::TIMESTAMPS) {
            options.timestamps = Some(Timestamps {
                tsval: self.tsval(now),
                tsecr: self.hot.ts_recent,
            });
        }
        if self.has(Flags::HOLES | Flags::DUPLICATE) {
            options.sack = self.receive_view().sack_blocks();
            options.sack.truncate(self.max_sack_blocks());
        }
        options.ecn_bytes = self.cold.ecn.option();
    }
}
