//! TCP Fast Open (RFC 7413).

use std::net::SocketAddr;

use wire::tcp::{FastOpenCookie, TcpHeader};

use crate::Reply;
use crate::command::{Command, Options};
use crate::config::Config;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
/// Where the peer connects from when it asks for a cookie.
const ASKING: u16 = 4000;

// ---- the server ---------------------------------------------------------------------------------

fn server(limit: u32) -> Harness {
    server_with(limit, |_| {})
}

fn server_with(limit: u32, change: impl FnOnce(&mut Config)) -> Harness {
    let mut h = Harness::with(change);
    let options = Options {
        fast_open: Some(limit),
        ..Options::default()
    };
    h.listen(16, options);
    h
}

/// The peer asks for a cookie, and goes away.
fn cookie(h: &mut Harness) -> FastOpenCookie {
    let syn = Handshake::default().syn().port(ASKING);
    h.send(syn.fast_open(FastOpenCookie::REQUEST));
    let reply = h.expect(seg().syn().ack(1).port(ASKING));
    h.send(seg().rst().seq(1).port(ASKING));
    h.expect_nothing();
    reply.options.fast_open.expect("a cookie")
}

fn syn_with(cookie: FastOpenCookie) -> Seg {
    Handshake::default().syn().fast_open(cookie)
}

/// A connection opened by a SYN with 100 bytes, its SYN-ACK taken off the wire.
fn opened() -> Harness {
    let mut h = server(8);
    let cookie = cookie(&mut h);
    h.send(syn_with(cookie).len(100));
    h.expect(seg().syn().seq(0).ack(101));
    h.expect_nothing();
    h.take_accepted();
    h
}

/// RFC 7413 §2.1-1.
#[test]
fn listeners_have_to_ask_for_it() {
    let mut h = Harness::new();
    h.listen(16, Options::default());
    h.send(syn_with(FastOpenCookie::REQUEST));
    assert_eq!(h.expect(seg().syn().ack(1)).options.fast_open, None);
}

/// RFC 7413 §4.2.2-6.
#[test]
fn an_answer_that_goes_again_goes_without_a_cookie() {
    let mut h = server(8);
    h.send(syn_with(FastOpenCookie::REQUEST));
    assert!(h.expect(seg().syn().ack(1)).options.fast_open.is_some());
    h.advance(1000);
    assert_eq!(h.expect(seg().syn().ack(1)).options.fast_open, None);
}

#[test]
fn cookies_are_given_to_those_who_ask() {
    let mut h = server(8);
    let first = cookie(&mut h);
    assert_eq!(first.as_bytes().len(), 8);
    assert_eq!(cookie(&mut h), first, "the same host, the same cookie");
    h.send(Handshake::default().syn());
    assert_eq!(h.expect(seg().syn().ack(1)).options.fast_open, None);
}

/// RFC 7413 §4.2.2-2.
#[test]
fn data_is_delivered_before_the_handshake_ends() {
    let mut h = opened();
    h.expect_state(State::SynReceived);
    assert_eq!(h.app.readable(h.slot()), 100);
    assert!(h.status().contains(crate::Status::CONNECTED));
    assert_eq!(h.stack.counters().fast_opens_in, 1);
    h.send(seg().seq(101).ack(1).win(WIN));
    h.expect_state(State::Established);
    h.expect_nothing();
}

/// RFC 7413 §4.2.2: the answer need not wait for the ACK.
#[test]
fn the_answer_goes_before_the_handshake_ends() {
    let mut h = opened();
    h.write(50);
    h.expect(seg().seq(1).ack(101).len(50));
    h.expect_state(State::SynReceived);
    h.send(seg().seq(101).ack(51).win(WIN));
    h.expect_state(State::Established);
    assert_eq!(h.info().flight, 0);
    h.send(seg().seq(101).ack(51).win(WIN).len(10));
    h.expect(seg().seq(51).ack(111));
    assert_eq!(h.read().len(), 110);
}

#[test]
fn an_early_answer_that_is_lost_is_sent_again() {
    let mut h = opened();
    h.write(50);
    h.expect(seg().seq(1).ack(101).len(50));
    h.send(seg().seq(101).ack(1).win(WIN));
    h.advance(3000);
    h.expect(seg().seq(1).ack(101).len(50));
    h.send(seg().seq(101).ack(51).win(WIN));
    h.drain();
    assert_eq!(h.info().flight, 0);
}

