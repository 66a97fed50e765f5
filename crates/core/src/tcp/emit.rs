//! Headers and options of segments that a connection sends.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::ecn::Outgoing;
use crate::tcp::flags::Flags;
use crate::tcp::options::add_syn_options;
use crate::tcp::send::{Kind, Plan};

/// What a planned segment is as far as ECN makes a difference, with SND.NXT at `nxt`.
#[inline(always)]
pub(crate) fn outgoing(plan: &Plan, nxt: SeqNumber) -> Outgoing {
    match plan.kind {
        Kind::Ack => Outgoing::PureAck,
        Kind::New | Kind::TailProbe if plan.len > 0 && plan.seq == nxt => Outgoing::NewData,
        _ => Outgoing::Other,
    }
}

/// RFC 2018 §3: with timestamps three blocks fit.
fn max_sack_blocks(flags: Flags) -> usize {
    if flags.contains(Flags::TIMESTAMPS) {
        3
    } else {
        4
    }
}

impl Conn<'_> {
    /// The header of a planned segment, to a place that is as it is by default: it is too large to
    /// be moved around. From here on the window in it is on offer.
    #[inline(always)]
    pub fn fill_header(&mut self, now: Instant, plan: &Plan, header: &mut TcpHeader) {
        let is_syn = plan.kind == Kind::Syn;
        let window = if is_syn {
            // The window in a SYN is never scaled (RFC 7323 §2.2).
            // RFC 7323 §2.2-4.
            self.hot.rcv_wnd().min(u32::from(u16::MAX)) as u16
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
            ecn.flags(|| outgoing(plan, self.hot.snd.nxt))
        }
    }

    /// Those of a SYN, to where there are none yet.
    /// RFC 7323 §3.2-2.
    pub fn add_syn_options(&self, now: Instant, is_reply: bool, options: &mut TcpOptions) {
        let tsval = self.tsval(now);
        let (config, cold) = (&self.sh.config, &*self.cold);
        add_syn_options(config, cold.local_mss, cold.open.wscale, tsval, options);
        options.fast_open = self.open_view().fast_open_option(now);
        if is_reply {
            // Simultaneous open: answer what the peer's SYN offered. A cookie here would be one for
            // the peer (RFC 7413 §4.1.2), and ours is from it.
            options.fast_open = options
                .fast_open
                .filter(|_| !self.cold.open.fast_open.is_client());
            options.sack_permitted = self.has(Flags::SACK);
            options.window_scale = options.window_scale.filter(|_| self.has(Flags::SCALING));
            options.timestamps = self.has(Flags::TIMESTAMPS).then_some(Timestamps {
                tsval,
                tsecr: self.hot.ts_recent,
            });
        }
    }

    /// The options of a segment that is no SYN, to where there are none yet: what is large and
    /// written piece by piece is not to be copied. RFC 9293 MUST-65; RFC 2018 §2-1, §4-2;
    /// RFC 7323 §3.2-1, §3.2-5, §4.3-2.
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
            options.sack.truncate(max_sack_blocks(self.hot.flags));
        }
        options.ecn_bytes = self.cold.ecn.option();
    }

    /// Most payload that the next segment can carry: SACK blocks and counters take room (RFC 6691:
    /// variable options come off at send time).
    #[inline]
    pub fn segment_room(&self) -> u32 {
        let mss = u32::from(self.hot.loss.mss);
        if self.has(Flags::HOLES | Flags::DUPLICATE) || self.cold.ecn.option().is_some() {
            self.room_beside_options(mss)
        } else {
            mss
        }
    }

    #[cold]
    fn room_beside_options(&self, mss: u32) -> u32 {
        // The time makes no difference to the length.
        let mut options = TcpOptions::default();
        self.add_options(Instant::ZERO, &mut options);
        options.timestamps = None;
        mss.saturating_sub(options.emitted_len() as u32).max(1)
    }
}
