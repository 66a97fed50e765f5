//! ICMP errors about our segments (RFC 9293 §3.9.2.2, RFC 5927): believed only if they quote something that is in flight.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::drops::Drop;
use crate::flow::{self, FlowKey};
use crate::info::State;
use crate::ip::{ErrorKind, TransportError};
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::options::effective_mss;
use crate::tcp::tcb::Flags;

/// The smallest path MTUs that are believed: below, an attacker would have us send tiny segments. RFC 8200 §5 guarantees the one for
/// IPv6; every link of today carries the one for IPv4.
/// RFC 5927 §7.2-1.
const MIN_MTU_V4: u16 = 552;
/// RFC 8201 §4-1.
const MIN_MTU_V6: u16 = 1280;

impl Tcp {
    /// RFC 9293 MUST-54.
    pub fn on_transport_error(&mut self, now: Instant, error: &TransportError) {
        let key = FlowKey::new(error.quoted.src, error.quoted.dst);
        let hash = self.flows.hash(&key);
        let id = self.lookup(hash, &key);
        let slot = match id {
            Some(id) if flow::tag(id) == flow::CONNECTION as usize => flow::index(id) as u32,
            _ => return self.shared.counters.drop(Drop::IcmpQuote),
        };
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return;
        };
        if !conn.is_in_flight(error.quoted.seq) {
            return self.shared.counters.drop(Drop::IcmpQuote);
        }
        conn.on_transport_error(now, error);
        self.settle(now, slot);
    }
}

impl Conn<'_> {
    /// RFC 5927 §4.1: SND.UNA =< SEG.SEQ < SND.NXT.
    /// RFC 5927 §4.1-1.
    fn is_in_flight(&self, seq: SeqNumber) -> bool {
        seq >= self.hot.snd_una && seq < self.hot.snd_nxt
    }

    fn on_transport_error(&mut self, now: Instant, error: &TransportError) {
        match error.kind {
            ErrorKind::TooBig => {
                if let Some(mtu) = error.mtu {
                    self.lower_path_mtu(now, mtu);
                }
            }
            // RFC 5461 §4.1: hard errors end attempts to connect, not connections.
            // RFC 5927 §5.2-1.
            ErrorKind::Hard(error) if self.hot.state == State::SynSent => self.fail(error),
            // RFC 9293 MUST-47, MUST-56, SHLD-25.
            ErrorKind::Hard(error) | ErrorKind::Soft(error) => {
                self.cold.soft_error = Some(error);
            }
        }
    }

    /// Makes segments as large as path, peer and options let them be.
    /// RFC 1191 §6.4-2.
    pub fn fit_segments(&mut self) {
        self.hot.mss = effective_mss(
            self.cold.peer_mss,
            self.cold.path.mtu,
            self.key.is_ipv4(),
            self.has(Flags::TIMESTAMPS),
            &self.cold.options,
        );
    }

    /// RFC 1191 §6.3, RFC 8201 §5.2: smaller segments from now on, and again what was too big. That is no sign of congestion.
    /// RFC 1191 §3-2, §3-3, §6.3-1, §6.4-1; RFC 8201 §4-2, §4-3, §5.4-1.
    fn lower_path_mtu(&mut self, now: Instant, mtu: u16) {
        let is_ipv4 = self.key.is_ipv4();
        let mtu = mtu.max(if is_ipv4 { MIN_MTU_V4 } else { MIN_MTU_V6 });
        if mtu >= self.cold.path.mtu {
            return;
        }
        self.cold.path.mtu = mtu;
        self.fit_segments();
        if self.hot.state.may_transmit() && self.hot.flight() > 0 {
            self.go_back(now, 0);
        }
    }
}
