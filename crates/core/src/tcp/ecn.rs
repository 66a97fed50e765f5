//! Explicit congestion notification (RFC 3168, RFC 8311): what two SYNs agree on, which segments are ECN-capable, how congestion is
//! echoed to the sender, and what the sender does about it. Counting instead of echoing (RFC 9768) is `accurate_ecn`.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use crate::cc::Algorithm;
use crate::config::{Config, EcnUse};
use crate::info::{EcnInfo, State};
use crate::tcp::accurate_ecn::Counts;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::output::{Kind, Plan};
use crate::tcp::segment::Segment;

/// In a SYN what is asked for, in a SYN-ACK what is agreed to, afterwards ECE and CWR, or the ACE field.
const BITS: TcpFlags = TcpFlags::AE.union(TcpFlags::CWR).union(TcpFlags::ECE);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Feedback {
    #[default]
    None,
    /// ECE until CWR (RFC 3168 §6.1.3).
    Classic,
    /// Counters (RFC 9768).
    Accurate,
}

impl Feedback {
    /// What a SYN asks for. Combinations that nobody has a use for yet count as the newest (RFC 9768 §3.1.3).
    /// RFC 9768 §3.1.3-1.
    pub fn asked_by(syn: TcpFlags) -> Self {
        match ace(syn) {
            0b000 => Self::None,
            0b011 => Self::Classic,
            _ => Self::Accurate,
        }
    }

    /// The bits of a SYN that asks for it.
    fn request(self) -> TcpFlags {
        match self {
            Self::None => TcpFlags::empty(),
            Self::Classic => TcpFlags::CWR | TcpFlags::ECE,
            Self::Accurate => BITS,
        }
    }

    /// What both agree on when a SYN that asks for `self` is answered so (RFC 9768 table 2, RFC 3168 §6.1.1).
    /// RFC 3168 §6.1.1-1; RFC 9768 §3.1.1-1, §3.1.2-2, §3.1.3-2.
    fn agreed(self, answer: Answer) -> Self {
        match (self, answer.0) {
            (Self::None, _) | (_, 0b000 | 0b111) => Self::None,
            (_, 0b001) => Self::Classic,
            (Self::Classic, _) => Self::None,
            // With 101, which nobody has a use for yet (§3.1.3).
            (Self::Accurate, _) => Self::Accurate,
        }
    }
}

/// The codes of RFC 9768 tables 2 and 3 for how a SYN or a SYN-ACK arrived.
fn arrival_code(codepoint: Ecn) -> u8 {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Answer(u8);

impl Answer {
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

    /// The answer to a SYN that is repeated, perhaps with other bits. What was agreed on with the first stays; and where counters were, the
    /// latest is the one whose arrival is told. `None`: the two questions exclude each other.
    /// RFC 9768 §3.1.5-1, §3.1.5-2.
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

    /// The same without counters: for handshakes that have no place for the codes of RFC 9768.
    pub fn classic(self) -> Self {
        match self.feedback() {
            Feedback::None => Self::REFUSAL,
            _ => Self::CLASSIC,
        }
    }

    /// Whether it reports a SYN that was sent as `sent` in a way that a network may have caused (RFC 9768 §3.2.2.3): congestion may be
    /// marked on what is ECN-capable, and nothing else may change.
    /// RFC 9768 §3.2.2.3-1.
    fn is_plausible(self, sent: Ecn) -> bool {
        let marked = sent != Ecn::NotEct && self.0 == arrival_code(Ecn::Ce);
        let unchanged = self.0 == arrival_code(sent) || self.0 == RESERVED;
        self.feedback() != Feedback::Accurate || marked || unchanged
    }
}

/// What a connection knows of ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnState {
    pub feedback: Feedback,
    /// What our SYN asks for.
    pub(super) asks: Feedback,
    /// What our SYN-ACK says, if it is the connection that sends it.
    pub(super) answer: Answer,
    /// Nothing speaks against marking our data as ECN-capable.
    pub(super) capable: bool,
    /// Congestion was met, and the sender has not said that it knows (classic); the last segment met congestion (DCTCP.CE of RFC 8257 §3.2).
    echo: bool,
    /// The next new data tells the receiver that the window was reduced.
    cwr_due: bool,
    /// The window was reduced when SND.NXT was this: what was in flight then is no reason to do it again (RFC 3168 §6.1.2).
    reduced: Option<SeqNumber>,
    /// Bytes that met congestion and that congestion control has not heard of.
    marked: u32,
    /// How often in a row congestion was echoed to a window of one segment.
    holds: u8,
    /// Something ECN-capable has come.
    pub(super) seen: bool,
    pub counts: Counts,
}

