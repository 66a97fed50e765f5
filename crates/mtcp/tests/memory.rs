//! Send buffers share a pool: who finds it empty gets his turn when others are done.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mtcp::{
    Config, Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, SendFlags, SocketId,
};
use support::{DEADLINE, Mode, SERVER, World, addr, contexts_with, pattern};

const MODES: [Mode; 2] = [Mode::Inline, Mode::Paired];
const CHUNK: usize = 64 << 10;
/// What the server takes without being read from.
const READ: usize = 4096;
/// More than the pool has room for.
const MANY: usize = 1024;

fn small_pool(config: &mut Config) {
    config.buffer_memory = 1 << 20;
    config.sndbuf = CHUNK as u32;
    config.rcvbuf = READ as u32;
}

/// A client that has filled its pool with what nobody has read yet: all its sockets but the last
/// have written more than the server takes, which could write nothing. The server's thread reads
/// from all but that one when told to, and then `at_last` bytes or more from it.
fn exhausted(
    mode: Mode,
    at_last: usize,
) -> (
    Context,
    SocketId,
    mpsc::Sender<()>,
    thread::JoinHandle<(usize, Context)>,
) {
    let (mut client, mut server) = contexts_with(mode, Mode::Paired, small_pool);
    let listener = server.socket(Domain::V4).unwrap();
    server.bind(listener, addr(SERVER, 80)).unwrap();
    server.listen(listener, 4).unwrap();
    let chunk = vec![7; CHUNK];
    let (mut accepted, mut written) = (Vec::new(), Vec::new());
    let starved = loop {
        assert!(accepted.len() < MANY, "there is more memory than expected");
        let socket = client.socket(Domain::V4).unwrap();
        client.connect(socket, addr(SERVER, 80)).unwrap();
        accepted.push(server.accept(listener).unwrap().0);
        match client.send(socket, &chunk, SendFlags::DONTWAIT) {
            Ok(n) => written.push(n + fill(&mut client, socket, n)),
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                break socket;
            }
        }
    };
    assert!(accepted.len() > 4);
    let (go, told) = mpsc::channel();
    let reader = thread::spawn(move || {
        told.recv().unwrap();
        let mut buf = vec![0; CHUNK];
        let last = accepted.pop().unwrap();
        for (id, written) in accepted.into_iter().zip(written) {
            let mut got = 0;
            while got < written {
                got += server.read(id, &mut buf).unwrap();
            }
        }
        let mut got = 0;
        while got < at_last {
            got += server.read(last, &mut buf).unwrap();
        }
        // The link goes with it.
        (got, server)
    });
    (client, starved, go, reader)
}

/// Writes on after `written` bytes until the server takes no more, and something stays.
fn fill(client: &mut Context, socket: SocketId, written: usize) -> usize {
    let (start, mut more) = (Instant::now(), 0);
    while written + more <= READ {
        assert!(start.elapsed() < DEADLINE, "the server takes nothing");
        match client.send(socket, &[7; CHUNK], SendFlags::DONTWAIT) {
            Ok(n) => more += n,
            Err(_) => {
                client.poll().unwrap();
                thread::yield_now();
            }
        }
    }
    more
}

fn finish(reader: thread::JoinHandle<(usize, Context)>, context: &mut Context) {
    let start = Instant::now();
    while !reader.is_finished() {
        assert!(start.elapsed() < DEADLINE, "nothing arrives");
        context.poll().unwrap();
        thread::yield_now();
    }
    assert!(reader.join().unwrap().0 > 0);
}

#[test]
fn a_blocking_writer_gets_memory_that_others_give_back() {
    for mode in MODES {
        let (mut client, starved, go, reader) = exhausted(mode, CHUNK);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            go.send(()).unwrap();
            let written = client.write(starved, &[1; CHUNK]);
            tell.send((client, written)).unwrap();
        });
        let (mut client, written) = told.recv_timeout(DEADLINE).expect("the writer hangs");
        assert_eq!(written, Ok(CHUNK), "{mode:?}");
        finish(reader, &mut client);
    }
}

#[test]
fn epoll_tells_of_memory_that_others_give_back() {
    for mode in MODES {
        for how in [Events::empty(), Events::ET] {
            let (mut client, starved, go, reader) = exhausted(mode, 1);
            client.set_nonblocking(starved, true).unwrap();
            let ep = client.epoll_create().unwrap();
            let interest = Interest {
                events: Events::OUT | how,
                data: 1,
            };
            client.epoll_ctl(ep, Ctl::Add, starved, interest).unwrap();
            go.send(()).unwrap();
            let mut events = [EpollEvent::default()];
            let n = client.epoll_wait(ep, &mut events, Some(DEADLINE)).unwrap();
            assert_eq!((n, events[0].data), (1, 1), "{mode:?} {how:?}");
            assert!(client.write(starved, b"at last").unwrap() > 0);
            finish(reader, &mut client);
        }
    }
}

#[test]
fn trying_again_is_enough() {
    for mode in MODES {
        let (mut client, starved, go, reader) = exhausted(mode, 1);
        client.set_nonblocking(starved, true).unwrap();
        go.send(()).unwrap();
        let start = Instant::now();
        while client.write(starved, b"at last") == Err(Errno::EAGAIN) {
            assert!(start.elapsed() < DEADLINE, "{mode:?}: no memory comes back");
        }
        finish(reader, &mut client);
    }
}

/// Who writes to one socket after the other, and waits for none of them, gets the memory of those
/// that were read meanwhile.
#[test]
fn a_writer_that_never_waits_gets_memory_back() {
    const MUCH: usize = 128 << 10;
    let mut world = World::with(|config| {
        config.autotune = false;
        (config.buffer_memory, config.sndbuf) = (512 << 10, MUCH as u32);
    });
    let mut pairs = Vec::new();
    for port in 100..200 {
        let (client, server, _) = world.connection(port);
        pairs.push((client, server));
    }
    for (client, server) in pairs {
        let written = world.client.write(client, &pattern(0, MUCH));
        assert_eq!(written, Ok(MUCH), "{client:?}");
        let (mut read, mut buf) = (0, vec![0; MUCH]);
        world.until(|world| {
            read += world.server.read(server, &mut buf).unwrap_or_default();
            (read == MUCH).then_some(())
        });
        world.settle();
    }
}
