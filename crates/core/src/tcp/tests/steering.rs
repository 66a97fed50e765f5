//! A link that has to be told which segments are the stack's.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use wire::steering::Steering;
use wire::time::Instant;

use crate::command::{Command, Connect, Options};
use crate::config::{Config, SynCookies};
use crate::drops::DropReason;
use crate::error::Error;
use crate::id::OptionsId;
use crate::testing::{Handshake, Harness, restore, seg};

const WIN: u16 = 60_000;

#[derive(Debug, Default)]
struct Told {
    /// So many find room.
    room: usize,
    flows: BTreeSet<(SocketAddr, SocketAddr)>,
    listened: Vec<SocketAddr>,
    cookies: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Link(Arc<Mutex<Told>>);

impl Link {
    fn told<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn flows(&self) -> usize {
        self.told(|told| told.flows.len())
    }
}

impl Steering for Link {
    fn enter(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.told(|told| {
            let has_room = told.flows.len() < told.room;
            has_room && told.flows.insert((local, remote))
        })
    }

    fn leave(&mut self, local: SocketAddr, remote: SocketAddr) {
        let was = self.told(|told| told.flows.remove(&(local, remote)));
        assert!(was, "it entered");
    }

    fn listen(&mut self, local: SocketAddr) {
        self.told(|told| told.listened.push(local));
    }

    fn unlisten(&mut self, local: SocketAddr) {
        let at = self.told(|told| told.listened.iter().position(|other| *other == local));
        self.told(|told| told.listened.remove(at.expect("it listened")));
    }

    fn expect_cookies(&mut self, until: Instant) {
        self.told(|told| told.cookies = Some(until));
    }
}

fn steered(room: usize, change: impl FnOnce(&mut Config)) -> (Harness, Link) {
    let mut h = Harness::with(change);
    let link = Link::default();
    link.told(|told| told.room = room);
    h.stack.steer(Box::new(link.clone()));
    (h, link)
}

#[test]
fn a_flow_is_steered_from_before_its_first_answer_until_time_wait_ends() {
    let (mut h, link) = steered(8, |_| {});
    h.listen(8, Options::default());
    h.inject(Handshake::default().syn());
    assert_eq!(link.flows(), 1, "before the SYN-ACK leaves");
    let ends = (h.local(), h.peer());
    assert!(link.told(|told| told.flows.contains(&ends)));
    h.transmit();
    h.expect(seg().syn().ack(1));
    h.send(seg().seq(1).ack(1).win(WIN));
    h.take_accepted();
    h.close();
    h.expect(seg().fin().seq(1).ack(1));
    h.send(seg().fin().seq(1).ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    assert_eq!((link.flows(), h.stack.usage().flows), (1, 1), "TIME_WAIT");
    h.advance(61_000);
    h.stack.advance(h.now());
    assert_eq!((link.flows(), h.stack.usage().flows), (0, 0));
    h.start_connect(Options::default());
    assert_eq!(link.flows(), 1, "before the SYN leaves");
    h.abort();
    assert_eq!((link.flows(), h.stack.usage().flows), (0, 0));
}

#[test]
fn half_open_connections_that_nobody_completes_are_steered_no_more() {
    let (mut h, link) = steered(8, |_| {});
    h.listen(8, Options::default());
    h.send(Handshake::default().syn());
    h.expect(seg().syn().ack(1));
    assert_eq!(link.flows(), 1);
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    assert_eq!((link.flows(), h.stack.usage().half_open), (0, 0));
    assert!(link.told(|told| told.listened.is_empty()));
}

#[test]
fn without_room_connections_are_refused_and_syns_dropped() {
    let (mut h, link) = steered(1, |_| {});
    h.listen(8, Options::default());
    h.send(Handshake::default().syn().port(6000));
    h.expect(seg().syn().ack(1).port(6000));
    h.send(Handshake::default().syn().port(6001));
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpUnsteered), 1);
    let (now, remote) = (h.now(), h.peer());
    let options = Options::default();
    let request = Connect {
        token: crate::testing::CLIENT,
        local: None,
        remote,
        options: &options,
        known: OptionsId::NONE,
    };
    assert_eq!(h.stack.connect(now, &request).err(), Some(Error::NoBuffers));
    let usage = h.stack.usage();
    assert_eq!((usage.connections, usage.flows, link.flows()), (0, 1, 1));
}

#[test]
fn a_listener_at_any_address_of_both_families_is_two() {
    let (mut h, link) = steered(1, |_| {});
    for (local, only_v6, ends) in [
        ("[::]:81", false, vec!["[::]:81", "0.0.0.0:81"]),
        ("[::]:82", true, vec!["[::]:82"]),
        ("0.0.0.0:83", false, vec!["0.0.0.0:83"]),
    ] {
        let reply = h.execute(Command::Listen {
            token: crate::testing::LISTENER,
            local: local.parse().unwrap(),
            only_v6,
            backlog: 5,
            options: Options::default(),
        });
        let ends: Vec<SocketAddr> = ends.iter().map(|end| end.parse().unwrap()).collect();
        assert_eq!(link.told(|told| told.listened.clone()), ends);
        let crate::Reply::Listening(id, _) = reply else {
            panic!("{reply:?}");
        };
        h.execute(Command::Unlisten(id));
        assert!(link.told(|told| told.listened.is_empty()));
    }
}

/// RFC 4987 §3.6: nothing is kept of what a cookie stands for, so the link hears how long ACKs may
/// bring one back, and of the flow when one did.
#[test]
fn the_link_hears_how_long_cookies_may_come_back() {
    let (mut h, link) = steered(8, |config| config.syn_cookies = SynCookies::Always);
    h.listen(8, Options::default());
    h.send(Handshake::default().syn());
    let answer = h.expect(seg().syn().ack(1));
    assert_eq!(link.flows(), 0);
    let until = link.told(|told| told.cookies).unwrap();
    assert!(until > h.now());
    h.send(seg().seq(1).ack(1).win(WIN));
    h.take_accepted();
    assert_eq!((link.flows(), h.stack.usage().flows), (1, 1), "{answer:?}");
}

/// The link of a stack that goes on for another hears all that the link of that one had heard.
#[test]
fn a_stack_that_goes_on_tells_its_link_what_it_has() {
    let (mut h, link) = steered(8, |config| config.syn_cookies = SynCookies::Always);
    h.listen(8, Options::default());
    h.send(Handshake::default().syn());
    h.expect(seg().syn().ack(1));
    h.send(seg().seq(1).ack(1).win(WIN));
    h.take_accepted();
    let reply = h.execute(Command::Listen {
        token: crate::testing::LISTENER,
        local: "0.0.0.0:81".parse().unwrap(),
        only_v6: false,
        backlog: 5,
        options: Options::default(),
    });
    let crate::Reply::Listening(gone, _) = reply else {
        panic!("{reply:?}");
    };
    h.execute(Command::Unlisten(gone));
    let next = Link::default();
    next.told(|told| told.room = 8);
    let (_stack, _streams) = restore(&mut h, Some(Box::new(next.clone())));
    let heard = |link: &Link| link.told(|told| (told.flows.clone(), told.listened.clone()));
    assert_eq!(heard(&link), heard(&next));
    assert!(!next.told(|told| told.listened.is_empty()) && next.flows() == 1);
    let cookies = |link: &Link| link.told(|told| told.cookies);
    assert!(cookies(&next).is_some() && cookies(&link) == cookies(&next));
}
