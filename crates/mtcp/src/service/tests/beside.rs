//! Daemon and program on one processor.

use ring::duplex::Duplex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;

/// What is said to a daemon that sleeps on the processor of the program waits for the end of the
/// report, and no longer.
#[test]
fn a_daemon_beside_a_program_is_woken_once_for_many_reports() {
    pin_to_one();
    let rings = Duplex::make(host::SHAPE).unwrap();
    let (ours, theirs) = wake_socket::WakeSocket::pair().unwrap();
    let mut daemon = end::DaemonEnd::new(rings, ours);
    let memory = daemon.memory().try_clone_to_owned().unwrap();
    let mut program = ProgramEnd::new(Duplex::join(memory, host::SHAPE).unwrap(), theirs);
    let news = |slot| {
        Staged::from(Doorbell::Send(ConnId {
            slot,
            generation: 0,
        }))
    };
    assert!(daemon.begin_sleep());
    for slot in 0..3 {
        assert!(program.stage(news(slot)));
        assert!(program.publish_beside());
        // Who sleeps by other means asks this first.
        assert!(program.has_staged());
    }
    assert!(!program.publish(), "it is there already");
    assert!(!program.has_staged());
    assert!(daemon.end_sleep(), "it has rung");
    for slot in 0..3 {
        let heard = daemon.hear().unwrap();
        assert_eq!(heard, Some(end::Asked::News(news(slot).into())));
    }
    // One that runs sees it at once.
    assert!(program.stage(news(3)));
    assert!(program.publish_beside());
    assert!(!program.has_staged());
    assert!(!daemon.end_sleep());
}

/// A daemon that leaves its processor to a program takes it back where that says nothing.
#[test]
fn a_program_that_never_sleeps_again_is_waited_for_once() {
    pin_to_one();
    let (ours, theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
    let (mut host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).unwrap();
    let who = Identity {
        id: 0,
        pid: 1,
        uid: 0,
    };
    let policy = Arc::new(Few(8));
    let attachment = handle.attach(who, policy, Arc::default()).unwrap();
    let (mut end, _streams) = attachment.join().unwrap();
    host.take_orders();
    let listen = Call::Command(Command::Listen {
        token: Token(1),
        local: at("0.0.0.0", 8080),
        only_v6: false,
        backlog: 16,
        options: Options::default(),
    });
    assert!(end.stage_call(1, &listen));
    end.publish();
    assert!(end.begin_sleep());
    while host.work().unwrap() {}
    assert!(host.has_handed_over(), "the answer woke it");
    host.rest().unwrap();
    assert!(!host.has_handed_over());
    // It sleeps as ever: a frame ends that.
    let mut peer = Context::on_port(theirs, &config("10.0.0.1"), 0).unwrap();
    let socket = peer.socket(Domain::V4).unwrap();
    peer.set_nonblocking(socket, true).unwrap();
    assert_eq!(
        peer.connect(socket, at(HOST, 8080)),
        Err(Errno::EINPROGRESS)
    );
    host.rest().unwrap();
    assert!(host.work().unwrap());
}

/// Daemon, program and peer on one processor, each of which sleeps.
#[test]
fn conversations_go_on_where_all_share_a_processor() {
    pin_to_one();
    let mut world = World::new();
    let mut program = world.program(8);
    program.listen(8080, 1).unwrap();
    for _ in 0..50 {
        let socket = world.connect(8080).unwrap();
        let (_, conn) = program.accepted();
        for doorbell in [Doorbell::Accept(conn, Token(3)), Doorbell::Close(conn)] {
            assert!(program.end.stage(doorbell.into()));
            program.end.publish_beside();
        }
        program.streams.release(conn.slot);
        program.end.publish();
        assert_eq!(world.peer.read(socket, &mut [0]), Ok(0));
        world.peer.close(socket).unwrap();
    }
    world.end();
}

/// Of this thread, and those that it makes later.
fn pin_to_one() {
    let home = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| home.is_set(cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}
