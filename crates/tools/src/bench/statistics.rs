//! Medians, spread and fairness.

/// Several measurements of one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(pub(crate) Vec<f64>);

impl Series {
    /// In the middle, or between the two in the middle; NaN if there is none or one of them is no
    /// number.
    pub(crate) fn median(&self) -> f64 {
        if self.0.iter().any(|value| value.is_nan()) {
            return f64::NAN;
        }
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
            (Some(below), Some(above)) if sorted.len().is_multiple_of(2) => {
                f64::midpoint(*below, *above)
            }
            (_, Some(value)) => *value,
            _ => f64::NAN,
        }
    }

    /// The smallest.
    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The largest.
    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// From the smallest to the largest, in percent of the median.
    pub(crate) fn spread_percent(&self) -> f64 {
        (self.max() - self.min()) / self.median() * 100.0
    }

    /// This by `other`, run by run.
    pub(crate) fn ratios(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(ours, theirs)| ours / theirs)
                .collect(),
        )
    }
}

/// Jain's fairness index of `shares`: 1 when all are the same, 1/n when one has everything; `None`
/// when nobody has anything.
pub(crate) fn jain(shares: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let odd = Series(vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.median(), odd.min(), odd.max()), (2.0, 1.0, 3.0));
        assert_eq!(odd.spread_percent(), 100.0);
        assert_eq!(Series(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Series::default().median().is_nan());
        assert!(Series(vec![1.0, f64::NAN, 2.0]).median().is_nan());
        let ratios = odd.ratios(&Series(vec![1.0, 2.0, 4.0]));
        assert_eq!(ratios.0, vec![3.0, 0.5, 0.5]);
    }

    /// R. Jain, D. Chiu and W. Hawe, DEC-TR-301: the index is between 1/n and 1.
    #[test]
    fn fairness_is_between_one_nth_and_one() {
        assert_eq!(jain([5, 5, 5, 5].into_iter()), Some(1.0));
        assert_eq!(jain([7, 0, 0, 0].into_iter()), Some(0.25));
        assert_eq!(jain([0, 0].into_iter()), None);
        assert_eq!(jain(std::iter::empty()), None);
    }
}
