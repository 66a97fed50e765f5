//! How long memory takes that is not in a processor's own cache. On a shared machine others may
//! have most of the cache that all share; that shows neither in a loop that only computes nor in
//! time that others take.

use std::hint::black_box;
use std::time::Instant;

use crate::machine;

/// Bytes followed through: more than the own cache of most processors, less than what they share.
const BYTES: usize = 8 << 20;

/// A cache line that says which is next.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line(u32);

/// Nanoseconds that each of many loads takes, of which each waits for the one before; `None` if
/// there is no running on `core`.
pub(super) fn load_ns(core: usize) -> Option<f64> {
    machine::on(core, || {
        let lines = circle(BYTES / size_of::<Line>());
        let start = Instant::now();
        black_box(follow(&lines, lines.len()));
        start.elapsed().as_nanos() as f64 / lines.len() as f64
    })
}

/// So many lines, each of which leads to another, in an order that no prefetcher guesses, until all
/// have been seen.
fn circle(count: usize) -> Vec<Line> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = 1_u64;
    // Where the walk begins stays first.
    for end in (2..count).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(end, 1 + (state >> 33) as usize % end);
    }
    let mut lines = vec![Line::default(); count];
    for (&line, &next) in order.iter().zip(order.iter().cycle().skip(1)) {
        if let Some(line) = lines.get_mut(line as usize) {
            line.0 = next;
        }
    }
    lines
}

/// Where one is after so many steps from the first.
fn follow(lines: &[Line], steps: usize) -> u32 {
    (0..steps).fold(0, |at, _| {
        lines.get(at as usize).copied().unwrap_or_default().0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_every_line_before_it_is_back() {
        for count in [1, 2, 3, 1000] {
            let lines = circle(count);
            let walk: Vec<u32> = (1..=count).map(|steps| follow(&lines, steps)).collect();
            let mut seen = walk.clone();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count as u32), "{walk:?}");
            assert_eq!(walk.last(), Some(&0));
        }
    }

    #[test]
    fn a_load_takes_some_time() {
        let (core, _) = machine::two_cores();
        let ns = load_ns(core).unwrap();
        assert!((0.1..1e6).contains(&ns), "{ns}");
        assert_eq!(load_ns(usize::MAX), None);
    }
}
