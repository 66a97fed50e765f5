//! Tests of the streams: one by one here, against an oracle, in two threads.

#[cfg(not(miri))]
mod homes;
mod misuse;
mod oracle;
#[cfg(not(miri))]
mod remains;
mod threads;
#[cfg(not(miri))]
mod thrift;
mod urgent;

use super::*;
use crate::region::PagePolicy;

const KIB: u32 = 1 << 10;

fn config(slots: u32, pool_kib: u32) -> StreamsConfig {
    StreamsConfig {
        slots,
        recv_pool_bytes: (pool_kib * KIB) as usize,
        send_pool_bytes: (pool_kib * KIB) as usize,
        max_buffer: 512 * KIB,
        prefault: 0,
    }
}

fn pair(slots: u32, pool_kib: u32) -> (StackStreams, AppStreams) {
    streams_with(&config(slots, pool_kib), PagePolicy::Small).unwrap()
}

fn limits(recv: u32, send: u32) -> Limits {
    Limits { recv, send }
}

fn open(pool_kib: u32, limit: u32) -> (StackStreams, AppStreams) {
    let (mut stack, app) = pair(1, pool_kib);
    stack.open(0, limits(limit, limit)).unwrap();
    (stack, app)
}

fn receive(stack: &mut StackStreams, slot: u32, bytes: &[u8]) {
    stack.write_at(slot, 0, bytes).unwrap();
    stack.commit(slot, bytes.len() as u32);
}

fn read_all(app: &mut AppStreams, slot: u32) -> Vec<u8> {
    let mut bytes = vec![0; app.readable(slot) as usize];
    assert_eq!(app.read(slot, &mut bytes), bytes.len());
    bytes
}

fn counting(from: u32, n: u32) -> Vec<u8> {
    (from..from + n).map(|i| (i % 251) as u8).collect()
}

fn joined(pieces: Pieces<'_>) -> Vec<u8> {
    pieces.to_vec()
}

#[test]
fn a_short_transaction() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    receive(&mut stack, 0, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!((stack.recv_unread(0), app.readable(0)), (18, 18));
    let mut buf = [0; 3];
    assert_eq!(app.peek(0, &mut buf), 3);
    assert_eq!(app.read(0, &mut buf), 3);
    assert_eq!(&buf, b"GET");
    assert_eq!(app.skip(0, 12), 12);
    assert_eq!(read_all(&mut app, 0), b"\n\r\n");
    assert_eq!(stack.recv_free(0), 16 * KIB);

    assert_eq!(app.write(0, b"200 OK"), 6);
    assert_eq!((app.unsent(0), stack.send_len(0)), (6, 6));
    assert_eq!(joined(stack.peek(0, 4, 99)), b"OK");
    stack.consume(0, 6);
    assert!(stack.peek(0, 0, 99).is_empty());
    assert!(stack.trim(0, false) && app.trim(0));
    assert_eq!((stack.recv_bytes_in_use(), app.send_bytes_in_use()), (0, 0));
    assert!(
        !stack.trim(0, false) && !app.trim(0),
        "nothing left to give"
    );
}

#[test]
fn buffers_grow_with_need_and_go_back() {
    let (mut stack, mut app) = open(1024, 128 * KIB);
    assert_eq!(stack.recv_bytes_in_use(), 0, "idle costs nothing");
    let all = counting(0, 100_000);
    for part in all.chunks(1460) {
        receive(&mut stack, 0, part);
    }
    // Nothing was read, so the outgrown 2, 8 and 32 KiB are still there.
    assert_eq!(stack.recv_bytes_in_use() as u32, (2 + 8 + 32 + 128) * KIB);
    let mut first = vec![0; 90_000];
    assert_eq!(app.read(0, &mut first), 90_000);
    receive(&mut stack, 0, b"");
    stack.write_at(0, 0, b"x").unwrap();
    assert_eq!(
        stack.recv_bytes_in_use() as u32,
        128 * KIB,
        "outgrown ones went"
    );
    assert_eq!([first, read_all(&mut app, 0)].concat(), all);
    assert!(!stack.trim(0, true), "the x is out of order");
    assert!(stack.trim(0, false));
    assert_eq!(stack.recv_bytes_in_use(), 0);
    assert_eq!(stack.recv_bytes_high_water() as u32, 170 * KIB);
}

#[test]
fn large_writes_take_one_buffer_of_the_right_size() {
    let (stack, mut app) = open(1024, 512 * KIB);
    let all = counting(0, 100_000);
    assert_eq!(app.write(0, &all), all.len());
    assert_eq!(app.send_bytes_in_use() as u32, 128 * KIB);
    assert_eq!(joined(stack.peek(0, 0, u32::MAX)), all);
    assert_eq!(joined(stack.peek(0, 99_990, 5)), counting(99_990, 5));
}

