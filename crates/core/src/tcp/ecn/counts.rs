//! Accurate ECN (RFC 9768): the receiver counts segments and bytes that met congestion, the sender
//! takes the difference of two reports.

use wire::ip::Ecn;
use wire::tcp::EcnBytes;

use crate::info::EcnInfo;

/// RFC 9768 §3.2.1: counters do not start at 0, so that something that clears the bits is found
/// out.
const FIRST_CEP: u8 = 5;
const FIRST_ECT_BYTES: u32 = 1;

/// The counters of both halves of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counts {
    /// r.cep: segments that arrived with CE, as much of it as the ACE field needs.
    cep: u8,
    /// r.ceb, r.e0b and r.e1b: payload bytes that arrived with CE, ECT(0) and ECT(1).
    ce: u32,
    ect0: u32,
    ect1: u32,
    /// Segments that arrived with CE since anything was sent.
    unreported: u8,
    /// The byte counters have changed since they were last sent.
    news: bool,
    /// The option passes: the peer sent one, and gets ours.
    pub option: bool,
    /// How the SYN-ACK arrived; the first pure ACK says so.
    pub handshake: Option<Ecn>,
    /// The last ACE field of the peer.
    peer_ace: u8,
    /// What the peer says counts for nothing.
    is_ignored: bool,
    /// s.ceb, as last reported.
    reported: u32,
}

impl Default for Counts {
    /// RFC 9768 §3.2.1-1.
    fn default() -> Self {
        Self {
            cep: FIRST_CEP,
            ce: 0,
            ect0: FIRST_ECT_BYTES,
            ect1: FIRST_ECT_BYTES,
            unreported: 0,
            news: false,
            option: false,
            handshake: None,
            peer_ace: FIRST_CEP,
            is_ignored: false,
            reported: 0,
        }
    }
}

impl Counts {
    /// The client's side of the handshake. A marked SYN-ACK counts, and its ACK says that it does
    /// (RFC 9768 table 3).
    pub fn on_syn_ack(&mut self, arrived: Ecn, option: Option<EcnBytes>) {
        self.cep += u8::from(arrived == Ecn::Ce);
        self.handshake = Some(arrived);
        self.option = option.is_some();
        self.news = self.option;
    }

    /// The server's side: the client has counted our SYN-ACK or has not, if it counts at all.
    pub fn start(&mut self, syn_ack_was_marked: bool, peer_counts: bool) {
        self.peer_ace = FIRST_CEP + u8::from(syn_ack_was_marked);
        self.is_ignored = !peer_counts;
    }

    /// A segment with `len` bytes of payload arrived (RFC 9768 §3.2.2.2, §3.2.3.1).
    /// RFC 9768 §3.2.2.2-1.
    pub fn count(&mut self, codepoint: Ecn, len: u32) {
        let bytes = match codepoint {
            Ecn::NotEct => return,
            Ecn::Ect0 => &mut self.ect0,
            Ecn::Ect1 => &mut self.ect1,
            Ecn::Ce => {
                self.cep = self.cep.wrapping_add(1);
                self.unreported = self.unreported.saturating_add(1);
                &mut self.ce
            }
        };
        *bytes = bytes.wrapping_add(len);
        self.news |= len > 0;
    }

    /// Whether marks on segments that need no ACK want one by now: RFC 9768 §3.2.2.5.1, with an n
    /// of 3.
    pub fn is_ack_due(&self) -> bool {
        self.unreported >= 3
    }

    /// The ACE field to send.
    pub fn ace(&self) -> u8 {
        self.cep & 7
    }

    /// The ACE field that the peer sends as long as it has nothing to report.
    pub fn peer_ace(&self) -> u8 {
        self.peer_ace & 7
    }

    /// The option to send. RFC 9768 §3.2.3.3: whenever a counter has changed, which is at least
    /// with every ACK of ECN-capable data.
    pub fn option(&self) -> Option<EcnBytes> {
        (self.option && self.news).then(|| self.bytes())
    }

    /// All byte counters. What is in use comes first.
    pub fn bytes(&self) -> EcnBytes {
        let ect1_first = self.ect1 > FIRST_ECT_BYTES && self.ect0 == FIRST_ECT_BYTES;
        EcnBytes::new(self.ect0, self.ce, self.ect1, ect1_first)
    }

    pub fn info(&self) -> EcnInfo {
        EcnInfo {
            option_seen: self.option,
            delivered_ce: self.reported,
            received_ce: self.ce,
            received_ect0: self.ect0.wrapping_sub(FIRST_ECT_BYTES),
            received_ect1: self.ect1.wrapping_sub(FIRST_ECT_BYTES),
            ..EcnInfo::default()
        }
    }

    /// The field was sent, and the option, if there was any to send.
    pub fn on_sent(&mut self) {
        self.unreported = 0;
        self.news = false;
    }

