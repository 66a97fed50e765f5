//! Sizes of responses: log-normal, as those of web objects are, with a largest.

use crate::random::Permutation;

use super::wanted::{Wanted, purpose};

/// Each of the equal shares of the distribution once, in random order, so that a log of any length
/// has the median and the mean that were asked for.
#[derive(Debug)]
pub(super) struct Sizes {
    order: Permutation,
    requests: u64,
    median: f64,
    largest: f64,
    /// Standard deviation of the logarithm.
    sigma: f64,
}

/// The largest size may have so many bytes: its names fill a line of a log.
const LARGEST_MAX: u64 = 1 << 30;
/// Of each end of the distribution, so many sizes are summed up one by one, and in between every
/// so-manieth.
const ENDS: u64 = 20_000;
const STEP: u64 = 128;

impl Sizes {
    pub(super) fn new(wanted: &Wanted) -> Result<Self, (String, &'static str)> {
        let (median, mean) = (wanted.median_bytes, wanted.mean_bytes);
        if wanted.largest_bytes > LARGEST_MAX {
            let cause = format!("responses of {} bytes", wanted.largest_bytes);
            return Err((cause, "give at most 1073741824, which is 1 GiB"));
        }
        let largest = wanted.largest_bytes as f64;
        if !(median >= 1.0 && mean >= median && mean <= largest) {
            let cause =
                format!("responses of median {median}, mean {mean} and at most {largest} bytes");
            return Err((
                cause,
                "give a median of 1 or more, and a mean between it and the largest",
            ));
        }
        let mut sizes = Self {
            order: Permutation::new(wanted.requests, wanted.seed, purpose::SIZES),
            requests: wanted.requests,
            median,
            largest,
            sigma: 0.0,
        };
        sizes.sigma = sizes.solve(mean).ok_or_else(|| {
            let cause = format!(
                "{} responses with a median of {median} and a mean of {mean} bytes would be larger than {largest} bytes",
                wanted.requests
            );
            (cause, "ask for more requests, a lower mean or a larger largest")
        })?;
        Ok(sizes)
    }

    /// The size of a transaction's response, bytes.
    pub(super) fn at(&self, number: u64) -> u64 {
        self.ranked(self.order.at(number), self.sigma).round() as u64
    }

    /// The size with so many below it.
    fn ranked(&self, rank: u64, sigma: f64) -> f64 {
        let share = (rank as f64 + 0.5) / self.requests as f64;
        (self.median * (sigma * normal_quantile(share)).exp()).min(self.largest)
    }

    /// The deviation with which the mean is `mean`.
    fn solve(&self, mean: f64) -> Option<f64> {
        let (mut low, mut high) = (0.0, 16.0);
        if self.mean(high) < mean {
            return None;
        }
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if self.mean(middle) < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }

    fn mean(&self, sigma: f64) -> f64 {
        let at = |rank: u64| self.ranked(rank, sigma);
        if self.requests <= 4 * ENDS {
            return (0..self.requests).map(at).sum::<f64>() / self.requests as f64;
        }
        let ends = (0..ENDS).chain(self.requests - ENDS..self.requests);
        let ends: f64 = ends.map(at).sum();
        let middle = ENDS..self.requests - ENDS;
        let count = (middle.end - middle.start) as f64;
        let looked = middle.skip(STEP as usize / 2).step_by(STEP as usize);
        let (sum, number) = looked.fold((0.0, 0.0), |(sum, number), rank| {
            (sum + at(rank), number + 1.0)
        });
        (ends + sum / number * count) / self.requests as f64
    }
}

/// The quantile of the standard normal distribution, by Acklam's rational approximation (relative
/// error below 1.2e-9).
fn normal_quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |share: f64| {
        let q = (-2.0 * share.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if share < 0.024_25 {
        return tail(share);
    }
    if share > 1.0 - 0.024_25 {
        return -tail(1.0 - share);
    }
    let q = share - 0.5;
    let r = q * q;
    polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (share, expected) in [
            (0.5, 0.0),
            (0.841_344_746, 1.0),
            (0.975, 1.959_963_985),
            (0.999, 3.090_232_306),
            (0.01, -2.326_347_874),
            (1e-9, -5.997_807_015),
        ] {
            let found = normal_quantile(share);
            assert!((found - expected).abs() < 1e-7, "{share}: {found}");
        }
    }
}
