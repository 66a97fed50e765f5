//! Connections whose bytes lie in memory of other processes.

use std::process::Command as Process;

use crate::command::{Command, Options};
use crate::event::Event;
use crate::id::ConnId;

use crate::testing::{CLIENT, Handshake, Harness, IN_HOMES, add_home, seg};

const WIN: u16 = 60_000;

/// All that holds of connections holds of those: the tests of TCP pass with every application in a
/// home.
#[test]
fn all_of_tcp_is_the_same_in_homes() {
    let tests = std::env::current_exe().unwrap();
    let output = Process::new(tests)
        .args(["tcp::tests", "--skip", "tcp::tests::homes", "--quiet"])
        .args(["--skip", "tcp::tests::replaced"]) // which has homes of its own
        .env(IN_HOMES, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let end = text.rfind("failures:").unwrap_or(0);
    assert!(
        output.status.success(),
        "{}",
        text.get(end..).unwrap_or(&text)
    );
}

/// A handshake of the peer's `port` with the listener; the connection that comes of it, if any.
fn accept(h: &mut Harness, port: u16) -> Option<ConnId> {
    let handshake = Handshake::default();
    h.send(handshake.syn().port(port));
    h.expect(seg().syn().ack(1).port(port));
    h.send(h.handshake_ack(&handshake).port(port));
    let accepted = |event| match event {
        Event::Accepted { conn, .. } => Some(conn),
        Event::Ready { .. } => None,
    };
    h.events().into_iter().find_map(accepted)
}

/// Each gets its own connections' bytes, in slots of its own.
#[test]
fn listeners_and_connections_are_of_who_opened_them() {
    let mut h = Harness::new();
    let (home, mut there) = add_home(&mut h.stack, 2, 1);
    h.stack.serve(home);
    h.listen(5, Options::default());
    h.stack.serve(0);
    let [first, second] = [5001, 5002].map(|port| accept(&mut h, port).unwrap());
    assert_eq!(h.stack.stream_of(first), Some((home, 0)));
    assert_eq!(h.stack.stream_of(second), Some((home, 1)));
    h.send(seg().seq(1).ack(1).win(WIN).len(100).port(5002));
    assert_eq!((there.readable(0), there.readable(1)), (0, 100));
    assert_eq!(there.write(1, b"answer"), 6);
    for conn in [first, second] {
        h.execute(Command::Accept {
            conn,
            token: CLIENT,
        });
    }
    h.execute(Command::Send(second));
    h.transmit();
    let answer = std::iter::from_fn(|| h.pop()).find(|(.., bytes)| !bytes.is_empty());
    assert_eq!(answer.map(|(.., bytes)| bytes), Some(b"answer".to_vec()));
    // There is no third slot: as where there is no memory for a connection.
    assert_eq!(accept(&mut h, 5003), None);
    there.release(0);
    h.execute(Command::Abort(first));
    assert_eq!(h.stack.stream_of(first), None);
    h.drain();
    h.send(h.handshake_ack(&Handshake::default()).port(5003));
    let events = h.events();
    assert!(matches!(events[..], [Event::Accepted { .. }]), "{events:?}");
    assert!(!h.stack.take_disorder(home));
}

/// What a program had written arrives, then the FIN; its listener is gone, and then its home.
#[test]
fn what_is_left_of_a_program_that_is_gone() {
    let mut h = Harness::new();
    let (home, mut there) = add_home(&mut h.stack, 4, 1);
    h.stack.serve(home);
    h.listen(5, Options::default());
    let conn = accept(&mut h, 5001).unwrap();
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    let waiting = accept(&mut h, 5002);
    assert!(waiting.is_some());
    assert_eq!(there.write(0, b"the last words"), 14);
    let now = h.now();
    h.stack.app_gone(now, home);
    drop(there);
    assert!(!h.stack.remove_home(home), "there is something to send");
    h.transmit();
    let sent: Vec<_> = std::iter::from_fn(|| h.pop()).collect();
    let last = sent.iter().find(|(.., bytes)| bytes == b"the last words");
    assert!(last.is_some_and(|(.., header, _)| header.flags.contains(wire::tcp::TcpFlags::FIN)));
    let reset = |flags: wire::tcp::TcpFlags| flags.contains(wire::tcp::TcpFlags::RST);
    assert!(
        sent.iter().any(|(.., header, _)| reset(header.flags)),
        "the backlog"
    );
    h.send(seg().seq(1).ack(16).win(WIN).port(5001));
    h.send(seg().seq(1).ack(16).fin().win(WIN).port(5001));
    h.advance(100);
    assert_eq!(h.stack.stream_of(conn), None);
    assert!(h.stack.remove_home(home));
    let usage = h.stack.usage();
    assert_eq!(
        (usage.listeners, usage.connections, usage.recv_bytes),
        (0, 0, 0)
    );
}

/// A connection goes on in this process with all that came, in order or not, and all that was
/// written: the peer notices nothing.
#[test]
fn a_connection_that_its_program_has_released_goes_on_here() {
    let mut h = Harness::new();
    let nodelay = Options {
        nodelay: true,
        ..Options::default()
    };
    let (home, mut there) = add_home(&mut h.stack, 4, 1);
    h.stack.serve(home);
    h.listen(5, nodelay);
    let conn = accept(&mut h, 5001).unwrap();
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    h.send(seg().seq(1).ack(1).win(WIN).data(b"abcdef").port(5001));
    h.send(seg().seq(9).ack(1).win(WIN).data(b"ijkl").port(5001));
    assert_eq!(there.read(0, &mut [0; 2]), 2);
    assert_eq!(there.write(0, b"0123456789"), 10);
    h.execute(Command::Send(conn));
    h.transmit();
    h.drain();
    let taken = h.stack.take_streams(conn, &mut h.app);
    assert!(taken.is_err(), "the program holds it");
    assert_eq!(there.write(0, b"written"), 7);
    there.release(0);
    h.stack.take_streams(conn, &mut h.app).unwrap();
    assert_eq!(h.stack.stream_of(conn), Some((0, conn.slot)));
    h.send(seg().seq(7).ack(5).win(WIN).data(b"gh").port(5001));
    let mut read = [0; 20];
    assert_eq!(h.app.read(conn.slot, &mut read), 10);
    assert_eq!(&read[..10], b"cdefghijkl");
    assert_eq!(h.app.unsent(conn.slot), 13);
    assert_eq!(h.app.write(conn.slot, b" here"), 5);
    h.execute(Command::Send(conn));
    h.transmit();
    let sent: Vec<_> = std::iter::from_fn(|| h.pop()).collect();
    let bytes: Vec<u8> = sent.iter().flat_map(|(.., bytes)| bytes.clone()).collect();
    assert_eq!(bytes, b"written here");
    // What was sent before is still there to be sent again.
    h.send(seg().seq(13).ack(5).win(WIN).port(5001));
    h.advance(3000);
    h.transmit();
    let again = std::iter::from_fn(|| h.pop()).find(|(.., bytes)| !bytes.is_empty());
    assert!(again.is_some_and(|(.., bytes)| bytes.starts_with(b"456789")));
    h.app.release(conn.slot);
    h.execute(Command::Close(conn));
    h.transmit();
    h.send(seg().seq(13).ack(24).win(WIN).fin().port(5001));
    h.advance(100);
    h.stack.app_gone(h.now(), home);
    assert!(h.stack.remove_home(home));
}
