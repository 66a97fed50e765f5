//! What a flood leaves goes back to the kernel.

use std::os::unix::fs::FileExt as _;

use super::*;

const SLOTS: u32 = 128;

/// Resident kB of the pool for sending. (A mapping of /proc/self/smaps may be joined with those
/// beside it, of other tests.)
fn resident(app: &AppStreams) -> u32 {
    const PRESENT: u64 = 1 << 63;
    let (address, bytes) = app.send_place();
    let mut entries = vec![0; bytes / 4096 * 8];
    let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
    pages
        .read_exact_at(&mut entries, (address / 4096 * 8) as u64)
        .unwrap();
    let entries = entries.as_chunks().0.iter();
    let present = entries.filter(|entry| u64::from_ne_bytes(**entry) & PRESENT != 0);
    present.count() as u32 * 4
}

/// Each connection has written half a megabyte.
fn flooded() -> (StackStreams, AppStreams) {
    let (mut stack, mut app) = pair(SLOTS, 64 * KIB);
    let all = counting(0, 512 * KIB);
    for slot in 0..SLOTS - 1 {
        stack.open(slot, limits(512 * KIB, 512 * KIB)).unwrap();
        app.write(slot, &all);
    }
    (stack, app)
}

/// Asks as often as it is wanted, for so many ms, and returns when it is wanted next.
fn economize(app: &mut AppStreams, from: u64, to: u64) -> Option<u64> {
    let mut now = from;
    while now < to {
        now += app.economize(now)?;
    }
    Some(now)
}

#[test]
fn what_was_not_used_for_a_while_goes_back() {
    let (mut stack, mut app) = flooded();
    assert!(resident(&app) >= 60 * KIB / 2, "{}", resident(&app));
    for slot in 1..SLOTS - 1 {
        stack.consume(slot, stack.send_len(slot));
    }
    // Not yet: it may be wanted again.
    let next = economize(&mut app, 0, 20_000);
    assert!(resident(&app) > 20 * KIB, "{}", resident(&app));
    // What is still used stays, and is as it was.
    assert_eq!(economize(&mut app, next.unwrap(), 100_000), None);
    assert!(resident(&app) < 2 * KIB, "{}", resident(&app));
    assert_eq!(
        joined(stack.peek(0, 0, u32::MAX)),
        counting(0, stack.send_len(0))
    );
    // And there is memory for others.
    assert_eq!(app.write(5, b"again"), 5);
    assert_eq!(joined(stack.peek(5, 0, 9)), b"again");
}

#[test]
fn what_is_used_again_and_again_stays() {
    let (mut stack, mut app) = flooded();
    let before = resident(&app);
    for round in 0..10 {
        for slot in 1..SLOTS - 1 {
            stack.consume(slot, stack.send_len(slot));
        }
        economize(&mut app, round * 20_000, (round + 1) * 20_000);
        for slot in 1..SLOTS - 1 {
            app.write(slot, &counting(0, 512 * KIB));
        }
    }
    assert!(resident(&app) >= before, "{}", resident(&app));
}