#[test]
fn a_whole_exchange_in_two_segments_each_way() {
    let mut h = opened();
    assert_eq!(h.read().len(), 100);
    h.write_without_transmit(50);
    h.shutdown();
    h.expect(seg().seq(1).ack(101).len(50).fin());
    h.send(seg().seq(101).ack(52).win(WIN).fin());
    h.expect(seg().seq(52).ack(102));
    h.expect_state(State::TimeWait);
}

/// RFC 7413 §4.1.2-1, §4.2.2-1.
#[test]
fn a_forged_cookie_opens_nothing() {
    let mut h = server(8);
    let good = cookie(&mut h);
    let bad = FastOpenCookie::new(&[7; 8]).unwrap();
    h.send(syn_with(bad).len(100));
    let reply = h.expect(seg().syn().seq(0).ack(1));
    // RFC 7413 §4.1.2: and the right one comes with the answer.
    assert_eq!(reply.options.fast_open, Some(good));
    assert_eq!(h.stack.usage().connections, 0);
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.take_accepted();
    h.expect_read(1, 100);
}

/// RFC 7413 §4.1.2-2.
#[test]
fn cookies_grow_old() {
    let mut h = server(8);
    let first = cookie(&mut h);
    h.advance(3_600_000);
    h.send(syn_with(first).len(100));
    // Still good, and a fresh one comes along.
    let second = h.expect(seg().syn().ack(101)).options.fast_open.unwrap();
    assert_ne!(first, second);
    h.advance(7_200_000);
    h.drain();
    h.send(syn_with(first).len(100).port(6000));
    h.expect(seg().syn().ack(1).port(6000));
}

/// RFC 7413 §5.1-1.
#[test]
fn unfinished_handshakes_are_limited() {
    let mut h = server(1);
    let cookie = cookie(&mut h);
    h.send(syn_with(cookie).len(10).port(6000));
    h.expect(seg().syn().ack(11).port(6000));
    h.send(syn_with(cookie).len(10).port(6001));
    h.expect(seg().syn().ack(1).port(6001));
    // The first completes its handshake: there is room again.
    h.send(seg().seq(11).ack(1).win(WIN).port(6000));
    h.send(syn_with(cookie).len(10).port(6002));
    h.expect(seg().syn().ack(11).port(6002));
}

/// RFC 7413 §5.1: spoofed SYNs whose victims answer with RST do not come for free.
/// RFC 7413 §5.1-1.
#[test]
fn a_reset_counts_for_a_while() {
    let mut h = server(1);
    let cookie = cookie(&mut h);
    h.send(syn_with(cookie).len(10).port(6000));
    h.expect(seg().syn().ack(11).port(6000));
    h.send(seg().rst().seq(11).port(6000));
    h.send(syn_with(cookie).len(10).port(6001));
    h.expect(seg().syn().ack(1).port(6001));
    h.advance(60_000);
    h.drain();
    h.send(syn_with(cookie).len(10).port(6002));
    h.expect(seg().syn().ack(11).port(6002));
}

#[test]
fn a_reset_before_the_ack_is_told() {
    let mut h = opened();
    h.send(seg().rst().seq(101));
    assert_eq!(h.ready().1, Some(Error::Reset));
    h.close();
    h.expect_gone();
}

#[test]
fn a_repeated_syn_is_answered_again() {
    let mut h = opened();
    h.send(Handshake::default().syn());
    h.expect(seg().syn().seq(0).ack(101));
    h.expect_nothing();
    h.send(seg().seq(101).ack(1).win(WIN));
    h.expect_state(State::Established);
}

#[test]
fn without_an_ack_it_ends() {
    let mut h = opened();
    for at in [1000, 2000, 4000, 8000, 16_000] {
        h.advance(at);
        h.expect(seg().syn().seq(0).ack(101));
        h.expect_nothing();
    }
    h.advance(32_000);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
    h.close();
    h.expect_gone();
}