#[test]
fn bytes_out_of_order_survive_growth_and_sweeps() {
    let (mut stack, mut app) = open(256, 64 * KIB);
    let all = counting(0, 20_000);
    stack.write_at(0, 1500, &all[1500..2000]).unwrap();
    stack.sweep(10);
    stack.write_at(0, 19_000, &all[19_000..]).unwrap();
    stack.sweep(10);
    stack.write_at(0, 0, &all[..1500]).unwrap();
    stack.commit(0, 2000);
    assert_eq!(read_all(&mut app, 0), all[..2000]);
    stack.sweep(10);
    stack.write_at(0, 0, &all[2000..19_000]).unwrap();
    stack.commit(0, 18_000);
    assert_eq!(read_all(&mut app, 0), all[2000..]);
    stack.sweep(10);
    assert_eq!((stack.recv_bytes_in_use(), stack.recv_buffers()), (0, 0));
}

#[test]
fn limits_hold_exactly() {
    let (mut stack, mut app) = open(256, 5000);
    assert_eq!(
        stack.write_at(0, 4999, b"ab"),
        Err(StreamError::BeyondLimit)
    );
    assert_eq!(
        stack.write_at(0, u32::MAX, b"ab"),
        Err(StreamError::BeyondLimit)
    );
    assert_eq!(stack.write_at(0, 4999, b"a"), Ok(()));
    assert_eq!(app.write(0, &[1; 6000]), 5000);
    assert_eq!((app.writable(0), app.write(0, b"x")), (0, 0));
    stack.set_send_limit(0, 6000);
    assert_eq!((app.writable(0), app.write(0, &[2; 6000])), (1000, 1000));
    stack.set_send_limit(0, 10);
    assert_eq!(app.writable(0), 0);
    stack.set_recv_limit(0, u32::MAX);
    assert_eq!(stack.recv_limit(0), 512 * KIB, "the largest buffer");
}

#[test]
fn status_comes_after_the_bytes_before_it() {
    let (mut stack, mut app) = open(64, 8 * KIB);
    stack.set_status(0, Status::CONNECTED);
    receive(&mut stack, 0, b"bye");
    stack.add_status(0, Status::EOF);
    assert_eq!(app.status(0), Status::CONNECTED | Status::EOF);
    assert!(!app.at_eof(0));
    assert_eq!(read_all(&mut app, 0), b"bye");
    assert!(app.at_eof(0));
    assert_eq!(app.write(0, b"more"), 4, "half-closed the other way");
    stack.set_status(0, Status::CLOSED.with_errno(104));
    let status = app.status(0);
    assert!(status.contains(Status::ERROR | Status::CLOSED));
    assert_eq!((status.errno(), status.with_errno(32).errno()), (104, 32));
    assert_eq!((app.write(0, b"x"), app.writable(0)), (0, 0));
}

#[test]
fn window_updates_are_due_by_the_quarter_or_after_a_full_stream() {
    let (mut stack, mut app) = open(256, 64 * KIB);
    receive(&mut stack, 0, &counting(0, 40_000));
    app.skip(0, 16 * KIB - 1);
    assert!(!app.window_update_due(0));
    app.skip(0, 1);
    assert!(app.window_update_due(0) && !app.window_update_due(0));
    let free = stack.recv_free(0);
    receive(&mut stack, 0, &counting(0, free));
    app.skip(0, 2919);
    assert!(!app.window_update_due(0));
    app.skip(0, 1);
    assert!(app.window_update_due(0), "two segments after it was full");
    app.skip(0, 8 * KIB);
    assert!(app.window_update_due(0), "it was still nearly full");
    app.skip(0, 16 * KIB - 1);
    assert!(!app.window_update_due(0), "and is not any more");
}

#[test]
fn the_stack_learns_who_wants_space() {
    let (mut stack, mut app) = open(256, 4000);
    assert_eq!(app.write(0, &[0; 4000]), 4000);
    stack.consume(0, 100);
    assert!(!stack.app_wants_space(0), "it was all written");
    assert_eq!(app.write(0, &[0; 4000]), 100);
    assert!(!stack.app_wants_space(0), "no room yet");
    stack.consume(0, 999);
    assert!(!stack.app_wants_space(0), "too little to wake anyone");
    stack.consume(0, 1);
    assert!(stack.app_wants_space(0) && !stack.app_wants_space(0));
    assert_eq!(app.write(0, &[0; 1001]), 1000);
    stack.set_send_limit(0, 0);
    stack.consume(0, u32::MAX);
    assert!(stack.app_wants_space(0), "drained is always enough");
}

