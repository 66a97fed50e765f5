//! What the states of RFC 9293 §3.3.2 allow.

use crate::info::State;

impl State {
    /// Both sides know each other's initial sequence number (RFC 9293 §3.5).
    pub fn is_synchronized(self) -> bool {
        !matches!(
            self,
            Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived
        )
    }

    /// Data or a FIN may still be sent, or sent again.
    pub(crate) fn may_transmit(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }

    /// The peer may still send data (RFC 9293 §3.10.7.4, seventh).
    pub(crate) fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Nothing more will happen.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::TimeWait)
    }

    /// Linux's number (`TCP_ESTABLISHED` and so on): it counts from 1, in another order.
    pub const fn linux_number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
        }
    }

    /// The name in RFC 9293.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
        }
    }
}
