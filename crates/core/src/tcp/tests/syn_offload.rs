//! SYNs that the link has answered: the link here does as [`wire::syn_offload`] says, by other
//! means than ours.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use wire::seq::SeqNumber;
use wire::syn_offload::{SynOffload, SynRules};

use crate::command::{Command, Marking, Options};
use crate::config::{Config, SynCookies};
use crate::drops::DropReason;
use crate::event::Event;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, PEER_ISS, Seg, seg};

const WIN: u16 = 60_000;

/// A SYN as Linux sends it.
const HANDSHAKE: Handshake = Handshake {
    mss: Some(1460),
    wscale: Some(7),
    sack: true,
    ts: Some(500),
    window: 64_240,
};

#[derive(Debug, Default)]
struct Told {
    rules: Option<SynRules>,
    offered: Vec<SocketAddrV4>,
    flows: BTreeMap<u32, usize>,
}

/// What the stack tells its link.
#[derive(Clone, Debug, Default)]
struct Link(Arc<Mutex<Told>>);

impl Link {
    fn told<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether SYNs to where the harness listens are answered.
    fn is_offered(&self) -> bool {
        self.told(|told| !told.offered.is_empty())
    }

    /// Initial sequence number and timestamp of the answer to the peer's SYN.
    fn answer(&self, h: &Harness, port: u16) -> (SeqNumber, u32) {
        let rules = self.told(|told| told.rules).unwrap();
        let mut bytes = Vec::new();
        for addr in [h.local(), h.peer()] {
            let IpAddr::V4(addr) = addr.ip() else {
                panic!("IPv4 only");
            };
            bytes.extend(addr.octets());
        }
        bytes.extend(h.local().port().to_be_bytes());
        bytes.extend(port.to_be_bytes());
        let flow = hasher(rules.flow_key).hash(&bytes);
        let mut bytes = flow.to_le_bytes().to_vec();
        bytes.extend(PEER_ISS.0.to_le_bytes());
        let clock = h.now().as_millis() as u32;
        let stamp = ((flow >> 32) as u32).wrapping_mul(rules.stamps);
        let iss = hasher(rules.iss_key).hash(&bytes) as u32;
        (SeqNumber(iss), clock.wrapping_add(stamp))
    }
}

/// SipHash from the state in which it begins under a key.
fn hasher(state: [u64; 4]) -> SipHasher13 {
    let keys = [
        state[0] ^ 0x736f_6d65_7073_6575,
        state[1] ^ 0x646f_7261_6e64_6f6d,
    ];
    SipHasher13::new_with_keys(keys[0], keys[1])
}

impl SynOffload for Link {
    fn start(&mut self, rules: &SynRules) {
        self.told(|told| told.rules = Some(*rules));
    }

    fn offer(&mut self, local: SocketAddrV4, answered: bool) {
        self.told(|told| {
            told.offered.retain(|other| *other != local);
            told.offered.extend(answered.then_some(local));
        });
    }

    fn withdraw(&mut self, port: u16) {
        self.told(|told| told.offered.retain(|local| local.port() != port));
    }

    fn enter(&mut self, hash: u32) {
        self.told(|told| *told.flows.entry(hash).or_default() += 1);
    }

    fn leave(&mut self, hash: u32) {
        self.told(|told| {
            let count = told.flows.get_mut(&hash).expect("it entered");
            *count -= 1;
            if *count == 0 {
                told.flows.remove(&hash);
            }
        });
    }
}

fn offloaded(change: impl FnOnce(&mut Config)) -> (Harness, Link) {
    let mut h = Harness::with(change);
    let link = Link::default();
    assert!(h.stack.offload_syns(Box::new(link.clone())));
    (h, link)
}

/// A SYN that the link has answered: the peer has its SYN-ACK.
fn answered(h: &mut Harness, link: &Link, port: u16) {
    let (iss, tsval) = link.answer(h, port);
    h.seen.learn(port, iss, tsval);
    h.inject_answered(HANDSHAKE.syn().port(port));
}

/// A listener, and the peer's SYN from this port was answered.
fn answered_once() -> (Harness, Link, u16) {
    let (mut h, link) = offloaded(|_| {});
    h.listen(16, Options::default());
    let port = h.peer().port();
    answered(&mut h, &link, port);
    (h, link, port)
}

/// What the peer says next, at the time of the SYN-ACK.
fn ack(port: u16) -> Seg {
    seg().seq(1).ack(1).win(WIN).ts(501, 0).port(port)
}

