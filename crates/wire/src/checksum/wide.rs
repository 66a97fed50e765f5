//! The sum of many bytes, with the widest registers of this processor that pay.
#![allow(unsafe_code)] // A function for processors that have more is called once it is known that this one has.

/// Bytes per step.
pub(super) const STEP: usize = 64;
/// From so many steps on, the wider registers gain more than it costs to ask for them.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 4;

/// The native-endian sum of whole steps. A lane overflows after 2^31 of them, which no slice of
/// packets reaches.
#[inline]
pub(super) fn sum(steps: &[[u8; STEP]]) -> u64 {
    // The standard library asks the processor once.
    #[cfg(target_arch = "x86_64")]
    if steps.len() >= MANY && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has AVX2.
        return unsafe { sum_avx2(steps) };
    }
    sum_lanes(steps)
}

/// [`sum_lanes`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(steps: &[[u8; STEP]]) -> u64 {
    sum_lanes(steps)
}

/// Eight independent lanes, which the compiler puts into vector registers.
#[inline(always)]
fn sum_lanes(steps: &[[u8; STEP]]) -> u64 {
    let mut lanes = [0u64; 8];
    for step in steps {
        let (words, _) = step.as_chunks::<4>();
        let (first, second) = words.split_at(8);
        for (lane, (a, b)) in lanes.iter_mut().zip(first.iter().zip(second)) {
            *lane += u64::from(u32::from_ne_bytes(*a)) + u64::from(u32::from_ne_bytes(*b));
        }
    }
    lanes
        .iter()
        .map(|lane| (lane >> 32) + (lane & 0xffff_ffff))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever was picked has the same sum.
    #[test]
    fn wide_registers_sum_the_same() {
        let steps: Vec<[u8; STEP]> = (0..40u32)
            .map(|step| std::array::from_fn(|byte| (step * 151 + byte as u32 * 37) as u8))
            .chain([[0xff; STEP]; 3])
            .collect();
        for count in 0..=steps.len() {
            let steps = steps.get(..count).unwrap();
            assert_eq!(sum(steps), sum_lanes(steps), "{count} steps");
        }
    }
}
