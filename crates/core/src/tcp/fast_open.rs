//! TCP Fast Open (RFC 7413): data in the SYN, between hosts that have met before. Here the server's
//! side; the client's are its [`cache`] of cookies and [`client`].

mod cache;
mod client;
mod issuer;

use std::time::Duration;

use wire::seq::SeqNumber;
use wire::tcp::FastOpenCookie;
use wire::time::Instant;

use crate::error::Error;
use crate::flow;
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::half_open::HalfOpen;
use crate::tcp::listen::Listeners;
use crate::tcp::segment::Segment;

pub(crate) use cache::CookieCache;
pub(crate) use issuer::{FastOpen, Issuer};

/// RFC 7413 §5.1: a connection that was reset counts for so long after.
const COOLING: Duration = Duration::from_secs(60);

/// Connections that a listener opened by cookie and whose handshakes are not complete: what an
/// attacker with real addresses can hold (RFC 7413 §5.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingOpens {
    pending: u32,
    /// Those that were reset count on until `cool_at`: spoofed SYNs whose victims answer with RST
    /// must not come for free.
    cooling: u32,
    cool_at: Instant,
}

impl PendingOpens {
    /// RFC 7413 §5.1-1.
    fn has_room(&mut self, now: Instant, limit: u32) -> bool {
        if now >= self.cool_at {
            self.cooling = 0;
        }
        self.pending.saturating_add(self.cooling) < limit
    }

    fn leave(&mut self, now: Instant, by_reset: bool) {
        self.pending = self.pending.saturating_sub(1);
        if by_reset {
            self.cooling += 1;
            self.cool_at = now + COOLING;
        }
    }
}

impl Tcp {
    /// A SYN with a valid cookie opens a connection at once (RFC 7413 §4.2.2). False if there is
    /// nothing of the kind, or no room: then the handshake is an ordinary one, and the data comes
    /// again. RFC 7413 §2.1-1, §4.2.2-1, §4.2.2-2.
    pub fn open_fast(&mut self, now: Instant, record: &HalfOpen, seg: &Segment<'_>) -> bool {
        let cookie = seg.options.fast_open.filter(|cookie| !cookie.is_request());
        let host = seg.key.remote().ip();
        let Some(fast_open) =
            cookie.and_then(|cookie| self.shared.issuer.check(now, host, &cookie))
        else {
            return false;
        };
        let Some(listener) = self.listeners.at_mut(u32::from(record.listener)) else {
            return false;
        };
        let limit = listener.options.fast_open.unwrap_or(0);
        if !listener.pending.has_room(now, limit) {
            return false;
        }
        let Ok(slot) = self.take_control_block(now, record, seg) else {
            return false;
        };
        self.begin_fast(now, slot, record, fast_open, seg);
        true
    }

    fn begin_fast(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        fast_open: FastOpen,
        seg: &Segment<'_>,
    ) {
        self.flows
            .insert(seg.hash, flow::id(flow::CONNECTION, slot));
        if let Some(listener) = self.listeners.at_mut(u32::from(record.listener)) {
            listener.pending.pending += 1;
        }
        self.shared.counters.fast_opens_in += 1;
        if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
            self.listeners.enter_backlog(&mut conn);
            conn.cold.fast_open = fast_open;
            conn.cold.ecn.accept(record.ecn.classic());
            conn.begin_fast(now, record.iss, seg);
        }
    }
}

impl Conn<'_> {
    /// A connection opened by cookie is established, or over.
    pub fn leave_pending(&mut self, now: Instant, listeners: &mut Listeners) {
        let waits = self.hot.state == State::SynReceived;
        if waits || !matches!(self.cold.fast_open, FastOpen::Pending { .. }) {
            return;
        }
        self.cold.fast_open = FastOpen::Off;
        let by_reset = self.cold.error == Some(Error::Reset);
        if let Some(listener) = listeners.at_mut(self.cold.listener) {
            listener.pending.leave(now, by_reset);
        }
    }

    /// SYN_RECEIVED, with the data of the SYN delivered; our SYN-ACK is due.
    fn begin_fast(&mut self, now: Instant, iss: SeqNumber, seg: &Segment<'_>) {
        self.hot.snd.una = iss;
        self.hot.snd.nxt = iss;
        self.set(Flags::SYN_DUE);
        self.start_windows(now);
        self.greet();
        self.mark_output();
        let len = seg.payload_len().min(self.hot.rcv_wnd()) as usize;
        let Some(bytes) = seg.payload.get(..len).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        match self.take_text(now, seg.data_seq(), bytes) {
            Ok(()) => self.cold.statistics.syn_data = true,
            Err(stop) => self.sh.count(stop),
        }
    }

    /// Whether data may go before the handshake is complete (RFC 7413 §4.2.2).
    pub fn may_send_early(&self) -> bool {
        self.hot.state == State::SynReceived
            && matches!(self.cold.fast_open, FastOpen::Pending { .. })
    }

    /// The option of our SYN or SYN-ACK. What goes again goes without: perhaps the option is why
    /// the first was lost. RFC 7413 §4.2.2-5, §4.2.2-6.
    pub fn fast_open_option(&self, now: Instant) -> Option<FastOpenCookie> {
        let remote = self.key.remote().ip();
        match self.cold.fast_open {
            _ if self.syn_went_before() => None,
            FastOpen::Pending { outdated: true } => Some(self.sh.issuer.issue(now, remote)),
            FastOpen::Asking => Some(FastOpenCookie::REQUEST),
            FastOpen::Sending => self.sh.server_cookies.cookie(remote),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_count_for_a_minute() {
        let mut opens = PendingOpens::default();
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        assert!(!opens.has_room(at(0), 0));
        opens.pending = 2;
        assert!(!opens.has_room(at(0), 2));
        opens.leave(at(0), false);
        assert!(opens.has_room(at(0), 2));
        opens.leave(at(0), true);
        assert!(opens.has_room(at(0), 2) && !opens.has_room(at(59), 1));
        assert!(opens.has_room(at(60), 1));
    }
}
