//! Urgent data: reading stops at it, and passes it or takes it along.

use super::*;

fn read(app: &mut AppStreams) -> Vec<u8> {
    let mut buf = [0; 64];
    let n = app.read(0, &mut buf);
    buf[..n].to_vec()
}

/// `bytes`, the last of which is urgent.
fn receive_urgent(stack: &mut StackStreams, bytes: &[u8]) {
    assert!(stack.mark_urgent(0, bytes.len() as u32 - 1));
    receive(stack, 0, bytes);
}

#[test]
fn reading_stops_at_the_urgent_byte_and_passes_it() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    assert_eq!(app.urgent(0), Urgent::None);
    receive_urgent(&mut stack, b"ab!");
    receive(&mut stack, 0, b"cd");
    assert_eq!(app.urgent(0), Urgent::Here(b'!'));
    assert_eq!(app.readable_to_mark(0, false), 2);
    assert_eq!(app.readable_to_mark(0, true), 5);
    assert!(!app.at_mark(0));
    assert_eq!(read(&mut app), b"ab");
    assert!(app.at_mark(0));
    assert_eq!(app.readable_past_mark(0, false), 2);
    assert_eq!(read(&mut app), b"");
    let mut buf = [0; 9];
    assert_eq!(
        (
            app.peek(0, &mut buf),
            app.peek_past_mark(0, false, &mut buf)
        ),
        (0, 2)
    );
    assert_eq!(&buf[..2], b"cd");
    app.take_urgent(0);
    assert_eq!(app.urgent(0), Urgent::Taken);
    assert!(app.pass_mark(0, false));
    assert_eq!(app.urgent(0), Urgent::None);
    assert!(!app.at_mark(0));
    assert_eq!(read(&mut app), b"cd");
    assert!(!app.pass_mark(0, false));
}

#[test]
fn an_urgent_byte_in_line_is_one_of_the_stream() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    receive_urgent(&mut stack, b"ab!");
    receive(&mut stack, 0, b"cd");
    assert_eq!(read(&mut app), b"ab");
    assert_eq!(app.readable_past_mark(0, true), 3);
    assert!(app.at_mark(0) && app.pass_mark(0, true));
    assert!(!app.at_mark(0));
    assert_eq!(read(&mut app), b"!cd");
}

#[test]
fn what_is_announced_comes_later() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    assert!(stack.mark_urgent(0, 2));
    assert!(!stack.mark_urgent(0, 2) && !stack.mark_urgent(0, 0));
    assert_eq!(app.urgent(0), Urgent::Announced);
    receive(&mut stack, 0, b"ab");
    assert_eq!((read(&mut app), app.at_mark(0)), (b"ab".to_vec(), true));
    assert!(!app.pass_mark(0, false), "it is not here");
    receive(&mut stack, 0, b"!");
    assert_eq!(app.urgent(0), Urgent::Here(b'!'));
    assert_eq!(app.readable_past_mark(0, false), 0);
    assert!(app.pass_mark(0, false));
    assert_eq!(app.readable(0), 0);
}

/// As on Linux: where the reader stands at one, it is passed over; else it becomes one of the
/// stream.
#[test]
fn a_second_mark_takes_the_place_of_the_first() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    for urgent in [b"!", b"?", b"#"] {
        receive_urgent(&mut stack, urgent);
    }
    assert_eq!(app.urgent(0), Urgent::Here(b'#'));
    assert!(app.at_mark(0));
    assert_eq!(app.readable_past_mark(0, false), 0);
    receive_urgent(&mut stack, b"ab$");
    receive_urgent(&mut stack, b"%");
    receive(&mut stack, 0, b"z");
    assert_eq!(app.urgent(0), Urgent::Here(b'%'));
    assert!(app.pass_mark(0, false));
    assert_eq!(read(&mut app), b"ab$");
    assert!(app.pass_mark(0, false));
    assert_eq!(read(&mut app), b"z");
    assert!(!app.pass_mark(0, false));
}

#[test]
fn in_line_nothing_is_passed_over() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    for urgent in [b"!", b"?"] {
        receive_urgent(&mut stack, urgent);
    }
    assert_eq!(read(&mut app), b"");
    assert!(app.pass_mark(0, true));
    assert_eq!(read(&mut app), b"!");
    assert!(app.at_mark(0) && app.pass_mark(0, true));
    assert_eq!(read(&mut app), b"?");
}

#[test]
fn a_slot_that_is_used_again_has_no_mark() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    receive_urgent(&mut stack, b"!");
    receive_urgent(&mut stack, b"?");
    app.release(0);
    assert!(stack.close(0));
    stack.open(0, limits(KIB, KIB)).unwrap();
    assert_eq!(app.urgent(0), Urgent::None);
    receive(&mut stack, 0, b"abc");
    assert_eq!(read_all(&mut app, 0), b"abc");
    receive_urgent(&mut stack, b"d!");
    assert_eq!(app.urgent(0), Urgent::Here(b'!'));
    assert_eq!(read(&mut app), b"d");
}

/// Whatever is marked, whenever, in both threads: each byte comes once and in order, but for those
/// that were urgent.
#[test]
#[allow(clippy::disallowed_methods)] // real threads are the point
fn marks_race_readers() {
    const TOTAL: u32 = if cfg!(miri) { 500 } else { 200_000 };
    let (mut stack, mut app) = open(64, 4 * KIB);
    let writer = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < TOTAL {
            let n = (1 + sent % 13).min(TOTAL - sent);
            if sent % 3 == 0 {
                stack.mark_urgent(0, sent % 29);
            }
            if stack.write_at(0, 0, &counting(sent, n)).is_ok() {
                stack.commit(0, n);
                sent += n;
            } else {
                std::thread::yield_now();
            }
        }
        stack.add_status(0, Status::EOF);
        stack
    });
    let mut buf = [0; 50];
    let mut next = 0;
    loop {
        let over = app.status(0).contains(Status::EOF);
        let before = app.readable(0);
        let n = app.read(0, &mut buf);
        for byte in &buf[..n] {
            // A few of them, at most as many as there were marks in a row, may have been left out.
            let skipped = (0..TOTAL - next).find(|skip| ((next + skip) % 251) as u8 == *byte);
            let skipped = skipped.unwrap();
            assert!(skipped < 60, "{skipped} bytes are missing before {next}");
            next += skipped + 1;
        }
        if n == 0 && !app.pass_mark(0, false) && over && before == 0 {
            break;
        }
    }
    assert!(TOTAL - next < 60);
    drop(writer.join().unwrap());
}

#[test]
fn a_reader_at_a_mark_goes_on_behind_it_when_another_comes() {
    let (mut stack, mut app) = open(64, 16 * KIB);
    receive_urgent(&mut stack, b"a!");
    app.take_urgent(0);
    assert_eq!(read(&mut app), b"a");
    receive(&mut stack, 0, b"b");
    let mut buf = [0; 9];
    assert_eq!(app.peek_past_mark(0, false, &mut buf), 1);
    receive_urgent(&mut stack, b"c#");
    assert_eq!(app.readable_past_mark(0, false), 3);
    assert_eq!(read(&mut app), b"");
    assert!(app.pass_mark(0, false));
    assert_eq!(read(&mut app), b"bc");
}
