//! Slow start with HyStart++ (RFC 9406): it ends when the round-trip time grows, before the queue
//! overflows.

use super::sample::{AckSample, Window};

/// RFC 9406 §4.3, µs.
const MIN_RTT_THRESH: u32 = 4_000;
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
/// No round-trip time is this long, µs.
const INFINITE: u32 = u32::MAX;

/// Which slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Phase {
    /// The first one of a connection, looking for delay.
    Standard,
    /// Conservative slow start: is it delay that stays? For so many rounds more.
    Conservative { rounds: u8 },
    /// After a loss or a silence `ssthresh` is known: as RFC 5681 has it (RFC 9406 §4.3: initial
    /// slow start only).
    Known,
}

/// The state of RFC 9406 §4.2. Times in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct SlowStart {
    phase: Phase,
    /// RTT samples of the current round.
    samples: u8,
    last_round_min: u32,
    current_round_min: u32,
    css_baseline_min: u32,
}

impl Default for SlowStart {
    fn default() -> Self {
        Self {
            phase: Phase::Standard,
            samples: 0,
            last_round_min: INFINITE,
            current_round_min: INFINITE,
            css_baseline_min: INFINITE,
        }
    }
}

impl SlowStart {
    /// There was a loss, a mark or a silence.
    pub fn end(&mut self) {
        *self = Self {
            phase: Phase::Known,
            ..Self::default()
        };
    }

    /// New data was acknowledged, below `ssthresh`.
    /// RFC 9406 §4.3-1, §4.3-3; RFC 9438 §4.10-2.
    pub fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        if self.phase != Phase::Known {
            self.take_sample(sample);
            self.look_for_delay();
        }
        let more = most_acked(sample);
        let more = match self.phase {
            Phase::Conservative { .. } => more / CSS_GROWTH_DIVISOR,
            _ => more,
        };
        window.cwnd = window.cwnd.saturating_add(more);
        if sample.round_start {
            self.begin_round(window);
        }
    }

    fn take_sample(&mut self, sample: &AckSample) {
        let Some(rtt) = sample.rtt else {
            return;
        };
        self.current_round_min = self.current_round_min.min(rtt);
        self.samples = self.samples.saturating_add(1);
    }

    /// Is the shortest round trip of this round longer than that of the last one, or did it only
    /// seem so? RFC 9406 §4.2-1, §4.2-3.
    fn look_for_delay(&mut self) {
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.phase {
            Phase::Standard if self.is_delayed() => {
                self.css_baseline_min = self.current_round_min;
                self.phase = Phase::Conservative { rounds: CSS_ROUNDS };
            }
            Phase::Conservative { .. } if self.current_round_min < self.css_baseline_min => {
                self.css_baseline_min = INFINITE;
                self.phase = Phase::Standard;
            }
            _ => {}
        }
    }

    /// RFC 9406 §4.3-2.
    fn is_delayed(&self) -> bool {
        let last = self.last_round_min;
        let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        last != INFINITE && self.current_round_min >= last.saturating_add(threshold)
    }

    /// RFC 9406 §4.2-2, §4.3-4.
    fn begin_round(&mut self, window: &mut Window) {
        self.last_round_min = self.current_round_min;
        self.current_round_min = INFINITE;
        self.samples = 0;
        if let Phase::Conservative { rounds } = &mut self.phase {
            *rounds -= 1;
            if *rounds == 0 {
                window.ssthresh = window.cwnd;
                self.phase = Phase::Known;
            }
        }
    }
}