#[test]
fn an_answered_syn_is_not_answered_again() {
    let (mut h, _, port) = answered_once();
    h.transmit();
    h.expect_nothing();
    assert_eq!(h.stack.usage().half_open, 1);
    h.send(ack(port).len(20));
    h.expect(seg().seq(1).ack(21).ts(0, 501));
    h.take_accepted();
    h.expect_state(State::Established);
    h.expect_read(1, 20);
    assert_eq!(h.stack.counters().syns_answered_by_link, 1);
    let info = h.info();
    assert_eq!((info.snd_wscale, info.snd_mss), (7, 1448));
}

/// RFC 9293 §3.8.1: the SYN-ACK is sent again if no ACK comes. It has the same number.
#[test]
fn an_answer_that_was_lost_is_repeated() {
    let (mut h, _, port) = answered_once();
    h.transmit();
    h.expect_nothing();
    h.advance(1000);
    h.expect(seg().syn().seq(0).ack(1).ts(1000, 500));
    // This ACK echoes the first: it is no measure (RFC 6298 §3, Karn).
    h.send(ack(port));
    h.take_accepted();
    h.expect_state(State::Established);
    assert_eq!(h.info().srtt, Duration::ZERO);
}

/// RFC 9293 §3.10.7.4: a copy of the SYN means that the peer has no answer.
#[test]
fn a_copy_of_the_syn_has_the_same_answer() {
    let (mut h, _, port) = answered_once();
    h.inject_answered(HANDSHAKE.syn().port(port));
    h.send(HANDSHAKE.syn().port(port));
    h.expect(seg().syn().seq(0).ack(1).ts(0, 500));
    h.expect_nothing();
    assert_eq!(h.stack.usage().half_open, 1);
}

/// RFC 6298 §3 (Karn): an ACK may be of either answer.
#[test]
fn an_ack_of_two_answers_is_no_measure() {
    let (mut h, _, port) = answered_once();
    h.pass(Duration::from_millis(100));
    h.send(HANDSHAKE.syn().port(port));
    h.expect(seg().syn().seq(0).ack(1).ts(100, 500));
    h.pass(Duration::from_millis(1));
    h.send(ack(port));
    h.take_accepted();
    h.expect_state(State::Established);
    assert_eq!(h.info().srtt, Duration::ZERO);
}

/// One that is due and was not sent does not count.
#[test]
fn an_ack_that_comes_before_the_second_answer_measures_the_first() {
    let again: [fn(&mut Harness, u16); 2] = [
        |h, port| h.inject(HANDSHAKE.syn().port(port)),
        |h, _| h.stack.advance(h.now()),
    ];
    for again in again {
        let (mut h, _, port) = answered_once();
        h.pass(Duration::from_millis(1000));
        again(&mut h, port);
        h.inject(ack(port));
        h.take_accepted();
        h.expect_state(State::Established);
        assert_eq!(h.info().srtt, Duration::from_secs(1));
    }
}

#[test]
fn the_link_knows_all_flows() {
    let (mut h, link, port) = answered_once();
    let flows = |link: &Link| link.told(|told| told.flows.len());
    assert_eq!(flows(&link), 1);
    h.send(ack(port));
    h.take_accepted();
    assert_eq!(flows(&link), 1);
    h.shutdown();
    h.expect(seg().fin().seq(1).ack(1));
    h.send(seg().seq(1).ack(2).win(WIN).ts(502, 0));
    h.send(seg().fin().seq(1).ack(2).win(WIN).ts(503, 0));
    h.expect(seg().seq(2).ack(2));
    h.close();
    // TIME_WAIT.
    assert_eq!(flows(&link), 1);
    h.advance(61_000);
    h.stack.advance(h.now());
    assert_eq!((flows(&link), h.stack.usage().flows), (0, 0));
    // One that we open is one as well.
    h.connect(Options::default());
    assert_eq!(flows(&link), 1);
}

/// RFC 9293 §3.4.1: to the link a copy of the SYN would be the SYN, and copies of all that followed
/// would have the connection once more.
#[test]
fn a_flow_that_has_ended_is_known_for_a_while() {
    let (mut h, link, port) = answered_once();
    let flows = |link: &Link| link.told(|told| told.flows.len());
    h.send(ack(port));
    h.take_accepted();
    h.send(seg().fin().seq(1).ack(1).win(WIN).ts(502, 0));
    h.expect(seg().seq(1).ack(2));
    h.close();
    h.expect(seg().fin().seq(1).ack(2));
    h.send(seg().seq(2).ack(2).win(WIN).ts(503, 0));
    assert_eq!((flows(&link), h.stack.usage().flows), (1, 0));
    for (millis, known) in [(0, 1), (99, 1), (1, 0)] {
        h.pass(Duration::from_millis(millis));
        h.stack.advance(h.now());
        assert_eq!(flows(&link), known, "{millis}");
    }
}

