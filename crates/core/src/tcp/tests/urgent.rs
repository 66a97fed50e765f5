//! Urgent data (RFC 9293 §3.8.5), as Linux understands it (RFC 6093).

use ring::stream::Urgent;

use crate::command::{Command, Options};
use crate::event::Ready;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn data(seq: u32, bytes: &[u8]) -> Seg {
    seg().seq(seq).ack(1).win(WIN).data(bytes)
}

fn urgent(h: &Harness) -> Urgent {
    h.app.urgent(h.slot())
}

/// Writes so many bytes, the last of which is urgent.
fn write_urgent(h: &mut Harness, len: usize) {
    h.write_without_transmit(len);
    let end = h.app.written(h.slot());
    h.execute(Command::SendUrgent(h.id(), end));
    h.transmit();
}

/// The next bytes up to the mark.
fn read(h: &mut Harness) -> Vec<u8> {
    let mut buf = [0; 4000];
    let slot = h.slot();
    let n = h.app.read(slot, &mut buf);
    buf[..n].to_vec()
}

/// RFC 9293 MUST-30, MUST-32, MUST-33.
#[test]
fn the_application_hears_of_an_urgent_byte_and_where_it_is() {
    let mut h = Harness::established();
    h.events();
    h.send(data(1, b"ab!cd").urg(3));
    assert!(h.ready().0.contains(Ready::URGENT | Ready::READABLE));
    assert_eq!(urgent(&h), Urgent::Here(b'!'));
    assert_eq!(h.app.readable_to_mark(h.slot(), false), 2);
    assert_eq!(read(&mut h), b"ab");
    let slot = h.slot();
    assert!(h.app.at_mark(slot) && h.app.pass_mark(slot, false));
    assert_eq!(read(&mut h), b"cd");
    h.expect(seg().seq(1).ack(6));
}

/// RFC 9293 MUST-32.
#[test]
fn the_application_hears_before_the_byte_is_here_and_when_the_pointer_advances() {
    let mut h = Harness::established();
    h.events();
    h.send(data(1, b"ab").urg(4));
    assert!(h.ready().0.contains(Ready::URGENT));
    assert_eq!(urgent(&h), Urgent::Announced);
    // The same again is no news, nor is one before it.
    h.send(data(3, b"c").urg(2));
    h.send(data(4, b"").urg(1));
    assert!(
        !h.events()
            .iter()
            .any(|event| format!("{event:?}").contains("URGENT"))
    );
    h.send(data(4, b"!").urg(7));
    assert!(h.ready().0.contains(Ready::URGENT));
    // What was urgent before is not any more.
    assert_eq!(
        (read(&mut h), urgent(&h)),
        (b"abc!".to_vec(), Urgent::Announced)
    );
    h.send(data(5, b"defgh?"));
    assert_eq!(urgent(&h), Urgent::Here(b'?'));
}

/// RFC 9293 MUST-31.
#[test]
fn urgent_data_has_any_length() {
    let mut h = Harness::established();
    h.send(data(1, &[7; 900]).urg(60_000));
    for seq in (901..59_401).step_by(900) {
        h.send(data(seq, &[7; 900]));
        assert_eq!(urgent(&h), Urgent::Announced);
        read(&mut h);
        h.execute(Command::Received(h.id()));
        h.drain();
    }
    h.send(data(59_401, &[9; 600]));
    assert_eq!(read(&mut h).len(), 599);
    assert_eq!(urgent(&h), Urgent::Here(9));
}

#[test]
fn old_and_repeated_pointers_say_nothing() {
    let mut h = Harness::established();
    h.send(data(1, b"ab!").urg(3));
    assert_eq!(read(&mut h), b"ab");
    let slot = h.slot();
    assert!(h.app.pass_mark(slot, false));
    h.send(data(1, b"ab!").urg(3));
    h.send(data(1, b"ab!").urg(0));
    assert_eq!(urgent(&h), Urgent::None);
    assert_eq!(read(&mut h), b"");
}

/// A pointer of 0 has always been taken for the first byte.
#[test]
fn a_pointer_of_zero_is_the_first_byte() {
    let mut h = Harness::established();
    h.send(data(1, b"!ab").urg(0));
    assert_eq!(urgent(&h), Urgent::Here(b'!'));
}

/// RFC 9293 MUST-66.
#[test]
fn the_pointer_counts_behind_a_closed_window() {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            recv_buffer: Some(2048),
            ..Options::default()
        },
    );
    h.established_with(&Handshake::default());
    h.events();
    h.send(data(1, &[1; 1000]));
    h.send(data(1001, &[1; 1000]));
    h.send(data(2001, &[1; 48]));
    h.send(data(2049, b"!").urg(1));
    assert!(h.ready().0.contains(Ready::URGENT));
    assert_eq!(urgent(&h), Urgent::Announced);
    assert_eq!(read(&mut h).len(), 2048);
    h.execute(Command::Received(h.id()));
    h.transmit();
    h.send(data(2049, b"!").urg(1));
    assert_eq!(urgent(&h), Urgent::Here(b'!'));
}

#[test]
fn what_is_out_of_order_is_here_when_it_is_in_order() {
    let mut h = Harness::established();
    h.send(data(3, b"c!d").urg(2));
    assert_eq!(urgent(&h), Urgent::Announced);
    h.send(data(1, b"ab"));
    assert_eq!(
        (read(&mut h), urgent(&h)),
        (b"abc".to_vec(), Urgent::Here(b'!'))
    );
}