#[test]
fn starved_slots_are_told_when_there_is_memory() {
    let (mut stack, mut app) = pair(3, 8);
    for slot in 0..3 {
        stack.open(slot, limits(64 * KIB, 64 * KIB)).unwrap();
    }
    assert_eq!(app.write(0, &[1; 9000]), 8 * KIB as usize);
    assert_eq!((app.write(1, b"x"), app.writable(1)), (0, 0));
    assert_eq!((app.write(2, b"x"), app.write(2, b"x")), (0, 0));
    assert_eq!(app.poll_starved(), None);
    app.release(2);
    stack.consume(0, 8 * KIB);
    app.sweep(1);
    let told: Vec<_> = std::iter::from_fn(|| app.poll_starved()).collect();
    assert_eq!(told, [1], "and not the one released");
    assert!(stack.app_wants_space(0), "told by its acknowledgments");
    assert_eq!(app.write(1, b"x"), 1);
    assert_eq!(stack.write_at(0, 0, &[1; 9000]), Err(StreamError::NoMemory));
    assert_eq!(stack.recv_bytes_in_use(), 0);
}

/// Many that need a large block must not hide one that a small one is enough for: it would sleep
/// for ever.
#[test]
fn a_modest_starved_slot_is_found_behind_greedy_ones() {
    // Seven eighths go to 28 slots, the last eighth in the smallest blocks to 16.
    let (slots, block) = (28 + 16, 2 * KIB);
    let (mut stack, mut app) = pair(slots + 1, 64);
    for slot in 0..=slots {
        stack.open(slot, limits(64 * KIB, 64 * KIB)).unwrap();
    }
    for slot in 0..slots {
        let expected = if slot < 28 { 2048 } else { 512 };
        assert_eq!(app.write(slot, &[1; 2048]), expected, "slot {slot}");
    }
    for slot in 1..=slots {
        assert_eq!(app.write(slot, b"x"), 0, "slot {slot}");
    }
    assert_eq!(app.poll_starved(), None);
    stack.consume(0, block);
    assert!(app.trim(0));
    assert_eq!(app.poll_starved(), Some(slots));
    assert_eq!(app.poll_starved(), None);
    assert_eq!(app.write(slots, b"x"), 1);
}

/// Peers that keep their windows closed hold what was written to them.
#[test]
fn those_who_give_nothing_back_leave_something_for_others() {
    let (hoarders, others) = (400, 1000);
    let (mut stack, mut app) = pair(hoarders + others, 64 * KIB);
    for slot in 0..hoarders + others {
        stack.open(slot, limits(512 * KIB, 512 * KIB)).unwrap();
    }
    let all = vec![1; 512 << 10];
    for slot in 0..hoarders {
        assert_ne!(app.write(slot, &all), 0, "slot {slot}");
        assert_eq!(app.writable(slot), 0, "slot {slot} has its share");
    }
    for slot in hoarders..hoarders + others {
        assert_eq!(app.write(slot, &[1; 2048]), 2048, "slot {slot}");
        stack.consume(slot, 2048);
        assert!(app.writable(slot) > 0, "slot {slot}");
    }
    assert!(!app.is_starved());
}

/// As many who give nothing back as there are smallest blocks in the last eighth: whoever comes
/// then begins with little, and gets more as it is taken.
#[test]
fn the_last_part_is_for_those_who_make_progress() {
    let hoarders = 1800;
    let (mut stack, mut app) = pair(hoarders + 1, 8 * KIB);
    for slot in 0..=hoarders {
        stack.open(slot, limits(512 * KIB, 512 * KIB)).unwrap();
    }
    let all = vec![1; 512 << 10];
    for slot in 0..hoarders {
        assert_ne!(app.write(slot, &all), 0, "slot {slot}");
        // Who gives nothing back gets nothing more, however often it asks.
        app.write(slot, &all);
    }
    assert!(app.send_bytes_in_use() > app.send_pool_bytes() / 8 * 7);
    let mut taken = Vec::new();
    for _ in 0..5 {
        let n = app.write(hoarders, &all) as u32;
        taken.push(n);
        stack.consume(hoarders, n);
    }
    assert_eq!(taken, [512, 2048, 8192, 8192, 8192]);
}

