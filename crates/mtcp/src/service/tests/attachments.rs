//! What a program is given to attach with by a daemon that may be another user's.

use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::service::attachment::{Attachment, Words};

fn parts(world: &World) -> ([OwnedFd; 3], Words) {
    let who = Identity {
        id: 7,
        pid: 7,
        uid: 7,
    };
    let usage = Arc::default();
    let attachment = world.handle.attach(who, Arc::new(Few(8)), usage);
    attachment.unwrap().into_parts()
}

/// Memory of some size that nobody has sealed: a daemon could take it away later.
fn unsealed(bytes: u64) -> OwnedFd {
    let fd = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fd
}

fn joins(descriptors: [OwnedFd; 3], words: Words) -> bool {
    Attachment::from_parts(descriptors, words).is_some_and(|one| one.join().is_ok())
}

#[test]
fn descriptors_that_are_not_what_they_should_be_are_refused() {
    let world = World::new();
    let (descriptors, words) = parts(&world);
    assert!(joins(descriptors, words));
    let swap = |a: usize, b: usize| {
        let (mut descriptors, words) = parts(&world);
        descriptors.swap(a, b);
        joins(descriptors, words)
    };
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert!(!swap(a, b), "{a} is {b}");
    }
    for at in [0, 2] {
        let (given, _) = parts(&world);
        let bytes = u64::try_from(rustix::fs::fstat(&given[at]).unwrap().st_size).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for wrong in [null.into(), unsealed(bytes), unsealed(0), unsealed(4096)] {
            let (mut descriptors, words) = parts(&world);
            descriptors[at] = wrong;
            assert!(!joins(descriptors, words), "in place of {at}");
        }
    }
    world.end();
}

/// A doorbell that is none has nobody behind it: the daemon is gone.
#[test]
fn a_doorbell_that_is_none_is_a_daemon_that_has_ended() {
    let world = World::new();
    let ([queues, _, streams], words) = parts(&world);
    let null = std::fs::File::open("/dev/null").unwrap();
    let attachment = Attachment::from_parts([queues, null.into(), streams], words).unwrap();
    let (end, _) = attachment.join().unwrap();
    assert!(!end.lives());
    world.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One word is another: the attachment is refused, or is one.
    #[test]
    fn any_words_may_come(at in 0..7usize, word in prop_oneof![any::<u64>(), 0..70_000u64]) {
        let world = World::new();
        let (descriptors, mut words) = parts(&world);
        let is_same = words[at] == word;
        words[at] = word;
        // How large the largest buffer is changes no place.
        prop_assert_eq!(joins(descriptors, words), is_same || at == 4 && word <= u32::MAX.into());
        world.end();
    }
}

/// The kernel has all other ports of an address that both have.
#[test]
fn a_program_binds_to_ports_that_the_stack_has() {
    let (ours, _theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
    let mut of_daemon = config(HOST);
    of_daemon.own_ports = Some((61_000, 61_003));
    let (host, handle) = assembly::host_on_port(ours.into(), &of_daemon).unwrap();
    let daemon = thread::spawn(|| host.run());
    let who = Identity {
        id: 0,
        pid: 1,
        uid: 0,
    };
    let attachment = handle.attach(who, Arc::new(Few(8)), Arc::default());
    let mut program = Context::attach(attachment.unwrap(), None, &Config::default(), 0).unwrap();
    let mut ports: Vec<u16> = (0..4)
        .map(|_| {
            let socket = program.socket(Domain::V4).unwrap();
            program.bind(socket, at(HOST, 0)).unwrap();
            program.local_addr(socket).unwrap().port()
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [61_000, 61_001, 61_002, 61_003]);
    drop(program);
    handle.stop();
    daemon.join().unwrap().unwrap();
}

/// One that says much is heard a little at a time, and others in between.
#[test]
fn a_program_is_heard_in_pieces() {
    let (ours, _theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
    let (mut host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).unwrap();
    let mut attach = |id| {
        let who = Identity { id, pid: 1, uid: 0 };
        let attachment = handle.attach(who, Arc::new(Few(8)), Arc::default());
        host.take_orders();
        attachment.unwrap().join().unwrap().0
    };
    let (mut loud, mut calling, mut quiet) = (attach(1), attach(2), attach(3));
    let news = || {
        Staged::from(Doorbell::Send(ConnId {
            slot: 5,
            generation: 0,
        }))
    };
    // Whatever the ring had room for is said anew as it is heard.
    let say = |end: &mut ProgramEnd| {
        let said = (0..5_000).take_while(|_| end.stage(news())).count();
        end.publish();
        said
    };
    let ask = |end: &mut ProgramEnd| {
        let asked = (0..5_000).take_while(|serial| end.stage_call(*serial, &Call::Facts));
        let asked = asked.count();
        end.publish();
        asked
    };
    assert!(say(&mut loud) > 4_000 && ask(&mut calling) > 1_000);
    assert!(quiet.stage_call(1, &Call::Usage));
    quiet.publish();
    host.work().unwrap();
    assert!(matches!(quiet.hear(), Ok(Some(Heard::Answer(1, _)))));
    assert!((1..=16).contains(&say(&mut loud)));
    assert!((1..=16).contains(&ask(&mut calling)));
}