impl EcnState {
    pub fn new(config: &Config, algorithm: &Algorithm) -> Self {
        let asks =
            config.ecn == EcnUse::On || config.ecn == EcnUse::Passive && algorithm.wants_ecn();
        Self {
            asks: if asks {
                Feedback::Accurate
            } else {
                Feedback::None
            },
            ..Self::default()
        }
    }

    /// The SYN, or its answer, was lost `times` times. RFC 9768 §3.1.4.1: ask once more, then no longer, since it may be the question that
    /// gets lost (RFC 3168 §6.1.1.1).
    /// RFC 3168 §6.1.1.1-1; RFC 9768 §3.1.4.1-1.
    pub fn on_syn_lost(&mut self, times: u8) {
        if times > 1 {
            self.asks = Feedback::None;
        }
    }

    /// Something on the way may answer the question with a RST: the next SYN does not ask (RFC 3168 §6.1.1.1). True if the last one did.
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

    /// A SYN did not ask, or an answer did not say yes, before or after one that did: the peer may not be counting (RFC 9768 §3.1.5).
    /// RFC 9768 §3.1.5-3.
    pub fn mark_nothing(&mut self) {
        self.capable = false;
    }

    /// Bytes of the `acked` ones that met congestion.
    pub fn take_marked(&mut self, acked: u32) -> u32 {
        std::mem::take(&mut self.marked).min(acked)
    }

    /// Whether the window was reduced, and the peer has not acknowledged what was in flight then.
    pub fn is_reduced(&self) -> bool {
        self.reduced.is_some()
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

    /// The SYN-ACK came again, with this codepoint.
    pub fn answer_again(&mut self, arrived: Ecn) {
        if self.feedback == Feedback::Accurate {
            self.counts.handshake = Some(arrived);
        }
    }

    /// Whether the SYN-ACK still has to be answered with an ACK of its own, which says how it arrived (RFC 9768 §3.2.2.1).
    pub fn owes_pure_ack(&self) -> bool {
        self.counts.handshake.is_some()
    }
}

impl Conn<'_> {
    /// The ECN field of a segment that is about to be sent. RFC 3168 §6.1.4, §6.1.5, §6.1.6: data is ECN-capable when it is sent for the
    /// first time; pure ACKs, retransmissions and window probes are not. DCTCP wants everything to be, for its queues drop what is not
    /// (RFC 8257 §3.6).
    /// RFC 3168 §6.1.1-2, §6.1.4-1, §6.1.5-1, §6.1.6-1, §6.1.2-6; RFC 8257 §3.6-1.
    pub fn codepoint(&self, plan: &Plan) -> Ecn {
        let ecn = &self.cold.ecn;
        let agreed = match self.hot.state {
            State::SynSent => ecn.asks != Feedback::None,
            _ => ecn.feedback != Feedback::None && ecn.capable,
        };
        if agreed && (self.is_new_data(plan) || self.cold.loss.congestion.wants_ecn()) {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    fn is_new_data(&self, plan: &Plan) -> bool {
        let is_data = plan.len > 0 && matches!(plan.kind, Kind::New | Kind::TailProbe);
        is_data && plan.seq == self.hot.snd_nxt
    }

    /// The ECN bits of a segment that is about to be sent.
    /// RFC 9768 §3.1.5-5.
    pub fn ecn_flags(&self, plan: &Plan) -> TcpFlags {
        let ecn = &self.cold.ecn;
        match ecn.feedback {
            _ if plan.kind == Kind::Syn => match self.hot.state {
                State::SynSent => ecn.asks.request(),
                _ => ecn.answer.flags(),
            },
            Feedback::None => TcpFlags::empty(),
            Feedback::Classic => {
                let mut flags = TcpFlags::empty();
                flags.set(TcpFlags::ECE, ecn.echo);
                flags.set(TcpFlags::CWR, ecn.cwr_due && self.is_new_data(plan));
                flags
            }
            Feedback::Accurate => ace_flags(match ecn.counts.handshake {
                Some(arrived) if plan.kind == Kind::Ack => arrival_code(arrived),
                _ => ecn.counts.ace(),
            }),
        }
    }

    /// A segment was sent.
    pub fn on_ecn_sent(&mut self, plan: &Plan) {
        let is_new = self.is_new_data(plan);
        let ecn = &mut self.cold.ecn;
        if plan.flags.contains(TcpFlags::ACK) {
            ecn.counts.handshake = None;
        }
        if is_new {
            ecn.cwr_due = false;
        }
    }

    /// The SYN-ACK says what the peer agrees to.
    pub fn agree_on_ecn(&mut self, seg: &Segment<'_>) {
        let sent = if self.cold.loss.congestion.wants_ecn() {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        };
        let answer = Answer(ace(seg.flags));
        let ecn = &mut self.cold.ecn;
        ecn.feedback = ecn.asks.agreed(answer);
        ecn.capable = answer.is_plausible(sent);
        if ecn.feedback == Feedback::Accurate {
            ecn.counts.on_syn_ack(seg.ecn, seg.options.ecn_bytes);
        }
        self.predict_flags();
    }

    /// The ACK that completes a passive handshake. With accurate ECN its bits can be a code of how the SYN-ACK arrived
    /// (RFC 9768 §3.2.2.1, table 3); the result has the counter in their place that the peer goes on from.
    /// RFC 9768 §3.2.2.1-1, §3.2.2.1-2.
    pub fn take_handshake_report<'a>(&mut self, seg: &Segment<'a>) -> Segment<'a> {
        let mut seg = *seg;
        let ecn = &mut self.cold.ecn;
        if ecn.feedback == Feedback::Accurate {
            let is_code = seg.payload.is_empty() && seg.options.sack.is_empty();
            if is_code {
                // 000: the peer does not count after all, or something on the path clears the bits. Then there is no feedback
                // (RFC 9768 §3.2.2.1, note 1).
                let counts = ace(seg.flags) != 0;
                ecn.capable &= counts;
                ecn.counts
                    .start(ace(seg.flags) == arrival_code(Ecn::Ce), counts);
            }
            ecn.counts.option = seg.options.ecn_bytes.is_some();
            seg.flags = seg.flags.difference(BITS) | ace_flags(ecn.counts.peer_ace());
        }
        self.predict_flags();
        seg
    }