#[test]
fn a_slot_lives_many_lives() {
    let (mut stack, mut app) = open(64, 8 * KIB);
    for life in 0..50u8 {
        assert_eq!(stack.open(0, limits(1, 1)), Err(StreamError::Held));
        assert_eq!(stack.grant(0), Err(StreamError::Held));
        assert!(!stack.close(0) && !stack.app_released(0) && app.holds(0));
        receive(&mut stack, 0, &[life; 3000]);
        stack.write_at(0, 10, &[9; 10]).unwrap();
        assert_eq!(app.write(0, &[life; 3000]), 3000);
        assert_eq!(app.skip(0, 7), 7);
        app.release(0);
        assert!(stack.app_released(0) && !app.holds(0));
        assert_eq!(
            (app.write(0, b"x"), app.readable(0), app.unsent(0)),
            (0, 0, 0)
        );
        assert_eq!(stack.recv_unread(0), 2993, "RFC 2525 2.17: a reset is due");
        assert_eq!(
            joined(stack.peek(0, 0, 9999)),
            [life; 3000],
            "can still be sent"
        );
        if life % 2 == 0 {
            assert!(stack.close(0) && !stack.close(0));
            assert_eq!(stack.recv_bytes_in_use(), 0);
            app.sweep(1);
            assert_eq!(app.send_bytes_in_use(), 0);
        }
        stack.open(0, limits(8 * KIB, 8 * KIB)).unwrap();
        assert_eq!((stack.send_len(0), stack.recv_unread(0)), (0, 0));
        assert_eq!((app.unsent(0), app.readable(0)), (0, 0));
        assert_eq!(app.status(0), Status::empty());
    }
}

#[test]
fn what_nobody_accepted_can_be_closed() {
    let (mut stack, mut app) = pair(1, 64);
    assert_eq!(stack.grant(0), Err(StreamError::NotOpen));
    stack.reserve(0, limits(4096, 4096)).unwrap();
    receive(&mut stack, 0, b"early");
    assert_eq!(
        (app.readable(0), app.write(0, b"x")),
        (0, 0),
        "not its own yet"
    );
    app.release(0);
    assert!(stack.close(0));
    assert_eq!(stack.recv_bytes_in_use(), 0);
    stack.reserve(0, limits(4096, 4096)).unwrap();
    receive(&mut stack, 0, b"early");
    stack.grant(0).unwrap();
    assert_eq!(read_all(&mut app, 0), b"early");
}

#[test]
fn sweeps_take_turns() {
    let (mut stack, mut app) = pair(10, 64);
    for slot in 0..10 {
        stack.open(slot, limits(4096, 4096)).unwrap();
        assert_eq!(app.write(slot, b"x"), 1);
    }
    for slot in 0..10 {
        if slot % 3 != 0 {
            stack.consume(slot, 1);
        }
    }
    app.sweep(4);
    assert!(app.send_buffers() > 4, "no more than asked");
    app.sweep(6);
    assert_eq!(app.send_buffers(), 4);
    for slot in [0, 3, 6, 9] {
        stack.consume(slot, 1);
    }
    for _ in 0..4 {
        app.sweep(1);
    }
    assert_eq!((app.send_buffers(), app.send_bytes_in_use()), (0, 0));
}

#[test]
fn a_slot_whose_buffer_comes_and_goes_has_one_turn_each() {
    let (mut stack, mut app) = pair(70, 70);
    for slot in 0..70 {
        stack.open(slot, limits(4096, 4096)).unwrap();
    }
    for _ in 0..3 {
        for slot in [0, 63, 64, 69] {
            assert_eq!(app.write(slot, b"x"), 1);
            stack.consume(slot, 1);
            assert!(app.trim(slot));
        }
    }
    assert_eq!((app.send_buffers(), app.send_bytes_in_use()), (4, 0));
    assert_eq!(app.write(64, b"x"), 1);
    assert_eq!((app.sweep(4), app.send_buffers()), (3, 1));
    stack.consume(64, 1);
    assert_eq!((app.sweep(1), app.send_bytes_in_use()), (1, 0));
    assert_eq!(app.write(0, b"x"), 1);
    stack.consume(0, 1);
    assert_eq!((app.sweep(1), app.send_bytes_in_use()), (1, 0));
}

