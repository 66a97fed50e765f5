//! Two stacks exchange data over links of all kinds.

use std::time::Duration;

use crate::command::{Command, Options};
use crate::config::CongestionControl;
use crate::id::ConnId;
use crate::testing::{Fate, Pair};

const MS: Duration = Duration::from_millis(1);

fn pass(_: usize, _: &[u8]) -> Fate {
    Fate::Pass
}

/// A deterministic coin: true in `percent` of a hundred.
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, percent: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % 100 < percent
    }
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Sends `total` bytes from end 0 to end 1, closes both, and returns how long it took.
pub(super) fn transfer(
    pair: &mut Pair,
    total: usize,
    mut fate: impl FnMut(usize, &[u8]) -> Fate,
) -> Duration {
    let (client, server) = pair.connect(Options::default(), &mut fate);
    let start = pair.now;
    let (mut written, mut read) = (0, 0);
    let mut finished = None;
    for _ in 0..200_000 {
        written += write_some(pair, client, written, total);
        read += read_some(pair, server, read);
        pair.run(MS, &mut fate);
        if read == total {
            finished = Some(pair.now);
            break;
        }
    }
    let finished =
        finished.unwrap_or_else(|| panic!("{read} of {total} bytes after {:?}", pair.now));
    close_both(pair, client, server, &mut fate);
    finished - start
}

fn write_some(pair: &mut Pair, conn: ConnId, from: usize, total: usize) -> usize {
    let room = pair.ends[0].app.writable(conn.slot) as usize;
    let bytes: Vec<u8> = (from..total.min(from + room)).map(byte).collect();
    let n = pair.ends[0].app.write(conn.slot, &bytes);
    if n > 0 {
        let _ = pair.ends[0]
            .stack
            .execute(pair.now, Command::Send(conn))
            .unwrap();
    }
    n
}

fn read_some(pair: &mut Pair, conn: ConnId, from: usize) -> usize {
    let end = &mut pair.ends[1];
    let mut bytes = vec![0; end.app.readable(conn.slot) as usize];
    let n = end.app.read(conn.slot, &mut bytes);
    assert!(
        (from..).zip(&bytes).all(|(at, b)| *b == byte(at)),
        "bytes differ"
    );
    if end.app.window_update_due(conn.slot) {
        end.stack
            .execute(pair.now, Command::Received(conn))
            .unwrap();
    }
    n
}

fn close_both(
    pair: &mut Pair,
    client: ConnId,
    server: ConnId,
    mut fate: impl FnMut(usize, &[u8]) -> Fate,
) {
    for (end, conn) in [(0, client), (1, server)] {
        pair.ends[end].app.release(conn.slot);
        pair.ends[end]
            .stack
            .execute(pair.now, Command::Close(conn))
            .unwrap();
        pair.run(Duration::from_secs(1), &mut fate);
    }
    pair.run(Duration::from_secs(300), &mut fate);
    for end in &pair.ends {
        let usage = end.stack.usage();
        assert_eq!(
            (usage.connections, usage.half_open, usage.time_wait),
            (0, 0, 0),
            "{usage:?}"
        );
        assert_eq!(
            (usage.flows, usage.timers, usage.queued),
            (0, 0, 0),
            "{usage:?}"
        );
        assert_eq!((usage.range_sets, usage.recv_bytes), (0, 0), "{usage:?}");
        assert_eq!((usage.sent_logs, usage.rate_logs), (0, 0), "{usage:?}");
    }
}

#[test]
fn a_clean_link_carries_everything_without_retransmission() {
    let mut pair = Pair::new(5 * MS, |_| {});
    transfer(&mut pair, 1_000_000, pass);
    for end in &pair.ends {
        let counters = end.stack.counters();
        assert_eq!(counters.retransmits, 0);
        for sample in counters
            .samples()
            .filter(|sample| sample.is_drop && sample.name.starts_with("tcp"))
        {
            assert_eq!(sample.value, 0, "{}", sample.name);
        }
    }
}

fn lossy(seed: u64, percent: u64, change: impl Fn(&mut crate::Config)) -> (Duration, Pair) {
    let mut pair = Pair::new(5 * MS, change);
    let mut dice = Dice(seed);
    let time = transfer(&mut pair, 300_000, |_, _| {
        if dice.roll(percent) {
            Fate::Lose
        } else {
            Fate::Pass
        }
    });
    (time, pair)
}

#[test]
fn a_lossy_link_carries_everything() {
    for seed in 1..=5 {
        lossy(seed, 5, |_| {});
    }
}

#[test]
fn a_lossy_link_carries_everything_without_options() {
    for seed in 1..=5 {
        lossy(seed, 5, |config| {
            config.timestamps = false;
            config.window_scaling = false;
        });
    }
}

#[test]
fn a_very_lossy_link_carries_everything() {
    lossy(11, 20, |config| config.rto_max = Duration::from_secs(2));
}

#[test]
fn every_algorithm_gets_everything_across() {
    for (seed, &(_, kind)) in (21..).zip(CongestionControl::NAMES) {
        for pacing in [false, true] {
            lossy(seed, 5, |config| {
                config.congestion = kind;
                config.pacing = pacing;
            });
        }
    }
}

#[test]
fn reordering_and_duplication_do_no_harm() {
    let mut pair = Pair::new(5 * MS, |_| {});
    let mut dice = Dice(99);
    transfer(&mut pair, 300_000, |_, _| {
        if dice.roll(10) {
            Fate::Delay(3 * MS)
        } else if dice.roll(10) {
            Fate::Duplicate
        } else {
            Fate::Pass
        }
    });
}

#[test]
fn recovery_keeps_a_lossy_link_busy() {
    // 300 kB over 10 ms of round trip with 5 % loss each way: about 5 segments a round trip fit
    // (1.2 / sqrt(p)), so 41 round trips and some time-outs of 200 ms.
    for options in [true, false] {
        let mut times: Vec<_> = (1..=11)
            .map(|seed| {
                let change = |config: &mut crate::Config| {
                    config.timestamps = options;
                    config.window_scaling = options;
                };
                lossy(seed, 5, change).0
            })
            .collect();
        times.sort();
        assert!(times[5] < Duration::from_millis(1500), "{times:?}");
    }
}
