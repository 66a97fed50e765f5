//! The client's side of Fast Open (RFC 7413 §4.2.2): the first bytes go with the SYN, if the
//! server's cookie is known.

use wire::time::Instant;

use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::fast_open::issuer::FastOpen;
use crate::tcp::flags::Flags;
use crate::tcp::options::{headers_len, peer_mss};
use crate::tcp::segment::Segment;
use wire::tcp::TcpOptions;

impl Conn<'_> {
    /// The SYN is due, or waits for the first bytes.
    pub fn begin_active(&mut self, now: Instant) {
        if self.options().fast_open_connect {
            self.cold.fast_open = self.sh.server_cookies.advise(now, self.key.remote().ip());
        }
        if self.cold.fast_open == FastOpen::Waiting {
            self.notify(crate::event::Ready::WRITABLE);
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