#[test]
fn a_buffer_whose_blocks_grew_for_another_slot_starts_anew() {
    let (mut stack, mut app) = pair(2, 16 << 10);
    for slot in [0, 1] {
        stack.open(slot, limits(1 << 16, 1 << 16)).unwrap();
    }
    for round in 0..8 {
        let slot = round % 2;
        let all = counting(round, 15_000);
        // Three blocks, then two, of which the first has been the second.
        let first = if slot == 0 { 500 } else { 3000 };
        assert_eq!(app.write(slot, &all[..first]), first);
        assert_eq!(app.write(slot, &all[first..3500]), 3500 - first);
        stack.consume(slot, 30);
        assert_eq!(app.write(slot, &all[3500..]), 11_500);
        assert_eq!(joined(stack.peek(slot, 0, u32::MAX)), all[30..]);
        stack.consume(slot, u32::MAX);
        assert_eq!((app.sweep(2) > 0, app.send_bytes_in_use()), (true, 0));
    }
    for slot in [0, 1] {
        assert_eq!(app.write(slot, &counting(slot, 500)), 500);
    }
    for slot in [0, 1] {
        assert_eq!(
            joined(stack.peek(slot, 0, u32::MAX)),
            counting(slot, 500),
            "a block is nobody else's"
        );
    }
}

#[test]
fn drained_buffers_do_not_pile_up_behind_a_small_sweep() {
    let slots = 8000;
    let (mut stack, mut app) = pair(slots, 2 * slots);
    for slot in 0..slots {
        stack.open(slot, limits(4096, 4096)).unwrap();
        receive(&mut stack, slot, b"question");
        assert_eq!(read_all(&mut app, slot), b"question");
        assert_eq!(app.write(slot, b"answer"), 6);
        stack.consume(slot, 6);
        stack.sweep(1);
        app.sweep(1);
    }
    assert!(stack.recv_buffers() < 2000 && app.send_buffers() < 2000);
    while app.is_crowded() {
        assert_eq!(app.sweep(1), 1);
    }
}

#[test]
fn drained_buffers_do_not_pile_up_beside_those_that_come_and_go() {
    let slots = 8000;
    let (mut stack, mut app) = pair(slots + 1, 2 * slots);
    for slot in 0..slots {
        for slot in [slot, slots] {
            stack.open(slot, limits(4096, 4096)).unwrap();
            assert_eq!(app.write(slot, b"question"), 8);
            stack.consume(slot, 8);
        }
        app.release(slots);
        assert!(stack.close(slots));
        app.sweep(1);
    }
    assert!(app.send_buffers() < 2000, "{}", app.send_buffers());
}

#[test]
fn what_was_given_back_at_once_is_not_looked_for() {
    let slots = 2000;
    let (mut stack, mut app) = pair(slots, 2 * slots);
    for slot in 0..slots {
        stack.open(slot, limits(4096, 4096)).unwrap();
        assert_eq!(app.write(slot, b"x"), 1);
    }
    app.sweep(0);
    for slot in 0..slots {
        stack.consume(slot, 1);
    }
    app.release(0);
    assert!(stack.close(0) && app.is_crowded());
    stack.open(0, limits(4096, 4096)).unwrap();
    assert_eq!(app.write(0, b"x"), 1);
    stack.consume(0, 1);
    app.release(0);
    assert_eq!(app.sweep(0), 0);
}

#[test]
fn the_room_that_is_sure_is_what_the_pool_still_has() {
    let mut small = config(1, 10);
    small.max_buffer = 32 << 10;
    let (mut stack, _app) = streams(&small).unwrap();
    stack.open(0, limits(32 << 10, 32 << 10)).unwrap();
    assert_eq!(stack.recv_room(0), 32 << 10);
    receive(&mut stack, 0, &[1; 3000]);
    // There is nothing larger than the 8 KiB that it has.
    assert_eq!(stack.recv_room(0), 8192 - 3000);
    assert_eq!(stack.recv_room(9), 0);
}

#[test]
fn unsent_bytes_are_bounded_where_that_is_asked() {
    let (mut stack, mut app) = open(2048, 512 * KIB);
    let bytes = counting(0, 200_000);
    stack.set_unsent_low_water(0, 1000);
    // A piece goes at one go, although the mark is lower; then nothing more.
    assert_eq!(app.write(0, &bytes), 16_384);
    assert_eq!((app.write(0, &bytes), app.writable(0)), (0, 0));
    assert!(!stack.app_wants_space(0));
    stack.note_sent(0, 15_884);
    // 500 are left: room for a write, but not so little that anybody is woken.
    assert!(!stack.app_wants_space(0));
    assert_eq!(app.writable(0), 0);
    assert_eq!(app.write(0, &bytes), 15_884);
    assert!(!stack.app_wants_space(0));
    stack.note_sent(0, 32_268 - 400);
    assert!(stack.app_wants_space(0));
    assert!(app.writable(0) > 0);
    // What is consumed has been sent, noted or not.
    stack.consume(0, 32_268);
    assert_eq!(app.write(0, &bytes), 16_384);
    stack.set_unsent_low_water(0, u32::MAX);
    assert_eq!(app.write(0, &bytes), 200_000);
}
