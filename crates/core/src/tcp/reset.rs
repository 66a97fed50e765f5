//! Segments without a connection behind them: RST, and the few ACKs that are answered by records.

use std::net::SocketAddr;

use wire::ip::Protocol;
use wire::tcp::{TcpFlags, TcpHeader, fill_checksum};
use wire::time::Instant;

use crate::drops::Drop;
use crate::info::State;
use crate::ip::Path;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Segment;
use crate::tcp::shared::Shared;
use crate::tcp::tcb::Flags;

impl Shared {
    /// Sends a segment without payload from `local` to `remote`, along the route there is now.
    pub fn send_bare(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        header: TcpHeader,
    ) {
        match self.net.path(remote.ip(), Some(local.ip())) {
            Ok(path) => self.send_bare_on(now, &path, local, remote, header),
            Err(_) => self.counters.drop(Drop::ReplyNoRoute),
        }
    }

    /// The same, along a known path.
    pub fn send_bare_on(
        &mut self,
        now: Instant,
        path: &Path,
        local: SocketAddr,
        remote: SocketAddr,
        header: TcpHeader,
    ) {
        let header = TcpHeader {
            src_port: local.port(),
            dst_port: remote.port(),
            ..header
        };
        let mut bytes = [0; TcpHeader::MAX_LEN];
        let len = header.emit(&mut bytes);
        let Some(segment) = bytes.get_mut(..len) else {
            return;
        };
        fill_checksum(local.ip(), remote.ip(), segment);
        self.counters.segments_out += 1;
        self.net.send_packet(
            now,
            path,
            remote.ip(),
            Protocol::TCP,
            segment,
            &mut self.counters,
        );
    }
}

/// The RST that answers a segment for which there is no connection (RFC 9293 §3.10.7.1); none answers a RST.
fn reset_for(seg: &Segment<'_>) -> Option<TcpHeader> {
    if seg.has(TcpFlags::RST) {
        return None;
    }
    Some(if seg.has(TcpFlags::ACK) {
        TcpHeader {
            seq: seg.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        }
    } else {
        TcpHeader {
            ack: seg.end(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            ..TcpHeader::default()
        }
    })
}

impl Shared {
    /// Answers a segment that belongs to nothing, unless there were too many. Whether there was an answer.
    pub fn answer_with_reset(&mut self, now: Instant, seg: &Segment<'_>) -> bool {
        let Some(header) = reset_for(seg) else {
            return false;
        };
        let allowed = self.resets.allow(now);
        if allowed {
            self.counters.resets_out += 1;
            self.send_bare(now, seg.local, seg.remote, header);
        } else {
            self.counters.drop(Drop::ReplyLimited);
        }
        allowed
    }
}

impl Tcp {
    /// CLOSED (RFC 9293 §3.10.7.1).
    pub fn on_closed(&mut self, now: Instant, seg: &Segment<'_>) -> Drop {
        self.shared.answer_with_reset(now, seg);
        Drop::TcpNoConnection
    }
}

impl Conn<'_> {
    /// The RST of ABORT (RFC 9293 §3.10.5): <SEQ=SND.NXT><CTL=RST>, with an ACK so that firewalls believe it.
    pub fn send_reset(&mut self, now: Instant) {
        if !self.hot.state.is_synchronized() && self.hot.state != State::SynReceived {
            return;
        }
        if self.has(Flags::DETACHED) {
            return;
        }
        let header = TcpHeader {
            seq: self.hot.snd_nxt,
            ack: self.hot.rcv_nxt,
            flags: TcpFlags::RST | TcpFlags::ACK,
            ..TcpHeader::default()
        };
        self.send_now(now, header);
        self.sh.counters.resets_out += 1;
    }

    /// Sends a segment without payload outside of the lists.
    pub fn send_now(&mut self, now: Instant, header: TcpHeader) {
        let (path, local, remote) = (self.cold.path, self.key.local(), self.key.remote());
        self.sh.send_bare_on(now, &path, local, remote, header);
    }
}
