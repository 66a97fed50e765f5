//! What a turn sends.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::thread;
use std::time::Duration;

use mtcp::{Ctl, EpollEvent, Events, Interest};
use support::World;

/// RFC 9293 MUST-40: a program may take long for what it was told, and has more to do when it comes back.
#[test]
fn the_ack_does_not_wait_twice_for_a_slow_program() {
    let mut world = World::new();
    let listener = world.listen(80);
    let client = world.connect(80);
    let server = world.until(|world| world.server.accept(listener).ok()).0;
    world.settle();
    world.client.write(client, &[1; 64]).unwrap();
    world.client.poll().unwrap();
    world.server.begin_turn().unwrap();
    let acks = |world: &mut World| world.server.counters().unwrap().counters.acks_out;
    let before = acks(&mut world);
    let mut buf = [0; 64];
    assert_eq!(world.server.read(server, &mut buf), Ok(64));
    thread::sleep(Duration::from_millis(5));
    world.server.begin_turn().unwrap();
    assert_eq!(acks(&mut world), before + 1);
}

/// A program that has been told of all, answered nothing and asks for more keeps no ACK waiting, also where something stays ready.
#[test]
fn the_ack_leaves_when_the_program_has_nothing_to_add() {
    let mut world = World::new();
    let (ready, _, _) = world.connection(80);
    world.listen(81);
    let ep = world.client.epoll_create().unwrap();
    let connecting = world.connect(81);
    for (socket, events) in [(ready, Events::OUT), (connecting, Events::OUT | Events::ET)] {
        let data = u64::from(socket.0);
        let interest = Interest { events, data };
        world
            .client
            .epoll_ctl(ep, Ctl::Add, socket, interest)
            .unwrap();
    }
    let mut told = Vec::new();
    let mut events = [EpollEvent::default(); 8];
    world.client.poll().unwrap();
    world.server.poll().unwrap();
    let acks = |world: &mut World| world.client.counters().unwrap().counters.acks_out;
    let before = acks(&mut world);
    while !told.contains(&u64::from(connecting.0)) {
        let n = world.client.epoll_wait(ep, &mut events, None).unwrap();
        told.extend(events[..n].iter().map(|event| event.data));
    }
    let n = world.client.epoll_wait(ep, &mut events, None).unwrap();
    assert_eq!(n, 1, "one is ready all the time");
    assert_eq!(acks(&mut world), before + 1);
}
