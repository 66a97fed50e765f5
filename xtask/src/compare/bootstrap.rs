//! Medians of two programs that ran in turn, and how sure their ratio is.

/// Samples that are drawn anew.
const DRAWS: usize = 10_000;
/// Of these, the share on either side of the interval: it holds the ratio in 95% of all cases.
const TAIL: f64 = 0.025;
/// The same figures give the same bounds.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What two programs have of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the first.
    pub before: f64,
    /// Median of the second.
    pub after: f64,
    /// `after / before`.
    pub ratio: f64,
    /// Lower bound of the ratio.
    pub low: f64,
    /// Upper bound of the ratio.
    pub high: f64,
}

/// The ratio of the medians of `rounds`, each a figure before and one after, with bounds from the
/// bootstrap (B. Efron, The Annals of Statistics 7(1), 1979). Rounds are drawn anew as pairs, since
/// what the machine did meanwhile met both. `None` without rounds.
pub fn estimate(rounds: &[[f64; 2]]) -> Option<Estimate> {
    let [before, after] = medians(rounds.iter().copied())?;
    let mut random = Xorshift(SEED);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .filter_map(|_| medians((0..rounds.len()).filter_map(|_| random.draw(rounds))))
        .map(|[before, after]| after / before)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get(((DRAWS - 1) as f64 * share).round() as usize);
    Some(Estimate {
        before,
        after,
        ratio: after / before,
        low: *at(TAIL)?,
        high: *at(1.0 - TAIL)?,
    })
}

fn medians(rounds: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    let (before, after): (Vec<f64>, Vec<f64>) =
        rounds.map(|[before, after]| (before, after)).unzip();
    Some([median(before)?, median(after)?])
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    match values.get(middle.wrapping_sub(1)) {
        Some(lower) if values.len().is_multiple_of(2) => Some(f64::midpoint(*lower, *upper)),
        _ => Some(*upper),
    }
}

/// Random numbers for drawing samples (G. Marsaglia, Journal of Statistical Software 8(14), 2003).
struct Xorshift(u64);

impl Xorshift {
    fn draw(&mut self, rounds: &[[f64; 2]]) -> Option<[f64; 2]> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let index = (u128::from(self.0) * rounds.len() as u128) >> 64;
        rounds.get(index as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_changes_is_sure() {
        let sure = estimate(&[[100.0, 110.0]; 5]).unwrap();
        assert_eq!((sure.before, sure.after), (100.0, 110.0));
        assert_eq!((sure.ratio, sure.low, sure.high), (1.1, 1.1, 1.1));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    /// Of 200 comparisons of a program with itself, all but some 10 have 1 between their bounds.
    #[test]
    fn the_bounds_hold_the_ratio_as_often_as_they_say() {
        let mut random = Xorshift(1);
        let mut value = || {
            let uniform: Vec<[f64; 2]> = (0..1000).map(|i| [f64::from(i), 0.0]).collect();
            900.0 + random.draw(&uniform).unwrap()[0] / 5.0
        };
        let held = (0..200).filter(|_| {
            let rounds: Vec<[f64; 2]> = (0..31).map(|_| [value(), value()]).collect();
            let estimate = estimate_of(&rounds);
            estimate.low <= 1.0 && 1.0 <= estimate.high
        });
        let held = held.count();
        assert!((180..=200).contains(&held), "{held}");
    }

    #[test]
    fn a_loss_of_a_tenth_is_seen_through_noise_of_as_much() {
        let noise = [0.95, 1.0, 1.05, 0.97, 1.02, 0.99, 1.04];
        let rounds: Vec<[f64; 2]> = (0..31)
            .map(|i| [1000.0 * noise[i % 7], 900.0 * noise[(i * 3 + 1) % 7]])
            .collect();
        let estimate = estimate_of(&rounds);
        assert!(estimate.high < 0.97, "{estimate:?}");
        assert!(estimate.low > 0.8, "{estimate:?}");
    }

    fn estimate_of(rounds: &[[f64; 2]]) -> Estimate {
        estimate(rounds).unwrap()
    }
}
