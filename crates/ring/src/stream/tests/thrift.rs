//! What a flood leaves goes back to the kernel.

use super::*;

const SLOTS: u32 = 128;

/// Resident kB of the mapping that these bytes lie in.
fn resident(bytes: &[u8]) -> u32 {
    let address = bytes.as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'));
        let parse = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(from), Some(to))) = range.map(|(from, to)| (parse(from), parse(to))) {
            inside = (from..to).contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("Rss:") {
            return rest.trim().trim_end_matches(" kB").parse().unwrap();
        }
    }
    panic!("nothing is mapped at {address:x}");
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
    let place = stack.peek(0, 0, 1).0.as_ptr();
    // SAFETY: of the pool, which lives as long as the streams; only its address is looked at.
    let place = unsafe { std::slice::from_raw_parts(place, 1) };
    assert!(resident(place) >= 60 * KIB / 2, "{}", resident(place));
    for slot in 1..SLOTS - 1 {
        stack.consume(slot, stack.send_len(slot));
    }
    // Not yet: it may be wanted again.
    let next = economize(&mut app, 0, 20_000);
    assert!(resident(place) > 20 * KIB, "{}", resident(place));
    // What is still used stays, and is as it was.
    assert_eq!(economize(&mut app, next.unwrap(), 100_000), None);
    assert!(resident(place) < 2 * KIB, "{}", resident(place));
    assert_eq!(
        joined(stack.peek(0, 0, u32::MAX)),
        counting(0, stack.send_len(0))
    );
    // And there is memory for others.
    assert_eq!(app.write(5, b"again"), 5);
    assert_eq!(stack.peek(5, 0, 9).0, b"again");
}

#[test]
fn what_is_used_again_and_again_stays() {
    let (mut stack, mut app) = flooded();
    let place = stack.peek(0, 0, 1).0.as_ptr();
    // SAFETY: as above.
    let place = unsafe { std::slice::from_raw_parts(place, 1) };
    let before = resident(place);
    for round in 0..10 {
        for slot in 1..SLOTS - 1 {
            stack.consume(slot, stack.send_len(slot));
        }
        economize(&mut app, round * 20_000, (round + 1) * 20_000);
        for slot in 1..SLOTS - 1 {
            app.write(slot, &counting(0, 512 * KIB));
        }
    }
    assert!(resident(place) >= before, "{}", resident(place));
}
