//! What a turn sends.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};
use std::{fs, thread};

use mtcp::{Ctl, EpollEvent, Events, Interest};
use support::World;

/// RFC 9293 MUST-40: a program may take long for what it was told, and has more to do when it comes
/// back.
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

/// A program that has been told of all, answered nothing and asks for more keeps no ACK waiting,
/// also where something stays ready.
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

/// How often this thread has slept.
fn sleeps() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Has the server wait for `timeout`, after work that took longer than it looks for more. Whether
/// it slept, and how long that took.
fn waits_after_work(world: &mut World, spin: Duration, timeout: Duration) -> (bool, Duration) {
    let (client, server, _) = world.connection(80);
    let ep = world.server.epoll_create().unwrap();
    world.client.write(client, &[1; 64]).unwrap();
    world.client.poll().unwrap();
    world.server.poll().unwrap();
    assert_eq!(world.server.read(server, &mut [0; 64]), Ok(64));
    // The work.
    thread::sleep(spin + spin / 2);
    let (before, start) = (sleeps(), Instant::now());
    let mut events = [EpollEvent::default(); 8];
    let told = world.server.epoll_wait(ep, &mut events, Some(timeout));
    assert_eq!(told, Ok(0));
    (sleeps() > before, start.elapsed())
}

/// `spin_us` is how long to look for more when there is nothing to do. Two ends whose work for a
/// burst took longer slept after each, and woke each other up for the next.
#[test]
fn work_is_not_time_spent_looking() {
    let spin = Duration::from_millis(100);
    let deadline = Instant::now() + support::DEADLINE;
    loop {
        let mut world = World::with(|config| config.spin = spin);
        let (slept, took) = waits_after_work(&mut world, spin, spin / 10);
        // Where others had the processor so long, it looked for more all that time.
        if took < spin {
            assert!(!slept, "it looks for more first");
            break;
        }
        assert!(
            Instant::now() < deadline,
            "never on the processor: {took:?}"
        );
    }
    let mut world = World::with(|config| config.spin = spin);
    let (slept, _) = waits_after_work(&mut world, spin, spin * 2);
    assert!(slept, "and sleeps when nothing comes");
}
