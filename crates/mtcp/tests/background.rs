//! In paired mode the stack goes on while the application is elsewhere, and the two never wait for
//! each other.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::hint;
use std::time::{Duration, Instant};

use mtcp::{Context, Domain, Errno, RecvFlags, SocketId};
use support::{DEADLINE, Mode, SERVER, addr, contexts, on_threads, pattern};

const PORT: u16 = 80;

fn listening(context: &mut Context) -> SocketId {
    let listener = context.socket(Domain::V4).unwrap();
    context.bind(listener, addr("0.0.0.0", PORT)).unwrap();
    context.listen(listener, 16).unwrap();
    listener
}

fn connected(context: &mut Context) -> SocketId {
    let socket = context.socket(Domain::V4).unwrap();
    context.connect(socket, addr(SERVER, PORT)).unwrap();
    socket
}

/// A blocking connection between an inline client and a paired server.
fn connection() -> ((Context, SocketId), (Context, SocketId)) {
    let (mut client, mut server) = contexts(Mode::Inline, Mode::Paired);
    let listener = listening(&mut server);
    let socket = connected(&mut client);
    let (accepted, _) = server.accept(listener).unwrap();
    ((client, socket), (server, accepted))
}

/// Keeps the processor, as an application does that computes.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

#[test]
fn handshakes_need_no_call_of_the_application() {
    let (mut client, mut server) = contexts(Mode::Inline, Mode::Paired);
    let listener = listening(&mut server);
    // Blocks until the other side's stack has answered, whose application makes no call.
    connected(&mut client);
    server.accept(listener).unwrap();
}

#[test]
fn data_is_acknowledged_while_nobody_reads() {
    let ((mut client, socket), _server) = connection();
    let bytes = pattern(0, 10_000);
    assert_eq!(client.write(socket, &bytes), Ok(bytes.len()));
    let start = Instant::now();
    while client.unacknowledged(socket).unwrap().0 > 0 {
        assert!(start.elapsed() < DEADLINE, "nothing is acknowledged");
        client.poll().unwrap();
    }
}

#[test]
fn what_was_written_leaves_without_another_call() {
    let ((mut client, socket), (mut server, accepted)) = connection();
    server.set_nonblocking(accepted, true).unwrap();
    // The background driver sleeps by then.
    compute(Duration::from_millis(5));
    for round in 0..3 {
        let bytes = pattern(round, 1000);
        assert_eq!(server.write(accepted, &bytes), Ok(bytes.len()));
        let mut got = [0; 1000];
        let n = client.recv(socket, &mut got, RecvFlags::WAITALL).unwrap();
        assert_eq!(got[..n], bytes);
    }
}

/// Answers that come after about the time in which the background driver looks: it takes the stack
/// and gives it back all the time, and each way of losing a wake-up between the two threads ends in
/// a hang.
#[test]
fn the_two_take_turns() {
    const ROUNDS: u32 = 300;
    let (mut client, mut server) = contexts(Mode::Paired, Mode::Paired);
    let listener = listening(&mut server);
    let play = |mut context: Context, socket: SocketId, begins: bool| {
        for round in 0..ROUNDS {
            let mut byte = [0];
            if round > 0 || !begins {
                assert_eq!(context.read(socket, &mut byte), Ok(1));
            }
            compute(Duration::from_micros(700 + u64::from(round * 7 % 600)));
            assert_eq!(context.write(socket, &byte), Ok(1));
        }
        context.close(socket).unwrap();
        // The other side may be gone already, having had its ACK.
        let drained = context.drain(DEADLINE);
        assert!(
            matches!(drained, Ok(true) | Err(Errno::ENETDOWN)),
            "{drained:?}"
        );
    };
    on_threads(
        move || {
            let socket = connected(&mut client);
            play(client, socket, true);
        },
        move || {
            let (accepted, _) = server.accept(listener).unwrap();
            play(server, accepted, false);
        },
    );
}
