//! Fast Open (RFC 7413) on a connection. The server's side: the data of the SYN is delivered before
//! the handshake is complete. The client's side: the first bytes go with the SYN, if the server's
//! cookie is known.

use wire::seq::SeqNumber;
use wire::tcp::{FastOpenCookie, TcpOptions};
use wire::time::Instant;

use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::options::{headers_len, peer_mss};
use crate::tcp::segment::Segment;
use crate::tcp::setup::{FastOpen, Listeners};

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
    pub fn begin_fast(&mut self, now: Instant, iss: SeqNumber, seg: &Segment<'_>) {
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

    /// The SYN is due, or waits for the first bytes.
    pub fn begin_active(&mut self, now: Instant) {
        if self.options().fast_open_connect {
            self.cold.fast_open = self.sh.server_cookies.advise(now, self.key.remote().ip());
        }
        if self.cold.fast_open == FastOpen::Waiting {
            self.notify(Ready::WRITABLE);
        } else {
            self.set(Flags::SYN_DUE);
            self.mark_output();
        }
    }

    /// The application wrote, or will not: the SYN waits no longer.
    pub fn release_syn(&mut self) {
        if self.cold.fast_open == FastOpen::Waiting {
            self.cold.fast_open = FastOpen::Sending;
            self.set(Flags::SYN_DUE);
        }
    }

    /// Whether a SYN was sent that was not answered.
    pub fn syn_went_before(&self) -> bool {
        self.hot.retries > 0 || self.cold.syn_repeated
    }

    /// Bytes of data that go with the SYN: what fits into a segment as large as the server's last
    /// SYN-ACK let it be (RFC 7413 §4.2.2). RFC 7413 §4.2.2-3.
    #[inline]
    pub fn syn_data_len(&self, now: Instant) -> u32 {
        let sends = self.hot.state == State::SynSent && self.cold.fast_open == FastOpen::Sending;
        if sends && !self.syn_went_before() {
            self.room_beside_syn(now)
        } else {
            0
        }
    }

    #[cold]
    fn room_beside_syn(&self, now: Instant) -> u32 {
        let is_ipv4 = self.key.is_ipv4();
        let known = self.sh.server_cookies.mss(self.key.remote().ip());
        let peer = known.unwrap_or_else(|| peer_mss(&TcpOptions::default(), is_ipv4));
        let path = self.cold.path.mtu.saturating_sub(headers_len(is_ipv4));
        let mut options = TcpOptions::default();
        self.add_syn_options(now, false, &mut options);
        let options = options.emitted_len() as u32;
        let room = u32::from(peer.min(path)).saturating_sub(options);
        self.sh.streams.send_len(self.slot).min(room)
    }

    /// The SYN-ACK: what it acknowledges of the SYN's data has arrived, the rest goes again; what
    /// it says about cookies is remembered. RFC 7413 §4.1.3.1-2, §4.2.2-4.
    pub fn on_fast_open_answer(&mut self, now: Instant, seg: &Segment<'_>) {
        let data = seg.ack - self.cold.iss - 1;
        let refused = data == 0 && self.hot.snd.nxt > seg.ack;
        self.release(data);
        self.hot.snd.una = seg.ack;
        self.hot.snd.nxt = seg.ack;
        if self.cold.fast_open == FastOpen::Off {
            return;
        }
        let remote = self.key.remote().ip();
        self.cold.statistics.syn_data = data > 0;
        self.sh.counters.fast_opens_out += u64::from(data > 0);
        if data == 0 && self.hot.retries > 0 {
            self.sh.counters.fast_open_losses += 1;
            self.sh.server_cookies.note_loss(now, remote);
            return;
        }
        let (cookie, mss) = (seg.options.fast_open, self.cold.peer_mss);
        self.sh.server_cookies.learn(now, remote, cookie, mss);
        // With a cookie it means that ours was too old, not that the server does not want the data.
        if refused && cookie.is_none_or(|cookie| cookie.is_request()) {
            self.sh.server_cookies.note_loss(now, remote);
        }
    }
}