/// A reset or a segment outside the window says nothing of urgent data.
#[test]
fn what_is_not_acceptable_marks_nothing() {
    let mut h = Harness::established();
    h.send(data(1_000_000, b"!").urg(1));
    h.send(seg().seq(2).rst().urg(5));
    assert_eq!(urgent(&h), Urgent::None);
    h.drain();
    // Behind the peer's FIN there is nothing.
    h.send(data(1, b"ab").fin());
    h.send(seg().seq(4).ack(1).win(WIN).urg(9));
    assert_eq!(urgent(&h), Urgent::None);
}

/// RFC 9293 MUST-30, MUST-62.
#[test]
fn the_pointer_points_behind_the_urgent_byte() {
    let mut h = Harness::established();
    write_urgent(&mut h, 3);
    h.expect(seg().seq(1).len(3).urg(3).psh());
    // Small as it is, it does not wait.
    write_urgent(&mut h, 1);
    h.expect(seg().seq(4).len(1).urg(1).psh());
    h.write(10);
    h.expect(seg().seq(5).len(10));
    h.send(seg().seq(1).ack(15).win(WIN));
    h.write(10);
    h.expect(seg().seq(15).len(10));
}

/// RFC 9293 MUST-62. What was written before and has not gone says so, too.
#[test]
fn every_segment_before_the_urgent_byte_says_where_it_is() {
    let mut h = Harness::established();
    write_urgent(&mut h, 2500);
    h.expect(seg().seq(1).len(1000).urg(2500));
    h.expect(seg().seq(1001).len(1000).urg(1500));
    h.expect(seg().seq(2001).len(500).urg(500));
    h.advance(1000);
    h.expect(seg().seq(1).len(1000).urg(2500));
    h.drain();
    h.send(seg().seq(1).ack(2501).win(WIN));
    h.send(data(1, &[1; 2000]));
    h.expect(seg().seq(2501).ack(2001));
}

#[test]
fn a_pointer_reaches_as_far_as_it_can() {
    let mut h = Harness::with(|config| {
        config.send_buffer = 256 << 10;
        config.initial_window = 200;
    });
    h.listen(4, Options::default());
    h.established_with(&Handshake {
        wscale: Some(7),
        ..Handshake::default()
    });
    write_urgent(&mut h, 100_000);
    h.expect(seg().seq(1).len(1000).urg(u16::MAX));
}

#[test]
fn urgent_data_does_not_go_in_gso_frames() {
    let mut h = Harness::with(|config| {
        config.interfaces[0].capabilities.tx_gso = 60_000;
    });
    h.listen(4, Options::default());
    h.established_with(&Handshake::default());
    write_urgent(&mut h, 3000);
    for seq in [1, 1001, 2001] {
        h.expect(seg().seq(seq).len(1000).urg(3001 - seq as u16));
    }
    h.send(seg().seq(1).ack(3001).win(WIN));
    h.write(3000);
    h.expect(seg().seq(3001).len(3000));
}

/// The ACK that goes before urgent data that the window holds back announces it.
#[test]
fn urgent_data_is_announced_behind_a_closed_window() {
    let mut h = Harness::established();
    h.send(data(1, b"a").win(0));
    h.advance(100);
    h.drain();
    write_urgent(&mut h, 5);
    h.expect_nothing();
    h.advance(1000);
    h.expect(seg().seq(1).len(1).urg(5));
}

/// An index that no write can reach, or that the peer has acknowledged, marks nothing.
#[test]
fn what_cannot_be_written_is_not_urgent() {
    let mut h = Harness::established();
    h.execute(Command::SendUrgent(h.id(), 0x8000_0000));
    h.transmit();
    h.expect_nothing();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    h.execute(Command::SendUrgent(h.id(), u32::MAX));
    h.send(data(1, b"abc").ack(11).win(WIN));
    h.advance(100);
    h.expect(seg().seq(11).ack(4));
    h.execute(Command::SendUrgent(h.id(), 10));
    h.write(5);
    h.expect(seg().seq(11).ack(4).len(5));
}

/// The stack may look at the stream at any time: between the write and the command, too. A segment
/// that had the byte and not the pointer could not be mended, since a peer takes no pointer to what
/// it has received.
#[test]
fn what_is_said_to_be_urgent_before_it_is_written_never_goes_without_the_pointer() {
    let mut h = Harness::established();
    let end = h.app.written(h.slot()).wrapping_add(5);
    h.execute(Command::SendUrgent(h.id(), end));
    h.transmit();
    h.expect_nothing();
    h.write_without_transmit(5);
    // The peer's data makes the stack look.
    h.send(data(1, b"abc").win(WIN));
    h.expect(seg().seq(1).ack(4).len(5).urg(5));
}

/// A program may end between the two.
#[test]
fn what_was_announced_and_never_written_is_not_urgent_at_the_end_of_the_stream() {
    let mut h = Harness::established();
    h.write(2);
    h.expect(seg().seq(1).len(2));
    let end = h.app.written(h.slot()).wrapping_add(5);
    h.execute(Command::SendUrgent(h.id(), end));
    h.execute(Command::Shutdown(h.id()));
    h.transmit();
    h.expect(seg().seq(3).fin());
}