    /// The peer's report, with an ACK for `acked` bytes in segments of `mss`: how many bytes it
    /// says met congestion since the last.
    ///
    /// Without the option, one ACK for more than seven segments may hide a round of the ACE field.
    /// RFC 9768 §3.2.2.5.2 has the sender assume what is safest but likely: so many marks in one
    /// ACK are likely while the path is `congested`. RFC 9768 §3.2.2.5.2-1, §3.2.3.2.5-1.
    pub fn take_report(
        &mut self,
        ace: u8,
        option: Option<EcnBytes>,
        acked: u32,
        mss: u32,
        congested: bool,
    ) -> u32 {
        let delta = u32::from(ace.wrapping_sub(self.peer_ace) & 7);
        self.peer_ace = ace;
        if self.is_ignored {
            return 0;
        }
        if let Some(ce) = option.and_then(|option| option.ce()) {
            return self.take_bytes(ce);
        }
        let segments = acked.div_ceil(mss);
        let marked = if segments > 7 && congested {
            segments - (segments.wrapping_sub(delta) & 7)
        } else {
            delta
        };
        marked.saturating_mul(mss)
    }

    /// RFC 9768 §3.2.3-1.
    fn take_bytes(&mut self, ce: u32) -> u32 {
        let delta = ce.wrapping_sub(self.reported) % EcnBytes::MODULUS;
        if delta >= EcnBytes::MODULUS / 2 {
            return 0; // from an ACK that was overtaken
        }
        self.reported = ce;
        delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn ace_only(counts: &mut Counts, ace: u8, segments: u32, congested: bool) -> u32 {
        counts.take_report(ace, None, segments * MSS, MSS, congested) / MSS
    }

    fn with_bytes(counts: &mut Counts, ace: u8, ce: u32) -> u32 {
        let option = EcnBytes::new(1, ce, 1, false);
        counts.take_report(ace, Some(option), 10 * MSS, MSS, false)
    }

    #[test]
    fn the_difference_of_two_fields_is_what_was_marked() {
        let mut counts = Counts::default();
        assert_eq!(ace_only(&mut counts, 5, 2, false), 0);
        assert_eq!(ace_only(&mut counts, 7, 2, false), 2);
        assert_eq!(ace_only(&mut counts, 1, 2, false), 2);
        assert_eq!(ace_only(&mut counts, 1, 2, true), 0);
    }

    /// RFC 9768 §3.2.2.5.2-1.
    #[test]
    fn a_long_ack_on_a_congested_path_may_hide_a_round() {
        // Ten segments and no visible change: eight may have been marked. Ten and one: nine.
        assert_eq!(ace_only(&mut Counts::default(), 5, 10, true), 8);
        assert_eq!(ace_only(&mut Counts::default(), 6, 10, true), 9);
        assert_eq!(ace_only(&mut Counts::default(), 5, 10, false), 0);
        assert_eq!(ace_only(&mut Counts::default(), 5, 7, true), 0);
    }

    /// RFC 9768 §3.2.3.2.5-1.
    #[test]
    fn bytes_are_exact_however_the_field_goes_round() {
        let mut counts = Counts::default();
        assert_eq!(with_bytes(&mut counts, 5, 8 * MSS), 8 * MSS);
        assert_eq!(with_bytes(&mut counts, 6, 9 * MSS), MSS);
        // An ACK that was overtaken.
        assert_eq!(with_bytes(&mut counts, 6, 8 * MSS), 0);
        assert_eq!(with_bytes(&mut counts, 6, 9 * MSS), 0);
    }

    #[test]
    fn bytes_wrap_at_24_bits() {
        let mut counts = Counts::default();
        assert_eq!(with_bytes(&mut counts, 5, 8_000_000), 8_000_000);
        assert_eq!(with_bytes(&mut counts, 5, 16_000_000), 8_000_000);
        assert_eq!(
            with_bytes(&mut counts, 5, 1000),
            (1 << 24) - 16_000_000 + 1000
        );
    }

    #[test]
    fn what_arrives_is_counted_by_codepoint() {
        let mut counts = Counts {
            option: true,
            ..Counts::default()
        };
        assert_eq!((counts.ace(), counts.option()), (5, None));
        counts.count(Ecn::NotEct, 100);
        assert_eq!(counts.option(), None);
        counts.count(Ecn::Ect0, 100);
        counts.count(Ecn::Ce, 10);
        counts.count(Ecn::Ce, 0);
        assert_eq!(counts.ace(), 7);
        assert_eq!(counts.option(), Some(EcnBytes::new(101, 10, 1, false)));
        counts.on_sent();
        assert_eq!(counts.option(), None);
    }

    #[test]
    fn the_counter_in_use_comes_first() {
        let mut counts = Counts::default();
        counts.count(Ecn::Ect1, 100);
        assert_eq!(counts.bytes(), EcnBytes::new(1, 0, 101, true));
    }
}
