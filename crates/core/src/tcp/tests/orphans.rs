//! A stack ends between two instructions, and the one that takes its place goes on with its
//! connections: what was written arrives, and then the FIN, as after the end of a process that has
//! a kernel's sockets (RFC 9293 §3.10.4).

use std::sync::Arc;

use ring::region::{Plots, Shared};

use crate::command::{Command, Options};
use crate::config::{Config, CongestionControl, Seat};
use crate::estate::Holdings;
use crate::testament::Testament;
use crate::testing::{Handshake, Harness, Seg, config, seg};

const WIN: u16 = 60_000;
const HANDSHAKE: Handshake = Handshake {
    mss: Some(1000),
    wscale: None,
    sack: true,
    ts: Some(100),
    window: WIN,
};
/// What a segment carries beside timestamps.
const FULL: usize = 988;

/// What outlives the stacks of a seat.
struct Place {
    memory: Arc<Shared>,
    plots: Arc<Plots>,
    congestion: CongestionControl,
}

impl Place {
    fn new() -> Self {
        let holdings = holdings();
        let bytes = Testament::size(holdings.connections);
        Self {
            memory: Arc::new(Shared::create("orphans", bytes).unwrap()),
            plots: Plots::create("orphans", 1, holdings.size().unwrap()).unwrap(),
            congestion: CongestionControl::NewReno,
        }
    }

    fn testament(&self) -> Testament {
        let plot = self.plots.take(0).expect("the one before is gone");
        Testament::new(Arc::clone(&self.memory), 0, holdings().connections)
            .with_plot(plot, holdings())
    }

    /// The next stack there, after that of `before`.
    fn heir(&self, before: Harness) -> Harness {
        let sit = |config: &mut Config| {
            config.seat = Some(Seat {
                index: 0,
                seats: 1,
                bequeaths: true,
            });
            config.congestion = self.congestion;
            config.common_secret = Some([9; 32]);
        };
        let mut h = Harness::heir(before, sit, || self.testament());
        h.listen(8, Options::default());
        h
    }

    /// A stack that has read a request of 500 bytes.
    fn asked(&self) -> Harness {
        self.asked_by(&HANDSHAKE)
    }

    fn asked_by(&self, handshake: &Handshake) -> Harness {
        let mut h = self.heir(Harness::new());
        h.established_with(handshake);
        h.inject(seg().seq(1).ack(1).win(WIN).len(500).ts(101, 0));
        let slot = h.slot();
        assert_eq!(h.app.read(slot, &mut [0; 600]), 500);
        h
    }
}

/// The application writes, and has not told the stack.
fn write(h: &mut Harness, bytes: &[u8]) {
    let slot = h.slot();
    assert_eq!(h.app.write(slot, bytes), bytes.len());
}

/// The same, and the stack sends as much as it may.
fn send(h: &mut Harness, bytes: &[u8]) {
    write(h, bytes);
    let conn = h.id();
    h.execute(Command::Send(conn));
    h.transmit();
}

fn holdings() -> Holdings {
    Holdings::of(&config(1, 2))
}