    /// The flags that the next segment has if nothing is unusual about it. After a reduction nothing is usual for a window.
    fn predict_flags(&mut self) {
        let ecn = &self.cold.ecn;
        self.hot.predicted = match ecn.feedback {
            _ if ecn.reduced.is_some() => TcpFlags::empty(),
            Feedback::Accurate => TcpFlags::ACK | ace_flags(ecn.counts.peer_ace()),
            _ => TcpFlags::ACK,
        };
    }

    /// The receiver's half: an acceptable segment arrived (RFC 3168 §6.1.5: what is outside of the window says nothing; RFC 9768 §1.3: nor
    /// does what RFC 5961 refuses).
    /// RFC 3168 §6.1.5-2.
    pub fn receive_marks(&mut self, now: Instant, seg: &Segment<'_>) {
        self.sh.counters.congestion_marks_in += u64::from(seg.ecn == Ecn::Ce);
        let ecn = &mut self.cold.ecn;
        ecn.seen |= ecn.feedback != Feedback::None && seg.ecn != Ecn::NotEct;
        match self.cold.ecn.feedback {
            Feedback::None => {}
            Feedback::Classic if self.cold.loss.congestion.wants_ecn() => {
                self.echo_exactly(now, seg)
            }
            Feedback::Classic => self.echo_until_known(seg),
            Feedback::Accurate => {
                let counts = &mut self.cold.ecn.counts;
                counts.count(seg.ecn, seg.payload_len());
                // RFC 9768 §3.2.2.5.1-1, §3.2.2.5.1-2.
                // RFC 9768 §3.2.2.5.1: before the counter can have gone round.
                if seg.ecn == Ecn::Ce && (!seg.payload.is_empty() || counts.is_ack_due()) {
                    self.mark_ack();
                }
            }
        }
    }

    /// RFC 3168 §6.1.3: ECE in every ACK from the first mark until CWR comes.
    /// RFC 3168 §6.1.3-1, §6.1.6-2.
    fn echo_until_known(&mut self, seg: &Segment<'_>) {
        if seg.payload.is_empty() {
            return;
        }
        if seg.has(TcpFlags::CWR) {
            self.cold.ecn.echo = false;
            // The sender's window may be down to this one segment.
            self.mark_ack();
        }
        if seg.ecn == Ecn::Ce {
            self.cold.ecn.echo = true;
            self.mark_ack();
        }
    }

