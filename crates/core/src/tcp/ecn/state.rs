//! The state of the ECN part, which the cold column of the control block embeds.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::EcnBytes;

use crate::config::{Config, EcnUse};
use crate::info::EcnInfo;
use crate::tcp::ecn::counts::Counts;
use crate::tcp::ecn::handshake::{Answer, Feedback};

/// What a segment that is about to be sent is, as far as ECN makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Data that was never sent before.
    NewData,
    /// An ACK without anything else.
    PureAck,
    /// Something else.
    Other,
}

/// What a connection knows of ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct EcnState {
    pub(super) feedback: Feedback,
    /// What our SYN asks for.
    asks: Feedback,
    /// What our SYN-ACK says, if it is the connection that sends it.
    answer: Answer,
    /// Nothing speaks against marking our data as ECN-capable.
    pub(super) capable: bool,
    /// Classic: congestion was met, and the sender has not said that it knows. With DCTCP it is
    /// DCTCP.CE of RFC 8257 §3.2: the last segment met congestion.
    pub(super) echo: bool,
    /// The next new data tells the receiver that the window was reduced.
    pub(super) cwr_due: bool,
    /// SND.NXT when the window was reduced: what was in flight then is no reason to do it again
    /// (RFC 3168 §6.1.2).
    pub(super) reduced: Option<SeqNumber>,
    /// Bytes that met congestion and that congestion control has not heard of.
    pub(super) marked: u32,
    /// How often in a row congestion was echoed to a window of one segment.
    pub(super) holds: u8,
    /// An ECN-capable segment has come.
    pub(super) seen: bool,
    pub(super) counts: Counts,
}

/// What is left of the state while a connection idles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compact {
    asks: Feedback,
    /// The bits of the answer, [`CAPABLE`] and [`SEEN`].
    facts: u8,
}

const CAPABLE: u8 = 1 << 3;
const SEEN: u8 = 1 << 4;

impl EcnState {
    /// Before the first SYN. `wanted`: the congestion control is of use only with ECN.
    pub fn new(config: &Config, wanted: bool) -> Self {
        let asks = config.ecn == EcnUse::On || config.ecn == EcnUse::Passive && wanted;
        Self {
            asks: if asks {
                Feedback::Accurate
            } else {
                Feedback::None
            },
            ..Self::default()
        }
    }

    /// The compact form. It has a place for what a connection without ECN has; the owner of the
    /// record compares.
    pub fn packed(&self) -> Compact {
        let capable = if self.capable { CAPABLE } else { 0 };
        let seen = if self.seen { SEEN } else { 0 };
        Compact {
            asks: self.asks,
            facts: self.answer.bits() | capable | seen,
        }
    }

    pub fn unpacked(from: Compact) -> Self {
        let Compact { asks, facts } = from;
        Self {
            asks,
            answer: Answer::from_bits(facts),
            capable: facts & CAPABLE != 0,
            seen: facts & SEEN != 0,
            ..Self::default()
        }
    }

    /// What our SYN asks for.
    pub(super) fn asks(&self) -> Feedback {
        self.asks
    }

    /// What our SYN-ACK says.
    pub(super) fn answer(&self) -> Answer {
        self.answer
    }

    /// The SYN, or its answer, was lost `times` times. RFC 9768 §3.1.4.1: ask once more, then no
    /// longer, since it may be the question that gets lost (RFC 3168 §6.1.1.1).
    /// RFC 3168 §6.1.1.1-1; RFC 9768 §3.1.4.1-1.
    pub fn on_syn_lost(&mut self, times: u8) {
        if times > 1 {
            self.asks = Feedback::None;
        }
    }

    /// A middlebox may answer the question with a RST: the next SYN does not ask (RFC 3168
    /// §6.1.1.1). True if the last one did.
    /// RFC 3168 §6.1.1.1-1.
    pub fn stop_asking(&mut self) -> bool {
        std::mem::take(&mut self.asks) != Feedback::None
    }

    /// The passive side: the SYN-ACK said so.
    pub fn accept(&mut self, answer: Answer) {
        self.feedback = answer.feedback();
        self.answer = answer;
        self.capable = true;
    }

    /// A SYN did not ask, or an answer did not say yes, before or after one that did: the peer may
    /// not be counting (RFC 9768 §3.1.5).
    /// RFC 9768 §3.1.5-3.
    pub fn mark_nothing(&mut self) {
        self.capable = false;
    }

    /// The SYN-ACK came again, with this codepoint.
    pub fn answer_again(&mut self, arrived: Ecn) {
        if self.feedback == Feedback::Accurate {
            self.counts.handshake = Some(arrived);
        }
    }

    /// Whether the SYN-ACK still has to be answered with an ACK of its own, which says how it
    /// arrived (RFC 9768 §3.2.2.1).
    #[inline(always)]
    pub fn owes_pure_ack(&self) -> bool {
        self.counts.handshake.is_some()
    }

    /// The option that the next segment carries.
    #[inline(always)]
    pub fn option(&self) -> Option<EcnBytes> {
        self.counts.option()
    }

    /// A segment was sent.
    #[inline(always)]
    pub fn on_sent(&mut self, sent: Outgoing, has_ack: bool) {
        if has_ack {
            self.counts.handshake = None;
        }
        if sent == Outgoing::NewData {
            self.cwr_due = false;
        }
    }

    /// The ACK that was due was sent, with the ACE field and the option in it.
    #[inline(always)]
    pub fn on_ack_sent(&mut self) {
        self.counts.on_sent();
    }

    /// Bytes of the `acked` ones that met congestion.
    #[inline(always)]
    pub fn take_marked(&mut self, acked: u32) -> u32 {
        std::mem::take(&mut self.marked).min(acked)
    }

    /// Whether the window was reduced, and the peer has not acknowledged what was in flight then.
    pub fn is_reduced(&self) -> bool {
        self.reduced.is_some()
    }

    /// The window of one segment cannot shrink any more. Returns how often in a row that was so
    /// before.
    pub fn next_hold(&mut self) -> u8 {
        let before = self.holds;
        self.holds = before.saturating_add(1);
        before
    }

    pub fn info(&self) -> EcnInfo {
        let counted = match self.feedback {
            Feedback::Accurate => self.counts.info(),
            _ => EcnInfo::default(),
        };
        EcnInfo {
            used: self.feedback != Feedback::None,
            seen: self.seen,
            ..counted
        }
    }
}
