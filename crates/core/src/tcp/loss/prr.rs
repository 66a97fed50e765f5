//! Proportional rate reduction (RFC 9937): how much may be sent for what each ACK of a fast
//! recovery delivers. The flight falls smoothly to `ssthresh`. If losses took it further, it comes
//! back to `ssthresh` no faster than in slow start.

/// What is known of a recovery (RFC 9937 §6), bytes. All zeros: the window is not reduced this way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Prr {
    /// RecoverFS: outstanding and not SACKed when the recovery began.
    pub(super) recover_fs: u32,
    /// prr_delivered.
    delivered: u32,
    /// prr_out.
    out: u32,
}

/// What an ACK during recovery says, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// DeliveredData: newly acknowledged, cumulatively or selectively.
    pub delivered: u32,
    /// What is still thought to be in the network.
    pub inflight: u32,
    pub ssthresh: u32,
    pub mss: u32,
    /// SafeACK: SND.UNA advanced, and no further loss was found.
    pub safe: bool,
}

impl Prr {
    pub fn new(recover_fs: u32) -> Self {
        Self {
            recover_fs,
            ..Self::default()
        }
    }

    pub fn is_active(&self) -> bool {
        self.recover_fs > 0
    }

    pub fn on_sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// sndcnt: bytes that may be sent now.
    /// RFC 9937 §6.2-2.
    pub fn on_ack(&mut self, ack: &Delivery) -> u32 {
        self.delivered = self.delivered.saturating_add(ack.delivered);
        if ack.inflight > ack.ssthresh {
            return self.proportional(ack);
        }
        // Slow start reduction bound, or the conservative one while losses go on.
        let ahead = self.delivered.saturating_sub(self.out);
        let mut sndcnt = ahead.max(ack.delivered);
        if ack.safe {
            sndcnt = sndcnt.saturating_add(ack.mss);
        }
        sndcnt.min(ack.ssthresh - ack.inflight)
    }

    /// CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out, the ceiling in whole segments: less
    /// cannot be sent.
    /// RFC 9937 §6.2-1.
    fn proportional(&self, ack: &Delivery) -> u32 {
        let product = u64::from(self.delivered) * u64::from(ack.ssthresh);
        let share = product.div_ceil(u64::from(self.recover_fs.max(1)));
        let share = share.next_multiple_of(u64::from(ack.mss.max(1)));
        u32::try_from(share)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    /// What each of the ACKs `first..=last` of a flight of 20 segments lets go, the first `lost` of
    /// which are lost, with ssthresh 10 and two segments of limited transmit (RFC 6937 §4, the
    /// examples).
    fn sent(lost: u32, acks: std::ops::RangeInclusive<u32>) -> Vec<u32> {
        let mut prr = Prr::new(20 * MSS);
        let mut pipe = (22 - lost - (acks.start() - 1)) * MSS;
        let mut segments = Vec::new();
        for _ in acks {
            pipe -= MSS;
            let mut sndcnt = prr.on_ack(&Delivery {
                delivered: MSS,
                inflight: pipe,
                ssthresh: 10 * MSS,
                mss: MSS,
                safe: false,
            });
            if prr.out == 0 {
                sndcnt = sndcnt.max(MSS);
            }
            let n = sndcnt / MSS;
            prr.on_sent(n * MSS);
            pipe += n * MSS;
            segments.push(n);
        }
        segments
    }

    /// RFC 9937 §6.2-1.
    #[test]
    fn one_segment_for_two_acks_when_one_is_lost() {
        // The first figure of RFC 6937 §4: R for ACK 3, then N for every second one.
        let expected = [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0];
        assert_eq!(sent(1, 3..=18), expected);
    }

    /// RFC 9937 §6.2-2.
    #[test]
    fn packet_conservation_when_too_much_is_lost() {
        // The second figure: 15 lost, four left to deliver anything: one for one, below ssthresh.
        assert_eq!(sent(15, 3..=6), [1, 1, 1, 1]);
    }

    /// RFC 9937 §6.2-2.
    #[test]
    fn an_ack_that_shows_no_more_loss_lets_one_more_go() {
        let mut prr = Prr::new(20 * MSS);
        let mut ack = Delivery {
            delivered: MSS,
            inflight: 2 * MSS,
            ssthresh: 10 * MSS,
            mss: MSS,
            safe: false,
        };
        assert_eq!(prr.on_ack(&ack), MSS);
        prr.on_sent(MSS);
        ack.safe = true;
        assert_eq!(prr.on_ack(&ack), 2 * MSS);
        // Not beyond ssthresh.
        ack.inflight = 10 * MSS - 1;
        assert_eq!(prr.on_ack(&ack), 1);
    }

    proptest! {
        /// Above ssthresh no more is ever sent than the share of what was delivered, rounded up to
        /// a segment.
        #[test]
        fn nothing_overflows(
            fs in 1u32..,
            acks in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), 1u32..65_536, any::<bool>()), 1..50),
        ) {
            let mut prr = Prr::new(fs);
            for (delivered, inflight, ssthresh, mss, safe) in acks {
                let sndcnt = prr.on_ack(&Delivery { delivered, inflight, ssthresh, mss, safe });
                if inflight <= ssthresh {
                    prop_assert!(sndcnt <= ssthresh - inflight);
                } else {
                    let share = u64::from(prr.delivered) * u64::from(ssthresh) / u64::from(fs) + u64::from(mss) + 1;
                    prop_assert!(u64::from(sndcnt) <= share);
                }
                prr.on_sent(sndcnt);
            }
        }
    }
}
