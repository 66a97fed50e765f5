//! What two SYNs agree on (RFC 3168 §6.1.1, RFC 9768 §3.1).

use wire::ip::Ecn;
use wire::tcp::TcpFlags;

use crate::config::{Config, EcnUse};
use crate::tcp::segment::Segment;

/// The ECN bits of the TCP header. A SYN asks with them, a SYN-ACK answers; afterwards they are ECE
/// and CWR, or the ACE field.
pub(super) const BITS: TcpFlags = TcpFlags::AE.union(TcpFlags::CWR).union(TcpFlags::ECE);

/// AE, CWR and ECE as the number that RFC 9768 writes: AE is the highest bit.
pub(crate) fn ace(flags: TcpFlags) -> u8 {
    (flags.intersection(BITS).bits() >> TcpFlags::ECE.bits().trailing_zeros()) as u8
}

/// The flags of such a number.
pub(crate) fn ace_flags(ace: u8) -> TcpFlags {
    let bits = u16::from(ace & 7) << TcpFlags::ECE.bits().trailing_zeros();
    TcpFlags::from_bits_truncate(bits)
}

/// How a receiver tells the sender of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) enum Feedback {
    #[default]
    None,
    /// ECE until CWR (RFC 3168 §6.1.3).
    Classic,
    /// Counters (RFC 9768).
    Accurate,
}

impl Feedback {
    /// What a SYN asks for. Combinations that no RFC uses yet count as the newest
    /// (RFC 9768 §3.1.3). RFC 9768 §3.1.3-1.
    pub fn asked_by(syn: TcpFlags) -> Self {
        match ace(syn) {
            0b000 => Self::None,
            0b011 => Self::Classic,
            _ => Self::Accurate,
        }
    }

    /// The bits of a SYN that asks for it.
    pub(super) fn request(self) -> TcpFlags {
        match self {
            Self::None => TcpFlags::empty(),
            Self::Classic => TcpFlags::CWR | TcpFlags::ECE,
            Self::Accurate => BITS,
        }
    }

    /// What both agree on when a SYN that asks for `self` is answered so (RFC 9768 table 2,
    /// RFC 3168 §6.1.1). RFC 3168 §6.1.1-1; RFC 9768 §3.1.1-1, §3.1.2-2, §3.1.3-2.
    pub(super) fn agreed(self, answer: Answer) -> Self {
        match (self, answer.0) {
            (Self::None, _) | (_, 0b000 | 0b111) => Self::None,
            (_, 0b001) => Self::Classic,
            (Self::Classic, _) => Self::None,
            // That includes 101, which no RFC uses yet (§3.1.3).
            (Self::Accurate, _) => Self::Accurate,
        }
    }
}