#[test]
fn a_listener_is_offered_from_its_first_syn_until_it_goes() {
    let (mut h, link) = offloaded(|_| {});
    h.listen(16, Options::default());
    assert!(!link.is_offered());
    h.send(HANDSHAKE.syn());
    h.expect(seg().syn().seq(0).ack(1));
    assert!(link.is_offered());
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    assert!(!link.is_offered());
}

/// What is in the link's answers is the same for all.
#[test]
fn listeners_with_answers_of_their_own_are_not_offered() {
    let hop_limit = Some(5);
    let marked = Marking {
        hop_limit,
        ..Marking::default()
    };
    for options in [
        Options {
            v4: marked,
            ..Options::default()
        },
        Options {
            fast_open: Some(8),
            ..Options::default()
        },
        Options {
            defer_accept: 2,
            ..Options::default()
        },
        Options {
            recv_buffer: Some(4096),
            ..Options::default()
        },
        Options {
            max_segment: Some(500),
            ..Options::default()
        },
    ] {
        let (mut h, link) = offloaded(|_| {});
        h.listen(16, options);
        h.send(HANDSHAKE.syn());
        assert!(!link.is_offered(), "{options:?}");
    }
}

/// RFC 9293 §3.10.5, SYN-RECEIVED STATE: it may be a connection for the peer.
#[test]
fn whom_the_link_has_answered_is_told_when_the_listener_goes() {
    let (mut h, _, _) = answered_once();
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    h.transmit();
    h.expect(seg().rst().seq(1).ack(1));
    assert_eq!(h.stack.usage().half_open, 0);
}

#[test]
fn new_options_of_a_listener_end_the_offer() {
    let (mut h, link) = offloaded(|_| {});
    h.listen(16, Options::default());
    h.send(HANDSHAKE.syn());
    assert!(link.is_offered());
    let (listener, options) = (
        h.listener(),
        Options {
            defer_accept: 2,
            ..Options::default()
        },
    );
    h.execute(Command::SetListenerOptions { listener, options });
    assert!(!link.is_offered());
}

/// As long as there is room for those that are answered before the stack hears of them.
#[test]
fn a_listener_that_is_half_full_is_not_offered() {
    let (mut h, link) = offloaded(|_| {});
    h.listen(4, Options::default());
    for port in 6000..6003 {
        answered(&mut h, &link, port);
        assert!(link.is_offered());
        h.send(ack(port));
    }
    answered(&mut h, &link, 6003);
    assert!(!link.is_offered());
    // Those two are kept although the backlog has no room for both, and the last is accepted when
    // it has.
    answered(&mut h, &link, 6004);
    h.send(ack(6003));
    h.send(ack(6004));
    assert_eq!(h.stack.usage().half_open, 1);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpBacklog), 1);
    let Some(Event::Accepted { conn, .. }) = h.events().first().copied() else {
        panic!("nothing to accept");
    };
    let token = CLIENT;
    h.execute(Command::Accept { conn, token });
    h.send(ack(6004));
    assert_eq!(h.stack.usage().half_open, 0);
    assert_eq!(h.stack.counters().accepts, 5);
}

/// RFC 4987 §3.4: a flood takes half of the records, and then the stack answers, with cookies in
/// the end.
#[test]
fn half_open_records_that_are_half_used_end_the_offer() {
    let (mut h, link) = offloaded(|config| config.max_half_open = 8);
    h.listen(64, Options::default());
    for port in 6000..6008 {
        answered(&mut h, &link, port);
        assert_eq!(link.is_offered(), port < 6004, "{port}");
    }
    h.send(HANDSHAKE.syn().port(6008));
    assert_eq!(h.stack.counters().syn_cookies_sent, 1);
    // One more that was answered has no record: the peer is told when its ACK comes.
    answered(&mut h, &link, 6009);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpHalfOpen), 1);
}

#[test]
fn stacks_with_answers_of_other_kinds_have_none_of_it() {
    let changes: [fn(&mut Config); 3] = [
        |config| config.timestamps = false,
        |config| config.window_scaling = false,
        |config| config.syn_cookies = SynCookies::Always,
    ];
    for change in changes {
        let mut h = Harness::with(change);
        assert!(!h.stack.offload_syns(Box::new(Link::default())));
        // What says that it has answered is not believed.
        h.listen(16, Options::default());
        h.inject_answered(HANDSHAKE.syn());
        h.transmit();
        h.expect_nothing();
        assert_eq!(h.stack.usage().half_open, 0);
    }
}

#[test]
fn a_stack_that_has_flows_does_not_begin_with_it() {
    let mut h = Harness::new();
    h.listen(16, Options::default());
    h.send(HANDSHAKE.syn());
    assert!(!h.stack.offload_syns(Box::new(Link::default())));
}
