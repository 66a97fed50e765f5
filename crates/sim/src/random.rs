//! Choices.

use wire::impair::Rng;

/// One of `choices`; `None` if there are none.
pub fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> Option<T> {
    choices
        .get(rng.below(choices.len() as u64) as usize)
        .copied()
}

/// True in `percent` of 100 cases.
pub fn percent(rng: &mut Rng, percent: u32) -> bool {
    rng.chance_ppm(percent.saturating_mul(10_000))
}

/// A number from `low` to `high` whose order of magnitude is what is evenly distributed: small ones
/// are as frequent as large ones.
pub fn magnitude(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let bits = |n: u64| u64::from(64 - n.max(1).leading_zeros());
    let top = rng.between(bits(low), bits(high));
    let ceiling = 1u64.checked_shl(top as u32).map_or(u64::MAX, |n| n - 1);
    rng.between(low, ceiling.min(high).max(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_stay_in_bounds_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let mut small = 0;
        for _ in 0..1000 {
            let n = magnitude(&mut rng, 3, 1 << 20);
            assert!((3..=1 << 20).contains(&n));
            small += u32::from(n < 64);
        }
        assert!((100..600).contains(&small), "{small}");
        assert_eq!(magnitude(&mut rng, 7, 7), 7);
        assert_eq!(magnitude(&mut rng, 0, 0), 0);
    }

    #[test]
    fn nothing_is_picked_from_nothing() {
        let mut rng = Rng::new(1);
        assert_eq!(pick::<u8>(&mut rng, &[]), None);
        assert_eq!(pick(&mut rng, &[4]), Some(4));
        assert!(percent(&mut rng, 100) && !percent(&mut rng, 0));
    }
}