/// The codes of RFC 9768 tables 2 and 3 for how a SYN or a SYN-ACK arrived.
pub(super) fn arrival_code(codepoint: Ecn) -> u8 {
    match codepoint {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// An answer for future use: ECN is had, and the SYN arrived as it was sent (RFC 9768 §3.1.3).
const RESERVED: u8 = 0b101;

/// The ECN bits of a SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answer(u8);

impl Answer {
    /// The three bits of the answer.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The answer in the flags of a SYN-ACK.
    pub(super) fn of(syn_ack: TcpFlags) -> Self {
        Self(ace(syn_ack))
    }

    /// No ECN.
    pub const REFUSAL: Self = Self(0);
    /// ECN as RFC 3168 has it.
    pub const CLASSIC: Self = Self(0b001);

    /// The answer to a SYN.
    /// RFC 3168 §6.1.1-3.
    pub fn to(config: &Config, syn: &Segment<'_>) -> Self {
        if config.ecn == EcnUse::Off {
            return Self::REFUSAL;
        }
        Self(match Feedback::asked_by(syn.flags) {
            Feedback::None => 0b000,
            Feedback::Classic => 0b001,
            Feedback::Accurate => arrival_code(syn.ecn),
        })
    }

    /// The answer to a SYN that is repeated, perhaps with other bits. What was agreed on with the
    /// first stays. Where that was counters, the answer tells how the latest SYN arrived. `None`:
    /// the two questions exclude each other. RFC 9768 §3.1.5-1, §3.1.5-2.
    pub fn again(self, syn: &Segment<'_>) -> Option<Self> {
        match (self.feedback(), Feedback::asked_by(syn.flags)) {
            (Feedback::Accurate, Feedback::Classic) | (Feedback::Classic, Feedback::Accurate) => {
                None
            }
            (Feedback::Accurate, _) => Some(Self(arrival_code(syn.ecn))),
            // RFC 3168 §6.1.1.1: it has given up asking.
            (Feedback::Classic, Feedback::None) => Some(Self::REFUSAL),
            _ => Some(self),
        }
    }

    pub fn flags(self) -> TcpFlags {
        ace_flags(self.0)
    }

    pub fn feedback(self) -> Feedback {
        Feedback::Accurate.agreed(self)
    }

    /// The answer without counters, for handshakes that have no place for the codes of RFC 9768.
    pub fn classic(self) -> Self {
        match self.feedback() {
            Feedback::None => Self::REFUSAL,
            _ => Self::CLASSIC,
        }
    }

    /// Whether it reports a SYN that was sent as `sent` in a way that a network may have caused
    /// (RFC 9768 §3.2.2.3): congestion may be marked on what is ECN-capable, and nothing else may
    /// change.
    /// RFC 9768 §3.2.2.3-1.
    pub(super) fn is_plausible(self, sent: Ecn) -> bool {
        let marked = sent != Ecn::NotEct && self.0 == arrival_code(Ecn::Ce);
        let unchanged = self.0 == arrival_code(sent) || self.0 == RESERVED;
        self.feedback() != Feedback::Accurate || marked || unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768 table 2, from the client's side: what it asked for, what the SYN-ACK says, what
    /// follows. RFC 9768 §3.1.1-1, §3.1.2-2, §3.1.3-2.
    #[test]
    fn the_table_of_answers() {
        use Feedback::{Accurate, Classic, None};
        for (asked, answer, agreed) in [
            (Accurate, 0b010, Accurate),
            (Accurate, 0b011, Accurate),
            (Accurate, 0b100, Accurate),
            (Accurate, 0b110, Accurate),
            (Accurate, 0b101, Accurate),
            (Accurate, 0b001, Classic),
            (Accurate, 0b000, None),
            (Accurate, 0b111, None),
            (Classic, 0b001, Classic),
            (Classic, 0b000, None),
            // RFC 3168 §6.1.1: both bits are a copy of the SYN's, not an answer.
            (Classic, 0b011, None),
            (None, 0b001, None),
            (None, 0b010, None),
        ] {
            assert_eq!(
                asked.agreed(Answer(answer)),
                agreed,
                "{asked:?} {answer:03b}"
            );
        }
    }

    /// RFC 9768 §3.1.3-1.
    #[test]
    fn unknown_questions_are_taken_for_the_newest() {
        for bits in [0b001, 0b010, 0b100, 0b101, 0b110, 0b111] {
            assert_eq!(Feedback::asked_by(ace_flags(bits)), Feedback::Accurate);
        }
        assert_eq!(Feedback::asked_by(ace_flags(0b011)), Feedback::Classic);
        assert_eq!(Feedback::asked_by(TcpFlags::SYN), Feedback::None);
    }

    #[test]
    fn a_network_may_mark_and_nothing_else() {
        let answer = |codepoint| Answer(arrival_code(codepoint));
        assert!(answer(Ecn::Ce).is_plausible(Ecn::Ect0));
        assert!(answer(Ecn::Ect0).is_plausible(Ecn::Ect0));
        assert!(answer(Ecn::NotEct).is_plausible(Ecn::NotEct));
        assert!(!answer(Ecn::Ce).is_plausible(Ecn::NotEct));
        assert!(!answer(Ecn::NotEct).is_plausible(Ecn::Ect0));
        assert!(!answer(Ecn::Ect1).is_plausible(Ecn::Ect0));
    }

    #[test]
    fn three_bits_are_a_number() {
        assert_eq!(ace(TcpFlags::AE | TcpFlags::ACK), 4);
        assert_eq!(ace(TcpFlags::CWR | TcpFlags::SYN), 2);
        assert_eq!(ace(TcpFlags::ECE | TcpFlags::FIN), 1);
        for number in 0..8 {
            assert_eq!(ace(ace_flags(number)), number);
        }
    }
}
