//! The set-up part of a connection as its behaviour sees it: borrowed for one step.

use std::net::IpAddr;

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::counters::Counters;
use crate::tcp::segment::Segment;
use crate::tcp::setup::actions::OpenActions;
use crate::tcp::setup::fast_open::{CookieCache, FastOpen};
use crate::tcp::setup::open_state::OpenState;

/// State of a connection that opens, and what that needs of everything else.
#[derive(Debug)]
pub(crate) struct OpenPart<'a> {
    pub open: &'a mut OpenState,
    /// Cookies of servers.
    pub cache: &'a mut CookieCache,
    pub counters: &'a mut Counters,
    pub remote: IpAddr,
    pub retries: u8,
    pub snd_nxt: SeqNumber,
}

impl OpenPart<'_> {
    /// The SYN is due, or waits for the first bytes, if the application `wants` Fast Open. Whether
    /// it is due.
    pub fn begin(self, now: Instant, wants: bool) -> bool {
        if wants {
            self.open.fast_open = self.cache.advise(now, self.remote);
        }
        self.open.fast_open != FastOpen::Waiting
    }

    /// An ACK came that cannot be for our SYN: it is what a peer sends that still has an earlier
    /// connection between the same endpoints (in TIME_WAIT, or half-open: RFC 9293 §3.5.1,
    /// figure 9). The RST ends that one; a SYN right behind it, once, spares us the time-out. This
    /// first RST is not counted: a client that opens very many connections would wait for its
    /// time-outs otherwise, and nobody can have more of them sent than SYNs.
    pub fn on_foreign_ack(self, seg: &Segment<'_>) -> OpenActions {
        if self.open.syn_repeated || seg.has(TcpFlags::RST) {
            return OpenActions::RESET;
        }
        self.open.syn_repeated = true;
        OpenActions::FREE_RESET | OpenActions::SYN
    }

    /// The SYN-ACK acknowledges so many bytes of the SYN's `data`; what it says about cookies is
    /// remembered, and the `mss` in it. RFC 7413 §4.1.3.1-2, §4.2.2-4.
    pub fn learn(self, now: Instant, seg: &Segment<'_>, data: u32, mss: u16) {
        let refused = data == 0 && self.snd_nxt > seg.ack;
        self.counters.fast_opens_out += u64::from(data > 0);
        if data == 0 && self.retries > 0 {
            self.counters.fast_open_losses += 1;
            self.cache.note_loss(now, self.remote);
            return;
        }
        let cookie = seg.options.fast_open;
        self.cache.learn(now, self.remote, cookie, mss);
        // With a cookie it means that ours was too old, not that the server does not want the data.
        if refused && cookie.is_none_or(|cookie| cookie.is_request()) {
            self.cache.note_loss(now, self.remote);
        }
    }
}
