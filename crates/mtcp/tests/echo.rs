//! Whole conversations, in every combination of modes and families.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use mtcp::{Context, Domain, Errno, How, RecvFlags, SocketId};
use support::{CLIENT, CLIENT6, Mode, SERVER, SERVER6, addr, contexts, on_threads, pattern};

const MODES: [(Mode, Mode); 7] = [
    (Mode::Service, Mode::Service),
    (Mode::Inline, Mode::Service),
    (Mode::Service, Mode::Inline),
    (Mode::Inline, Mode::Inline),
    (Mode::Paired, Mode::Paired),
    (Mode::Inline, Mode::Paired),
    (Mode::Paired, Mode::Inline),
];

fn domain(addr: SocketAddr) -> Domain {
    if addr.is_ipv4() {
        Domain::V4
    } else {
        Domain::V6
    }
}

fn listener(context: &mut Context, local: SocketAddr) -> SocketId {
    let listener = context.socket(domain(local)).unwrap();
    context.bind(listener, local).unwrap();
    context.listen(listener, 16).unwrap();
    listener
}

fn read_exactly(context: &mut Context, socket: SocketId, buf: &mut [u8]) {
    let mut at = 0;
    while at < buf.len() {
        let n = context.read(socket, &mut buf[at..]).unwrap();
        assert!(n > 0, "end of file after {at} bytes");
        at += n;
    }
}

/// The server says it listens by listening; a client that is early is refused and comes again.
fn connect(context: &mut Context, remote: SocketAddr) -> SocketId {
    loop {
        let socket = context.socket(domain(remote)).unwrap();
        match context.connect(socket, remote) {
            Ok(()) => return socket,
            Err(Errno::ECONNREFUSED) => context.close(socket).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits for the last ACK. The other side may be gone already: it had its own.
fn finish(mut context: Context) {
    let drained = context.drain(Duration::from_secs(10));
    assert!(
        matches!(drained, Ok(true) | Err(Errno::ENETDOWN)),
        "{drained:?}"
    );
}

fn echo(modes: (Mode, Mode), client_host: &'static str, server_host: &'static str) {
    let (mut client, mut server) = contexts(modes.0, modes.1);
    let at = addr(server_host, 7);
    on_threads(
        move || {
            let socket = connect(&mut client, at);
            assert_eq!(client.peer_addr(socket), Ok(at));
            assert_eq!(
                client.local_addr(socket).unwrap().ip(),
                addr(client_host, 0).ip()
            );
            for round in 0..50 {
                let message = pattern(round * 100, 100);
                assert_eq!(client.write(socket, &message), Ok(100));
                let mut answer = [0; 100];
                read_exactly(&mut client, socket, &mut answer);
                assert_eq!(answer[..], message[..]);
            }
            client.shutdown(socket, How::Write).unwrap();
            assert_eq!(client.read(socket, &mut [0; 10]), Ok(0));
            client.close(socket).unwrap();
            finish(client);
        },
        move || {
            let listener = listener(&mut server, at);
            let (socket, peer) = server.accept(listener).unwrap();
            assert_eq!(peer.ip(), addr(client_host, 0).ip());
            assert_eq!(server.local_addr(socket), Ok(at));
            let mut buf = [0; 64];
            loop {
                let n = server.read(socket, &mut buf).unwrap();
                if n == 0 {
                    break;
                }
                assert_eq!(server.write(socket, &buf[..n]), Ok(n));
            }
            server.close(socket).unwrap();
            server.close(listener).unwrap();
            finish(server);
        },
    );
}

#[test]
fn blocking_echo_in_all_modes() {
    for modes in MODES {
        echo(modes, CLIENT, SERVER);
    }
}

#[test]
fn blocking_echo_over_ipv6() {
    for modes in [MODES[0], MODES[1]] {
        echo(modes, CLIENT6, SERVER6);
    }
}

/// 10 MB each way at once would deadlock blocking programs; so one way, then the other.
fn transfer(modes: (Mode, Mode)) {
    const SIZE: usize = 10 << 20;
    let (mut client, mut server) = contexts(modes.0, modes.1);
    let at = addr(SERVER, 9);
    on_threads(
        move || {
            let socket = connect(&mut client, at);
            let data = pattern(0, SIZE);
            assert_eq!(client.write(socket, &data), Ok(SIZE));
            let mut back = vec![0; SIZE];
            assert_eq!(client.recv(socket, &mut back, RecvFlags::WAITALL), Ok(SIZE));
            assert!(back == data, "bytes differ");
            client.close(socket).unwrap();
            finish(client);
        },
        move || {
            let listener = listener(&mut server, at);
            let (socket, _) = server.accept(listener).unwrap();
            let mut data = vec![0; SIZE];
            read_exactly(&mut server, socket, &mut data);
            assert!(data == pattern(0, SIZE), "bytes differ");
            assert_eq!(server.write(socket, &data), Ok(SIZE));
            assert_eq!(server.read(socket, &mut [0; 1]), Ok(0));
            server.close(socket).unwrap();
            finish(server);
        },
    );
}

#[test]
fn ten_megabytes_inline() {
    transfer((Mode::Inline, Mode::Inline));
}

#[test]
fn ten_megabytes_paired() {
    transfer((Mode::Paired, Mode::Paired));
}

#[test]
fn ten_megabytes_between_daemons() {
    transfer((Mode::Service, Mode::Service));
}

#[test]
fn an_ipv6_wildcard_serves_ipv4_too() {
    let (mut client, mut server) = contexts(Mode::Inline, Mode::Inline);
    on_threads(
        move || {
            let socket = connect(&mut client, addr(SERVER, 80));
            assert_eq!(client.read(socket, &mut [0; 1]), Ok(0));
            client.close(socket).unwrap();
            finish(client);
        },
        move || {
            let listener = listener(&mut server, addr("::", 80));
            let (socket, peer) = server.accept(listener).unwrap();
            assert_eq!(peer.ip(), addr("::ffff:10.0.0.1", 0).ip());
            assert_eq!(server.local_addr(socket), Ok(addr("::ffff:10.0.0.2", 80)));
            server.close(socket).unwrap();
            finish(server);
        },
    );
}
