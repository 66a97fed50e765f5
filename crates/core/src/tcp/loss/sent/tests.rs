use super::*;
use crate::tcp::ranges::{RangePool, RangeSet};
use proptest::prelude::*;

fn range(start: u32, end: u32) -> Range {
    Range::new(SeqNumber(start), SeqNumber(end))
}

fn arrival(now: u32) -> Arrival {
    Arrival {
        now,
        min_rtt: 10,
        echo_age: None,
    }
}

fn lost(log: &SentLog) -> Option<(u32, u32)> {
    log.next_lost(log.start(), None)
        .map(|gap| (gap.start.0, gap.end.0))
}

#[test]
fn what_was_sent_before_is_lost() {
    let mut log = SentLog::new(range(0, 100), 1000);
    log.extend(SeqNumber(200), 1100, 0, None);
    log.deliver(range(100, 200), &arrival(1200));
    // 100 µs of round trip: the first was sent 200 µs ago.
    assert!(log.detect(1200, 50, None).lost);
    assert_eq!(lost(&log), Some((0, 100)));
    assert_eq!(log.lost_bytes(), 100);
}

#[test]
fn reordering_is_given_time() {
    let mut log = SentLog::new(range(0, 200), 1000);
    log.deliver(range(100, 200), &arrival(1100));
    let verdict = log.detect(1100, 25, None);
    assert_eq!((verdict.lost, verdict.wait), (false, Some(25)));
    assert!(log.detect(1125, 25, None).lost);
}

#[test]
fn what_was_sent_together_behind_it_is_not_lost() {
    let mut log = SentLog::new(range(0, 300), 1000);
    log.deliver(range(100, 200), &arrival(1100));
    assert!(log.detect(1100, 0, None).lost);
    assert_eq!(lost(&log), Some((0, 200)));
}

#[test]
fn a_retransmission_that_is_lost_is_found() {
    let mut log = SentLog::new(range(0, 200), 1000);
    log.lose(range(0, 100), None);
    log.resend(range(0, 100), 2000, None);
    assert_eq!(lost(&log), None);
    log.extend(SeqNumber(300), 2001, 0, None);
    log.deliver(range(200, 300), &arrival(2101));
    let verdict = log.detect(2101, 0, None);
    assert!(verdict.lost && verdict.resent_lost);
}

#[test]
fn an_old_copy_says_nothing_about_the_new_one() {
    let early = arrival(2005);
    let echo = Arrival {
        echo_age: Some(5000),
        ..arrival(2100)
    };
    for arrival in [early, echo] {
        let mut log = SentLog::new(range(0, 200), 1000);
        log.resend(range(100, 200), 2000, None);
        log.deliver(range(100, 200), &arrival);
        assert_eq!(log.detect(9000, 0, None), Verdict::default());
    }
}

#[test]
fn what_is_lost_and_not_sacked_is_counted() {
    let mut log = SentLog::new(range(0, 640), 0);
    let mut pool = RangePool::new(1, 1).unwrap();
    let mut sacked = RangeSet::default();
    for start in (5..640).step_by(20) {
        pool.insert(&mut sacked, SeqNumber(start), SeqNumber(start + 10), 32)
            .unwrap();
    }
    let sacked = Some(pool.view(&sacked));
    log.lose(range(0, 10), sacked);
    assert_eq!(log.lost_bytes(), 5);
    log.lose(range(100, 200), sacked);
    assert_eq!(log.lost_bytes(), 5 + 50);
    log.resend(range(100, 105), 1, sacked);
    assert_eq!(log.lost_bytes(), 5 + 45);
    log.deliver(range(115, 125), &arrival(20));
    assert_eq!(log.lost_bytes(), 5 + 35);
    log.forgive(30);
    assert_eq!(log.lost_bytes(), 0);
    log.lose_older_than(0, 40, sacked);
    assert_eq!(log.lost_bytes(), 320);
}

/// RFC 8985 §6.2-3: what one ACK reports did not overtake each other.
#[test]
fn one_ack_shows_no_reordering() {
    let mut log = SentLog::new(range(0, 300), 1000);
    assert!(!log.deliver(range(200, 300), &arrival(1100)));
    assert!(!log.deliver(range(100, 200), &arrival(1100)));
    log.detect(1100, 1000, None);
    assert!(log.deliver(range(0, 100), &arrival(1101)));
}

#[test]
fn times_wrap_around() {
    let mut log = SentLog::new(range(u32::MAX - 49, 50), u32::MAX - 100);
    log.extend(SeqNumber(150), 100, 0, None);
    log.deliver(range(50, 150), &arrival(200));
    assert!(log.detect(200, 50, None).lost);
    assert_eq!(lost(&log), Some((u32::MAX - 49, 50)));
}

/// A log of single bytes.
#[derive(Clone, Debug, Default)]
struct Oracle {
    una: u32,
    bytes: Vec<bool>,
}

proptest! {
    /// What is marked as lost is lost and nothing else, unless spans had to be joined: then it may
    /// be less. All bytes are there.
    #[test]
    fn agrees_with_a_log_of_bytes(
        base in any::<u32>(),
        ops in prop::collection::vec((0u8..5, 0u32..400, 1u32..40), 1..400),
    ) {
        let at = |n: u32| SeqNumber(base.wrapping_add(n));
        let between = |from: u32, to: u32| Range::new(at(from), at(to));
        let mut log = SentLog::new(between(0, 1), 0);
        let mut oracle = Oracle { una: 0, bytes: vec![false] };
        let mut joined = false;
        for (now, (kind, offset, len)) in (1u32..).zip(ops) {
            let end = oracle.bytes.len() as u32;
            let from = oracle.una + offset % (end - oracle.una).max(1);
            let to = (from + len).min(end);
            match kind {
                0 | 1 => {
                    log.extend(at(end + len), now * 1000, 0, None);
                    oracle.bytes.resize((end + len) as usize, false);
                }
                2 if from < to => {
                    log.lose(between(from, to), None);
                    oracle.bytes[from as usize..to as usize].fill(true);
                }
                3 if from < to => {
                    log.resend(between(from, to), now * 1000, None);
                    oracle.bytes[from as usize..to as usize].fill(false);
                }
                4 if len < 4 && from < end => {
                    log.deliver(between(oracle.una, from), &arrival(now * 1000));
                    log.trim(at(from));
                    oracle.una = from;
                }
                _ => {}
            }
            prop_assert!(log.spans().len() <= MAX_SPANS);
            prop_assert_eq!(log.end(), at(oracle.bytes.len() as u32));
            joined |= log.spans().len() + 2 > MAX_SPANS;
            let lost = oracle.bytes[oracle.una as usize..].iter().filter(|lost| **lost).count() as u32;
            prop_assert_eq!(log.lost_bytes(), log.count_lost(None));
            prop_assert!(log.lost_bytes() == lost || joined && log.lost_bytes() < lost);
            for pair in log.spans().windows(2) {
                prop_assert!(pair[0].end < pair[1].end);
            }
            let first = oracle.bytes.iter().skip(oracle.una as usize).position(|lost| *lost);
            let found = log.next_lost(log.start(), None).map(|gap| (gap.start - at(oracle.una)) as usize);
            prop_assert!(found == first || joined);
            if kind == 3 && from < to {
                prop_assert!(log.next_lost(log.start(), None).is_none_or(|gap| gap.start >= at(to) || gap.end <= at(from)));
            }
        }
    }
}
