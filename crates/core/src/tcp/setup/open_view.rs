//! What the set-up part of a connection says when it is asked: nothing here changes anything.

use std::net::IpAddr;

use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, TcpFlags, TcpOptions};
use wire::time::Instant;

use crate::info::State;
use crate::tcp::options::{headers_len, peer_mss};
use crate::tcp::segment::Segment;
use crate::tcp::setup::fast_open::{CookieCache, FastOpen, Issuer};
use crate::tcp::setup::open_state::OpenState;

/// The set-up part of a connection, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenView<'a> {
    pub open: &'a OpenState,
    pub issuer: &'a Issuer,
    /// Cookies of servers.
    pub cache: &'a CookieCache,
    pub remote: IpAddr,
    pub state: State,
    pub retries: u8,
    pub iss: SeqNumber,
    pub irs: SeqNumber,
    pub snd_nxt: SeqNumber,
}

impl OpenView<'_> {
    /// The option of our SYN or SYN-ACK. What goes again goes without: perhaps the option is why
    /// the first was lost. RFC 7413 §4.2.2-5, §4.2.2-6.
    pub fn fast_open_option(self, now: Instant) -> Option<FastOpenCookie> {
        match self.open.fast_open {
            _ if self.open.syn_went_before(self.retries) => None,
            FastOpen::Pending { outdated: true } => Some(self.issuer.issue(now, self.remote)),
            FastOpen::Asking => Some(FastOpenCookie::REQUEST),
            FastOpen::Sending => self.cache.cookie(self.remote),
            _ => None,
        }
    }

    /// Whether data goes with our SYN.
    #[inline]
    pub fn sends_data(self) -> bool {
        let sends = self.state == State::SynSent && self.open.fast_open == FastOpen::Sending;
        sends && !self.open.syn_went_before(self.retries)
    }

    /// Bytes that there is room for beside a SYN with `options_len` bytes of options: in a segment
    /// as large as the server's last SYN-ACK let it be (RFC 7413 §4.2.2). RFC 7413 §4.2.2-3.
    #[cold]
    pub fn room_beside_syn(self, mtu: u16, options_len: u32) -> u32 {
        let is_ipv4 = self.remote.is_ipv4();
        let known = self.cache.mss(self.remote);
        let peer = known.unwrap_or_else(|| peer_mss(&TcpOptions::default(), is_ipv4));
        let path = mtu.saturating_sub(headers_len(is_ipv4));
        u32::from(peer.min(path)).saturating_sub(options_len)
    }

    /// Whether `seg` acknowledges our SYN.
    pub fn acknowledges_syn(self, seg: &Segment<'_>) -> bool {
        seg.ack > self.iss && seg.ack <= self.snd_nxt
    }

    /// Whether `seg` is the SYN of a client whose cookie opened the connection, again: it did not
    /// get our SYN-ACK.
    pub fn is_repeated_syn(self, seg: &Segment<'_>) -> bool {
        let is_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK | TcpFlags::RST);
        is_syn && seg.seq == self.irs && self.open.may_send_early(self.state)
    }

    /// In a simultaneous open, the SYN-ACK of somebody else than whose SYN came first. A SYN
    /// anybody can send who knows the addresses; but who acknowledges ours has seen it.
    /// (RFC 9293 §3.10.7.4 would have both of us answer until one sends a RST.)
    pub fn answers_our_syn(self, seg: &Segment<'_>) -> bool {
        let is_answer =
            seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK) && !seg.has(TcpFlags::RST);
        let is_other = seg.seq != self.irs && !self.open.may_send_early(self.state);
        is_answer && self.acknowledges_syn(seg) && is_other
    }

    /// In a simultaneous open the SYN-ACK repeats the peer's SYN, which is left of the window by
    /// then. What counts is its ACK (RFC 9293 figure 8, lines 5 and 6): the segment without the
    /// SYN, if it has that. Its window is not scaled, but will be taken for it, by `scale`: it is
    /// left alone until the next segment.
    pub fn without_repeated_syn<'a>(self, seg: &Segment<'a>, scale: u8) -> Option<Segment<'a>> {
        let repeats = seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK) && seg.seq == self.irs;
        if !repeats || self.state != State::SynReceived {
            return None;
        }
        let mut seg = *seg;
        seg.seq += 1;
        seg.flags.remove(TcpFlags::SYN);
        seg.window >>= scale.min(15);
        Some(seg)
    }
}