/// Appropriate byte counting (RFC 3465 §2.2): all that is acknowledged, for receivers acknowledge a
/// burst of frames, or a whole flight, with one ACK; after a time-out one segment (RFC 3465 §2.3).
/// RFC 9293 MUST-19; RFC 5681 §3.1-7. RFC 9438 §4.10-1; RFC 9406 §4.2-4, §4.3-5.
fn most_acked(sample: &AckSample) -> u32 {
    if sample.after_timeout {
        sample.acked.min(sample.mss)
    } else {
        sample.acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing;

    const MSS: u32 = 1000;

    struct Flow {
        slow_start: SlowStart,
        window: Window,
    }

    impl Flow {
        fn new() -> Self {
            Self {
                slow_start: SlowStart::default(),
                window: Window {
                    cwnd: 10 * MSS,
                    ssthresh: u32::MAX,
                },
            }
        }

        /// A round of 16 ACKs with these round-trip times, one after the other. How much the window
        /// grew, in segments.
        fn round(&mut self, rtts_ms: &[u32]) -> u32 {
            let before = self.window.cwnd;
            for i in 0..16 {
                let sample = AckSample {
                    acked: MSS,
                    rtt: Some(rtts_ms[i % rtts_ms.len()] * 1000),
                    round_start: i == 15,
                    ..testing::sample()
                };
                self.slow_start.grow(&mut self.window, &sample);
            }
            (self.window.cwnd - before) / MSS
        }

        fn has_left(&self) -> bool {
            self.window.ssthresh < u32::MAX
        }
    }

    /// RFC 9406 §4.2-1, §4.2-2, §4.3-3, §4.3-4; RFC 9438 §4.10-2.
    #[test]
    fn it_slows_down_when_the_delay_grows_and_ends_when_it_stays() {
        let mut flow = Flow::new();
        assert_eq!(flow.round(&[100]), 16);
        // An eighth of 100 ms is 12.5 ms.
        assert_eq!(flow.round(&[112]), 16);
        // The first eight samples find the delay; the other eight and this one count a quarter.
        assert!((9..=11).contains(&flow.round(&[126])));
        for _ in 0..4 {
            assert!(!flow.has_left());
            assert_eq!(flow.round(&[130]), 4);
        }
        assert_eq!(flow.window.ssthresh, flow.window.cwnd);
    }

    #[test]
    fn jitter_does_not_end_it() {
        let mut flow = Flow::new();
        for _ in 0..20 {
            assert_eq!(flow.round(&[160, 100, 180, 140, 190, 120, 200]), 16);
        }
    }

    /// RFC 9406 §4.2-3.
    #[test]
    fn a_delay_that_goes_away_was_none() {
        let mut flow = Flow::new();
        flow.round(&[100]);
        flow.round(&[140]);
        assert!(flow.round(&[100]) > 8);
        assert_eq!(flow.round(&[100]), 16);
        assert!(!flow.has_left());
    }

    #[test]
    fn few_samples_decide_nothing() {
        let mut flow = Flow::new();
        for rtt in [100, 200, 400, 800] {
            for i in 0..7 {
                let sample = AckSample {
                    rtt: Some(rtt * 1000),
                    round_start: i == 6,
                    ..testing::sample()
                };
                flow.slow_start.grow(&mut flow.window, &sample);
            }
        }
        assert_eq!(flow.slow_start.phase, Phase::Standard);
    }

    /// RFC 9406 §4.3-2.
    #[test]
    fn the_threshold_is_bounded() {
        // RFC 9406 §4.3: 4 ms at least, 16 ms at most.
        for (rtt, short, long) in [(1, 4, 5), (400, 415, 416)] {
            let mut flow = Flow::new();
            flow.round(&[rtt]);
            flow.round(&[short]);
            assert_eq!(flow.slow_start.phase, Phase::Standard, "{short}");
            let mut flow = Flow::new();
            flow.round(&[rtt]);
            flow.round(&[long]);
            assert_ne!(flow.slow_start.phase, Phase::Standard, "{long}");
        }
    }

    /// RFC 9406 §4.3-1.
    #[test]
    fn only_the_first_looks_for_delay() {
        let mut flow = Flow::new();
        flow.slow_start.end();
        flow.round(&[100]);
        assert_eq!(flow.round(&[200]), 16);
        assert_eq!(flow.slow_start.phase, Phase::Known);
    }

    /// RFC 9406 §4.3-5.
    #[test]
    fn all_that_an_ack_says_counts_but_one_segment_after_a_timeout() {
        let mut flow = Flow::new();
        let mut sample = AckSample {
            acked: 20 * MSS,
            ..testing::sample()
        };
        flow.slow_start.grow(&mut flow.window, &sample);
        assert_eq!(flow.window.cwnd, 30 * MSS);
        sample.after_timeout = true;
        flow.slow_start.grow(&mut flow.window, &sample);
        assert_eq!(flow.window.cwnd, 31 * MSS);
    }
}