#[test]
fn no_more_than_the_window_is_taken() {
    let mut h = Harness::new();
    let options = Options {
        fast_open: Some(8),
        recv_buffer: Some(64),
        ..Options::default()
    };
    h.listen(16, options);
    let cookie = cookie(&mut h);
    h.send(syn_with(cookie).len(1000));
    h.expect(seg().syn().ack(65));
}

#[test]
fn stacks_of_one_address_may_share_their_key() {
    let stack = |secret| {
        server_with(8, |config| {
            config.secret = [secret; 32];
            config.common_secret = Some([9; 32]);
        })
    };
    let cookie = cookie(&mut stack(1));
    let mut other = stack(2);
    other.send(syn_with(cookie).len(100));
    other.expect(seg().syn().ack(101));
}

#[test]
fn it_works_while_half_open_records_are_used_up() {
    let mut h = server_with(8, |config| config.max_half_open = 1);
    let cookie = cookie(&mut h);
    h.send(Handshake::default().syn().port(6000));
    h.expect(seg().syn().ack(1).port(6000));
    h.send(syn_with(cookie).len(100));
    h.expect(seg().syn().ack(101));
}

// ---- the client ---------------------------------------------------------------------------------

fn fast() -> Options {
    Options {
        fast_open_connect: true,
        ..Options::default()
    }
}

/// A client whose next connection goes to the same server; what it sent is taken off the wire.
/// Whether the SYN waits for the first bytes.
fn connect(h: &mut Harness) -> bool {
    h.conn = None;
    let local = SocketAddr::new(h.local().ip(), 0);
    let mut remote = h.peer();
    remote.set_port(80);
    let reply = h.execute(Command::Connect {
        token: CLIENT,
        local: Some(local),
        remote,
        options: fast(),
    });
    let (Reply::Connecting(conn, local) | Reply::Deferred(conn, local)) = reply else {
        panic!("{reply:?}");
    };
    h.conn = Some(conn);
    h.set_local(local);
    h.transmit();
    matches!(reply, Reply::Deferred(..))
}

/// A client that was given a cookie, and ended that connection.
fn acquainted(mss: u16) -> (Harness, FastOpenCookie) {
    let mut h = Harness::new();
    let syn = h.connect(fast());
    assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    let cookie = FastOpenCookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let answer = seg().syn().ack(1).win(WIN).mss(mss);
    h.send(answer.fast_open(cookie));
    h.expect(seg().seq(1).ack(1));
    h.abort();
    h.drain();
    (h, cookie)
}

/// The SYN of a client that was given a cookie and has 300 bytes to send.
fn sent() -> (Harness, TcpHeader) {
    let (mut h, cookie) = acquainted(1000);
    assert!(connect(&mut h));
    h.expect_nothing();
    assert!(h.ready().0.contains(Ready::WRITABLE));
    h.write(300);
    let syn = h.expect(seg().syn().seq(0).len(300));
    assert_eq!(syn.options.fast_open, Some(cookie));
    (h, syn)
}

/// RFC 7413 §2.1-1.
#[test]
fn without_the_option_nothing_is_asked() {
    let mut h = Harness::new();
    assert_eq!(h.connect(Options::default()).options.fast_open, None);
}

#[test]
fn data_that_the_syn_ack_acknowledges_has_arrived() {
    let (mut h, _) = sent();
    h.send(seg().syn().ack(301).win(WIN).mss(1000));
    h.expect(seg().seq(301).ack(1));
    h.expect_nothing();
    h.expect_state(State::Established);
    let info = h.info();
    assert_eq!((info.flight, info.unacked, info.bytes_acked), (0, 0, 300));
    assert_eq!(h.stack.counters().fast_opens_out, 1);
    h.advance(10_000);
    h.expect_nothing();
}

/// RFC 7413 §4.2.2-4.
#[test]
fn data_that_it_does_not_acknowledge_goes_again_at_once() {
    let (mut h, _) = sent();
    h.send(seg().syn().ack(1).win(WIN).mss(1000));
    h.expect(seg().seq(1).ack(1).len(300));
    h.send(seg().seq(1).ack(301).win(WIN));
    assert_eq!(h.info().flight, 0);
    assert_eq!(h.stack.counters().fast_opens_out, 0);
}

