//! Frames that stacks pass on to each other, in order and without loss.

use super::*;

fn words(tried: u64, likely: u8) -> Handed {
    Handed {
        tried,
        likely,
        port: 0,
        ..Handed::default()
    }
}

fn give(desk: &mut Desk, frame: &[u8], words: Handed) {
    assert!(desk.send(|into| TxMeta {
        len: words.emit(frame, into),
        ..TxMeta::default()
    }));
    desk.flush();
}

fn take(desk: &mut Desk) -> Vec<(Vec<u8>, u64)> {
    let mut got = Vec::new();
    while desk.receive(|frames| {
        got.extend(frames.iter().filter_map(|frame| {
            let (frame, words) = Handed::split(frame.bytes)?;
            Some((frame.to_vec(), words.tried))
        }));
    }) > 0
    {}
    got
}

#[test]
fn a_frame_goes_where_it_is_likely_known_then_to_the_others() {
    let exchange = Exchange::new(3, 1500).unwrap();
    let mut desks: Vec<Desk> = (0..3).map(|seat| exchange.sit(seat).unwrap()).collect();
    give(&mut desks[0], b"one", words(1, 2));
    assert_eq!(take(&mut desks[1]), []);
    assert_eq!(take(&mut desks[2]), [(b"one".to_vec(), 1)]);
    // Unknown there, too.
    give(&mut desks[2], b"one", words(0b101, 2));
    assert_eq!(take(&mut desks[1]), [(b"one".to_vec(), 0b101)]);
    // Unknown everywhere: whoever asks last gets it back.
    give(&mut desks[1], b"one", words(0b111, 2));
    assert_eq!(take(&mut desks[1]), [(b"one".to_vec(), u64::MAX)]);
}

#[test]
fn what_is_for_all_reaches_all() {
    let exchange = Exchange::new(3, 1500).unwrap();
    let mut desks: Vec<Desk> = (0..3).map(|seat| exchange.sit(seat).unwrap()).collect();
    let for_all = true;
    give(
        &mut desks[1],
        b"arp",
        Handed {
            for_all,
            ..words(2, 1)
        },
    );
    assert_eq!(take(&mut desks[0]).len(), 1);
    assert_eq!(take(&mut desks[1]).len(), 0);
    assert_eq!(take(&mut desks[2]).len(), 1);
}

#[test]
fn empty_seats_are_passed_over() {
    let exchange = Exchange::new(3, 1500).unwrap();
    let mut alone = exchange.sit(1).unwrap();
    give(&mut alone, b"one", words(2, 0));
    assert_eq!(take(&mut alone), [(b"one".to_vec(), u64::MAX)]);
    let mut other = exchange.sit(0).unwrap();
    give(&mut alone, b"two", words(2, 0));
    assert_eq!(take(&mut other), [(b"two".to_vec(), 2)]);
    drop(other);
    give(&mut alone, b"three", words(2, 0));
    assert_eq!(take(&mut alone).len(), 1);
}

#[test]
fn who_sits_down_starts_with_nothing() {
    let exchange = Exchange::new(2, 1500).unwrap();
    let mut one = exchange.sit(0).unwrap();
    let two = exchange.sit(1).unwrap();
    give(&mut one, b"old", words(1, 1));
    drop(two);
    let mut two = exchange.sit(1).unwrap();
    give(&mut one, b"new", words(1, 1));
    assert_eq!(take(&mut two), [(b"new".to_vec(), 1)]);
    give(&mut two, b"answer", words(2, 0));
    assert_eq!(take(&mut one), [(b"answer".to_vec(), 2)]);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let exchange = Exchange::new(2, 1500).unwrap();
    let mut one = exchange.sit(0).unwrap();
    let mut two = exchange.sit(1).unwrap();
    for _ in 0..SLOTS + 3 {
        give(&mut one, b"frame", words(1, 1));
    }
    assert_eq!(one.dropped(), 3);
    assert_eq!(take(&mut two).len(), SLOTS as usize);
}

#[test]
fn a_sleeper_is_woken() {
    let exchange = Exchange::new(2, 1500).unwrap();
    let mut one = exchange.sit(0).unwrap();
    let mut two = exchange.sit(1).unwrap();
    let mut fds = Vec::new();
    assert!(two.prepare_wait(&mut fds));
    assert_eq!(fds.len(), 1);
    let rings = |desk: &Desk| {
        let none = Some(std::time::Duration::ZERO);
        let doorbell = std::os::fd::AsFd::as_fd(desk.doorbell().unwrap());
        !crate::poll::readable(doorbell, None, none)
            .unwrap()
            .is_empty()
    };
    assert!(!rings(&two));
    give(&mut one, b"frame", words(1, 1));
    assert!(rings(&two));
    two.end_wait();
    assert!(!rings(&two));
    assert!(!two.prepare_wait(&mut fds));
}

#[test]
fn who_has_no_queue_has_others_send() {
    let exchange = Exchange::for_processes(1, 1500).unwrap();
    let seat = exchange.free_seat(0).unwrap();
    let mut old = exchange.sit(seat).unwrap();
    let frame = |into: &mut [u8]| {
        into[..5].copy_from_slice(b"frame");
        TxMeta {
            len: 5,
            ..TxMeta::default()
        }
    };
    assert!(!old.is_asked());
    exchange.ask_for_queue();
    assert!(old.is_asked() && old.grant() && !old.is_asked());
    assert!(!old.relay().send(frame), "nobody has a queue");
    let mut new = exchange.sit(exchange.free_seat(0).unwrap()).unwrap();
    assert_ne!(new.seat(), seat);
    assert!(old.relay().send(frame));
    old.flush();
    let mut sent = Vec::new();
    new.receive(|frames| {
        sent.extend(
            frames
                .iter()
                .map(|frame| Handed::split(frame.bytes).unwrap().0.to_vec()),
        );
    });
    assert_eq!(sent, [b"frame"]);
    assert_eq!(exchange.free_seat(0), None);
}

#[test]
fn there_is_a_limit() {
    assert!(Exchange::new(65, 1500).is_err());
    let exchange = Exchange::new(2, 1500).unwrap();
    assert!(exchange.sit(2).is_err());
}