    /// RFC 8257 §3.2: each ACK says whether what it acknowledges met congestion, so what came before a change is acknowledged before it,
    /// and the change at once.
    /// RFC 8257 §3.2-1, §3.2-2.
    fn echo_exactly(&mut self, now: Instant, seg: &Segment<'_>) {
        let met = seg.ecn == Ecn::Ce;
        if seg.payload.is_empty() || met == self.cold.ecn.echo {
            return;
        }
        if self.hot.last_ack_sent != self.hot.rcv_nxt && !self.has_withheld_ack() {
            let plan = self.plan_ack();
            let mut header = TcpHeader::default();
            self.fill_header(now, &plan, &mut header);
            self.sh.send_bare(self.key, &header);
            self.hot.last_ack_sent = self.hot.rcv_nxt;
        }
        self.cold.ecn.echo = met;
        self.mark_ack();
    }

    /// The sender's half: what an acceptable ACK says of our data. `sacked`: it reports data that it does not acknowledge.
    pub fn process_ecn(&mut self, now: Instant, seg: &Segment<'_>, sacked: bool) {
        let acked = if seg.ack > self.hot.snd_una {
            seg.ack - self.hot.snd_una
        } else {
            0
        };
        let met = match self.cold.ecn.feedback {
            Feedback::None => return,
            Feedback::Classic => seg.has(TcpFlags::ECE).then_some(acked),
            // An ACK that was overtaken has old counters (RFC 9768 §3.2.2.5.2).
            Feedback::Accurate if acked == 0 && !sacked => None,
            Feedback::Accurate => self.newly_marked(seg, acked),
        };
        self.end_reduction(seg.ack);
        if let Some(bytes) = met {
            self.cold.ecn.marked = self.cold.ecn.marked.saturating_add(bytes);
            self.react_to_marks(now);
        } else if acked > 0 {
            self.cold.ecn.holds = 0;
        }
        self.predict_flags();
    }

    fn newly_marked(&mut self, seg: &Segment<'_>, acked: u32) -> Option<u32> {
        let mss = u32::from(self.hot.loss.mss);
        let ecn = &mut self.cold.ecn;
        let congested = ecn.reduced.is_some();
        let option = seg.options.ecn_bytes;
        let bytes = ecn
            .counts
            .take_report(ace(seg.flags), option, acked, mss, congested);
        (bytes > 0).then_some(bytes)
    }

    /// What was in flight at the reduction is acknowledged. The classic echo goes on until the segment behind it, which carried CWR, is.
    fn end_reduction(&mut self, ack: SeqNumber) {
        let ecn = &mut self.cold.ecn;
        let classic = ecn.feedback == Feedback::Classic;
        if ecn
            .reduced
            .is_some_and(|end| ack > end || ack == end && !classic)
        {
            ecn.reduced = None;
        }
    }

    /// RFC 3168 §6.1.2: as if a segment had been lost, but at most once per window, and not on top of a loss.
    /// RFC 3168 §6.1.2-1, §6.1.2-2; RFC 9293 SHLD-8.
    fn react_to_marks(&mut self, now: Instant) {
        if self.cold.ecn.reduced.is_some()
            || self.has(Flags::RECOVERY | Flags::LOSS)
            || self.hot.flight() == 0
        {
            return;
        }
        let flight = self.hot.flight();
        let is_least = self.loss().congestion().on_marks(flight);
        self.sh.counters.congestion_marks_obeyed += 1;
        self.note_reduction();
        if is_least {
            self.hold_back(now);
        }
    }

    /// A window of one segment cannot shrink: the rate does. The next segment waits for as long as the retransmission timer would, twice as
    /// long each time in a row.
    /// RFC 3168 §6.1.2-4; RFC 9438 §4.6-5.
    fn hold_back(&mut self, now: Instant) {
        let ecn = &mut self.cold.ecn;
        let wait = self
            .hot
            .loss
            .rtt
            .backed_off(ecn.holds, self.sh.config.rto_max);
        ecn.holds = ecn.holds.saturating_add(1);
        self.cold.loss.pacing.hold_until(now + wait);
    }

    /// The window was reduced, for whatever reason: the receiver is to know (RFC 3168 §6.1.2).
    /// RFC 3168 §6.1.2-3.
    pub fn note_reduction(&mut self) {
        if self.cold.ecn.feedback != Feedback::None {
            self.cold.ecn.reduced = Some(self.hot.snd_nxt);
            self.cold.ecn.cwr_due = true;
            self.predict_flags();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768 table 2, from the client's side: what it asked for, what the SYN-ACK says, what follows.
    /// RFC 9768 §3.1.1-1, §3.1.2-2, §3.1.3-2.
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