#[test]
fn a_part_may_have_arrived() {
    let (mut h, _) = sent();
    h.send(seg().syn().ack(101).win(WIN).mss(1000));
    h.expect(seg().seq(101).ack(1).len(200));
}

/// RFC 7413 §4.1.3.1: whatever swallows SYNs with data does not stop us twice.
/// RFC 7413 §4.1.3.1-1.
#[test]
fn behind_a_black_hole_it_falls_back() {
    let (mut h, _) = sent();
    h.advance(1000);
    let again = h.expect(seg().syn().seq(0));
    assert_eq!(again.options.fast_open, None);
    h.send(seg().syn().ack(1).win(WIN).mss(1000));
    h.expect(seg().seq(1).ack(1).len(300));
    assert_eq!(h.stack.counters().fast_open_losses, 1);
    h.abort();
    h.drain();
    // An ordinary handshake, for a minute.
    connect(&mut h);
    assert_eq!(h.expect(seg().syn()).options.fast_open, None);
    h.send(seg().syn().ack(1).win(WIN).mss(1000));
    h.abort();
    h.advance(60_000);
    h.drain();
    connect(&mut h);
    h.expect_nothing();
}

/// RFC 7413 §4.1.3.1: that the server does not take the data is remembered, unless it hands out
/// another cookie. RFC 7413 §4.1.3.1-2.
#[test]
fn a_server_that_takes_no_data_is_spared_for_a_while() {
    let syn_ack = seg().syn().ack(1).win(WIN).mss(1000);
    let (mut h, _) = sent();
    h.send(syn_ack.clone());
    h.expect(seg().seq(1).ack(1).len(300));
    h.abort();
    h.drain();
    connect(&mut h);
    assert_eq!(h.expect(seg().syn()).options.fast_open, None);

    let (mut h, _) = sent();
    let renewed = FastOpenCookie::new(&[7; 8]).unwrap();
    h.send(syn_ack.fast_open(renewed));
    h.expect(seg().seq(1).ack(1).len(300));
    h.abort();
    h.drain();
    connect(&mut h);
    h.expect_nothing();
    h.write(100);
    let cookie = h.expect(seg().syn().len(100)).options.fast_open;
    assert_eq!(cookie, Some(renewed));
}

/// The SYN was answered, and the answer lost: the answer to the second SYN still acknowledges the
/// data of the first.
#[test]
fn data_of_a_repeated_syn_counts() {
    let (mut h, _) = sent();
    h.advance(1000);
    h.expect(seg().syn().seq(0));
    h.send(seg().syn().ack(301).win(WIN).mss(1000));
    h.expect(seg().seq(301).ack(1));
    assert_eq!(h.info().unacked, 0);
    assert_eq!(h.stack.counters().fast_open_losses, 0);
}

/// RFC 7413 §4.2.2-3.
#[test]
fn a_syn_carries_no_more_than_a_segment() {
    for (mss, room) in [(1000, 1000), (1460, 1460), (9000, 1460), (100, 100)] {
        let (mut h, _) = acquainted(mss);
        connect(&mut h);
        h.write(5000);
        let (_, _, header, payload) = h.pop().unwrap();
        assert_eq!(header.options.emitted_len() + payload.len(), room, "{mss}");
    }
}

#[test]
fn a_client_without_words_shuts_down() {
    let (mut h, cookie) = acquainted(1000);
    connect(&mut h);
    h.shutdown();
    assert_eq!(h.expect(seg().syn()).options.fast_open, Some(cookie));
    h.send(seg().syn().ack(1).win(WIN).mss(1000));
    h.expect(seg().fin().seq(1).ack(1));
}

#[test]
fn a_refusal_is_a_refusal() {
    let (mut h, _) = sent();
    h.send(seg().rst().ack(301));
    assert_eq!(h.ready().1, Some(Error::Refused));
    h.close();
    h.expect_gone();
}

#[test]
fn a_client_that_never_writes_goes_quietly() {
    let (mut h, _) = acquainted(1000);
    connect(&mut h);
    h.expect_silence(100_000);
    h.close();
    h.expect_gone();
}

#[test]
fn an_acknowledgment_of_more_than_was_sent_is_none() {
    let (mut h, _) = sent();
    h.send(seg().syn().ack(302).win(WIN).mss(1000));
    h.expect_state(State::SynSent);
}