fn answer(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// An ACK of the peer, which has sent its request and nothing more.
fn ack(ack: u32) -> Seg {
    seg().seq(501).ack(ack).win(WIN).ts(102, 0)
}

#[test]
fn what_was_written_and_never_sent_is_sent() {
    let place = Place::new();
    let mut first = place.asked();
    write(&mut first, b"an answer");
    let mut second = place.heir(first);
    second.transmit();
    second.expect(seg().fin().seq(1).ack(501).data(b"an answer"));
    second.expect_nothing();
    assert_eq!(second.stack.counters().orphans_adopted, 1);
    // The other side closes, too.
    second.send(ack(11));
    second.send(ack(11).fin());
    second.expect(seg().seq(11).ack(502));
    second.expect_silence(60_000);
    assert_eq!(second.stack.usage().connections, 0);
    assert_eq!(place.heir(second).stack.counters().orphans_adopted, 0);
}

#[test]
fn what_is_in_flight_is_sent_again_if_it_was_lost() {
    let place = Place::new();
    let mut first = place.asked();
    let answer = answer(3 * FULL);
    send(&mut first, &answer);
    assert_eq!(first.drain(), 3);
    let mut second = place.heir(first);
    second.transmit();
    let end = 3 * FULL as u32 + 1;
    second.expect(seg().fin().seq(end).ack(501));
    // The peer says again what it has got.
    second.expect(seg().seq(end).ack(501));
    // The first two arrived before, and the third did not.
    second.send(ack(2 * FULL as u32 + 1));
    second.expect_nothing();
    second.advance(3000);
    let again = seg().fin().seq(2 * FULL as u32 + 1);
    second.expect(again.data(&answer[2 * FULL..]));
    second.drain();
    second.send(ack(end + 1));
    second.send(ack(end + 1).fin());
    second.expect(seg().seq(end + 1).ack(502));
    second.expect_silence(60_000);
}

#[test]
fn a_long_answer_goes_on_as_the_window_lets_it() {
    for congestion in [CongestionControl::Cubic, CongestionControl::Bbr] {
        let mut place = Place::new();
        place.congestion = congestion;
        let mut first = place.asked_by(&Handshake {
            sack: false,
            ts: None,
            ..HANDSHAKE
        });
        let answer = answer(50_000);
        send(&mut first, &answer);
        assert!(first.drain() > 3);
        first.send(ack(2 * FULL as u32 + 1));
        first.drain();
        let second = place.heir(first);
        assert_eq!(take_all(second, 2 * FULL), answer[2 * FULL..]);
    }
}

/// A peer that has got `from` bytes takes the rest, in any order, up to the FIN.
fn take_all(mut h: Harness, from: usize) -> Vec<u8> {
    let (mut bytes, mut end) = (Vec::new(), None);
    for _ in 0..2000 {
        h.advance(5);
        let mut acks = Vec::new();
        while let Some((_, _, header, payload)) = h.pop() {
            let at = (header.seq - h.sent_syn()) as usize - 1 - from;
            let behind = at + payload.len();
            bytes.resize(bytes.len().max(behind), None);
            for (byte, place) in payload.into_iter().zip(&mut bytes[at..]) {
                *place = Some(byte);
            }
            if header.flags.contains(wire::tcp::TcpFlags::FIN) {
                end = Some(behind);
            }
            let taken = bytes.iter().take_while(|byte| byte.is_some()).count();
            let ended = end == Some(taken);
            acks.push(ack((from + taken) as u32 + 1 + u32::from(ended)));
        }
        h.inject_all(&acks);
        if end.is_some_and(|end| end == bytes.iter().flatten().count()) {
            return bytes.into_iter().flatten().collect();
        }
    }
    panic!("no FIN, and {} bytes", bytes.len());
}

/// The process ended between sending and noting it.
#[test]
fn what_the_peer_says_it_has_got_was_sent() {
    let place = Place::new();
    let mut first = place.asked();
    let all = answer(3 * FULL);
    write(&mut first, &all);
    let mut second = place.heir(first);
    second.send(ack(2 * FULL as u32 + 1));
    let end = 3 * FULL as u32 + 1;
    second.expect(seg().fin().seq(end - FULL as u32).data(&all[2 * FULL..]));
    second.expect_nothing();
    // More than there was.
    second.send(ack(end + 2));
    second.expect(seg().seq(end + 1).ack(501));
    second.send(ack(end + 1));
    second.expect_nothing();
}

/// The window opened while nobody heard it.
#[test]
fn a_peer_that_has_room_is_asked_at_once() {
    let place = Place::new();
    let mut first = place.asked();
    let all = answer(FULL + 9);
    send(&mut first, &all[..FULL]);
    first.drain();
    first.send(ack(FULL as u32 + 1).win(0));
    write(&mut first, &all[FULL..]);
    let mut second = place.heir(first);
    second.transmit();
    let next = FULL as u32 + 1;
    second.expect(seg().seq(next - 1).ack(501));
    second.expect_nothing();
    second.send(ack(next));
    second.expect(seg().fin().seq(next).data(&all[FULL..]));
}

#[test]
fn one_that_was_closed_before_is_closed() {
    let place = Place::new();
    let mut first = place.asked();
    write(&mut first, b"an answer");
    first.close();
    first.drain();
    // Its FIN is in flight.
    let mut second = place.heir(first);
    second.send(ack(11));
    second.drain();
    // FIN_WAIT_2, and that stack ends as well.
    let mut third = place.heir(second);
    third.send(ack(11).fin());
    third.drain();
    third.expect_silence(120_000);
    assert_eq!(third.stack.counters().resets_out, 0);
}

/// Half of a request that was acknowledged and is lost (RFC 2525 §2.17): no FIN may say that all is
/// well.
#[test]
fn what_was_not_read_is_answered_with_a_reset() {
    let place = Place::new();
    let mut first = place.asked();
    first.transmit();
    first.send(seg().seq(501).ack(1).win(WIN).len(100).ts(101, 0));
    first.drain();
    let mut second = place.heir(first);
    second.send(seg().seq(601).ack(1).win(WIN).ts(102, 0));
    second.expect(seg().rst().seq(1));
    second.expect_silence(60_000);
}

/// The peer has no ACK of its request, and brings it to whoever listens.
#[test]
fn what_nobody_has_answered_or_acknowledged_is_taken_up() {
    let place = Place::new();
    let mut second = place.heir(place.asked());
    second.send(seg().seq(1).ack(1).win(WIN).len(500).ts(101, 0));
    assert_eq!(second.stack.counters().syn_cookies_accepted, 1);
    assert_eq!(second.stack.counters().resets_out, 0);
}

#[test]
fn one_that_idles_gets_a_fin() {
    let place = Place::new();
    let mut first = place.asked();
    first.transmit();
    assert_eq!(first.drain(), 1);
    let mut second = place.heir(first);
    second.transmit();
    second.expect(seg().fin().seq(1).ack(501));
}

/// Whatever a process wrote before it ended, and however it is mixed.
#[test]
fn any_bytes_are_taken() {
    let place = Place::new();
    for fill in 0..=255u8 {
        let mut first = place.asked();
        send(&mut first, &answer(3000));
        let second = place.heir(first);
        drop(second);
        let mut plot = place.plots.take(0).unwrap();
        let size = holdings().size().unwrap();
        let mut region = plot.region(size).unwrap();
        // One connection: its stream's record and its control block.
        let hot = size - holdings().connections as usize * 128;
        for at in (0..64).chain(hot..hot + 128) {
            let byte = &mut region.as_mut_slice()[at];
            *byte = byte.wrapping_add(fill.wrapping_mul(at as u8 | 1));
        }
        drop((plot, region));
        let mut third = place.heir(Harness::new());
        third.advance(2_000);
        drop(third);
        let mut plot = place.plots.take(0).unwrap();
        plot.clear().unwrap();
        drop(plot);
        drop(place.heir(Harness::new()));
    }
}
