//! What a segment that is about to be sent carries: nothing here changes anything.

use wire::ip::Ecn;
use wire::tcp::TcpFlags;

use crate::tcp::ecn::handshake::{Feedback, ace_flags, arrival_code};
use crate::tcp::ecn::state::{EcnState, Outgoing};

/// The ECN part of a connection, to be read. Mostly it makes no difference what a segment is, so
/// that is worked out only where it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnView<'a> {
    pub state: &'a EcnState,
    /// The state is SYN-SENT: a SYN asks.
    pub is_asking: bool,
    /// The congestion control is of use only with ECN.
    pub is_wanted: bool,
}

impl EcnView<'_> {
    /// The ECN field of a segment that is about to be sent. RFC 3168 §6.1.4, §6.1.5, §6.1.6: data
    /// is ECN-capable when it is sent for the first time; pure ACKs, retransmissions and window
    /// probes are not. DCTCP wants all segments to be, for its queues drop what is not (RFC 8257
    /// §3.6).
    /// RFC 3168 §6.1.1-2, §6.1.4-1, §6.1.5-1, §6.1.6-1, §6.1.2-6; RFC 8257 §3.6-1.
    #[inline(always)]
    pub fn codepoint(self, sent: impl FnOnce() -> Outgoing) -> Ecn {
        let ecn = self.state;
        let agreed = if self.is_asking {
            ecn.asks() != Feedback::None
        } else {
            ecn.feedback != Feedback::None && ecn.capable
        };
        if agreed && (sent() == Outgoing::NewData || self.is_wanted) {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// The ECN bits of a SYN or SYN-ACK that is about to be sent.
    pub fn syn_flags(self) -> TcpFlags {
        if self.is_asking {
            self.state.asks().request()
        } else {
            self.state.answer().flags()
        }
    }

    /// The ECN bits of a segment that is no SYN and is about to be sent.
    /// RFC 9768 §3.1.5-5.
    #[inline(always)]
    pub fn flags(self, sent: impl FnOnce() -> Outgoing) -> TcpFlags {
        let ecn = self.state;
        match ecn.feedback {
            Feedback::None => TcpFlags::empty(),
            Feedback::Classic => {
                let mut flags = TcpFlags::empty();
                flags.set(TcpFlags::ECE, ecn.echo);
                flags.set(TcpFlags::CWR, ecn.cwr_due && sent() == Outgoing::NewData);
                flags
            }
            Feedback::Accurate => ace_flags(match ecn.counts.handshake {
                Some(arrived) if sent() == Outgoing::PureAck => arrival_code(arrived),
                _ => ecn.counts.ace(),
            }),
        }
    }
}
