//! What a turn sends.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::thread;
use std::time::Duration;

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
