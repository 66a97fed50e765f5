//! Loss in bursts: the model of Gilbert and Elliott, a network that is good or bad for a while.

use wire::impair::Rng;

/// How often and for how long the network is bad. Parts per million, decided frame by frame;
/// nothing by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BurstLoss {
    /// Probability that a good network turns bad.
    pub enter_ppm: u32,
    /// Probability that a bad one turns good: a burst is 1,000,000 / `leave_ppm` frames long on
    /// average.
    pub leave_ppm: u32,
    /// Probability that a bad network loses a frame.
    pub loss_ppm: u32,
}

/// Whether the network is bad now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    is_bad: bool,
}

impl Burst {
    /// Whether the next frame is lost. Draws nothing for a network that never is bad, so that other
    /// decisions do not shift.
    pub fn loses(&mut self, config: &BurstLoss, rng: &mut Rng) -> bool {
        if config.enter_ppm == 0 {
            self.is_bad = false;
            return false;
        }
        let turns = if self.is_bad {
            config.leave_ppm
        } else {
            config.enter_ppm
        };
        self.is_bad ^= rng.chance_ppm(turns);
        self.is_bad && rng.chance_ppm(config.loss_ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the long run the network is bad for enter / (enter + leave) of the frames, in runs of 1 /
    /// leave.
    #[test]
    fn bursts_are_as_frequent_and_long_as_configured() {
        let config = BurstLoss {
            enter_ppm: 10_000,
            leave_ppm: 100_000,
            loss_ppm: 1_000_000,
        };
        let (mut burst, mut rng) = (Burst::default(), Rng::new(1));
        let lost: Vec<_> = (0..1_000_000)
            .map(|_| burst.loses(&config, &mut rng))
            .collect();
        let total = lost.iter().filter(|lost| **lost).count();
        let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let (share, length) = (total as f64 / 1e6, total as f64 / runs as f64);
        assert!((share - 1.0 / 11.0).abs() < 0.005, "{share}");
        assert!((length - 10.0).abs() < 0.5, "{length}");
    }

    #[test]
    fn a_good_network_loses_nothing_and_draws_nothing() {
        let (mut burst, mut rng) = (Burst::default(), Rng::new(1));
        assert!((0..1000).all(|_| !burst.loses(&BurstLoss::default(), &mut rng)));
        assert_eq!(rng, Rng::new(1));
    }
}
