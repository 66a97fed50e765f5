//! Calls on sockets, one by one, against what POSIX and Linux say.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use mtcp::{
    Domain, EpollEvent, Errno, How, Kind, OptionName, RecvFlags, SocketId, SocketOption,
    SourceRange, State,
};
use support::{CLIENT, SERVER, World, addr, pattern};

#[test]
fn a_write_is_read_at_the_other_end() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    assert_eq!(w.client.write(c, b"hello"), Ok(5));
    w.settle();
    assert_eq!(w.server.available(s), Ok(5));
    let mut buf = [0; 8];
    assert_eq!(w.server.recv(s, &mut buf, RecvFlags::PEEK), Ok(5));
    assert_eq!(w.server.read(s, &mut buf[..2]), Ok(2));
    assert_eq!(w.server.read(s, &mut buf[2..]), Ok(3));
    assert_eq!(&buf[..5], b"hello");
    assert_eq!(w.server.read(s, &mut buf), Err(Errno::EAGAIN));
}

#[test]
fn vectors_are_filled_and_sent_in_order() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    assert_eq!(w.client.writev(c, &parts), Ok(5));
    w.settle();
    let (mut x, mut y) = ([0; 1], [0; 9]);
    let mut bufs = [
        IoSliceMut::new(&mut x),
        IoSliceMut::new(&mut []),
        IoSliceMut::new(&mut y),
    ];
    assert_eq!(w.server.readv(s, &mut bufs), Ok(5));
    assert_eq!((x, &y[..4]), (*b"a", &b"bcde"[..]));
}

#[test]
fn nobody_listens() {
    let mut w = World::new();
    let c = w.connect(81);
    w.settle();
    assert_eq!(w.client.take_error(c), Ok(Some(Errno::ECONNREFUSED)));
    assert_eq!(w.client.take_error(c), Ok(None));
    assert_eq!(
        w.client.connect(c, addr(SERVER, 81)),
        Err(Errno::ECONNABORTED)
    );
    let listener = w.listen(81);
    assert_eq!(
        w.client.connect(c, addr(SERVER, 81)),
        Err(Errno::EINPROGRESS)
    );
    w.accept(listener);
    assert_eq!(w.client.connect(c, addr(SERVER, 81)), Ok(()));
    assert_eq!(w.client.connect(c, addr(SERVER, 81)), Err(Errno::EISCONN));
}

#[test]
fn a_connect_under_way_is_not_started_twice() {
    let mut w = World::new();
    let c = w.client.socket(Domain::V4).unwrap();
    w.client.set_nonblocking(c, true).unwrap();
    // Nobody has this address: its hardware address is asked for in vain.
    let nobody = addr("10.0.0.77", 80);
    assert_eq!(w.client.connect(c, nobody), Err(Errno::EINPROGRESS));
    assert_eq!(w.client.connect(c, nobody), Err(Errno::EALREADY));
    assert_eq!(w.client.write(c, b"x"), Err(Errno::EAGAIN));
    assert_eq!(w.client.read(c, &mut [0; 1]), Err(Errno::EAGAIN));
    assert_eq!(w.client.peer_addr(c), Err(Errno::ENOTCONN));
    assert_eq!(w.client.close(c), Ok(()));
    let c = w.client.socket(Domain::V4).unwrap();
    assert_eq!(
        w.client.connect(c, addr("192.0.2.1", 80)),
        Err(Errno::ENETUNREACH)
    );
}

#[test]
fn a_reset_is_an_error_once() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client.write(c, b"last words").unwrap();
    w.settle();
    w.client.abort(c).unwrap();
    w.settle();
    assert_eq!(w.server.read(s, &mut [0; 64]), Ok(10));
    assert_eq!(w.server.read(s, &mut [0; 64]), Err(Errno::ECONNRESET));
    assert_eq!(w.server.read(s, &mut [0; 64]), Ok(0));
    assert_eq!(w.server.write(s, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.server.peer_addr(s), Err(Errno::ENOTCONN));
}

#[test]
fn a_write_after_a_reset_says_so_first() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client.abort(c).unwrap();
    w.settle();
    assert_eq!(w.server.write(s, b"x"), Err(Errno::ECONNRESET));
    assert_eq!(w.server.write(s, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.server.take_error(s), Ok(None));
}

#[test]
fn legacy_programs_see_resets_as_the_original_showed_them() {
    let mut w = World::with(|config| config.legacy_errors = true);
    let (c, s, _) = w.connection(80);
    assert_eq!(w.server.read(s, &mut []), Err(Errno::EAGAIN));
    assert_eq!(w.server.write(s, b""), Err(Errno::EAGAIN));
    w.client.write(c, b"x").unwrap();
    w.settle();
    assert_eq!(w.server.read(s, &mut []), Err(Errno::EAGAIN));
    assert_eq!(w.server.read(s, &mut [0; 64]), Ok(1));
    w.client.abort(c).unwrap();
    w.settle();
    assert_eq!(w.server.read(s, &mut [0; 64]), Ok(0));
    assert_eq!(w.server.write(s, b"x"), Err(Errno::ENOTCONN));
    // Not yet connected.
    let opening = w.connect(80);
    assert_eq!(w.client.read(opening, &mut [0; 64]), Err(Errno::ENOTCONN));
    assert_eq!(w.client.write(opening, b"x"), Err(Errno::ENOTCONN));
    w.settle();
    assert_eq!(w.client.write(opening, b"x"), Ok(1));
}

#[test]
fn half_close_leaves_the_other_half() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client.write(c, b"question").unwrap();
    w.client.shutdown(c, How::Write).unwrap();
    assert_eq!(w.client.write(c, b"more"), Err(Errno::EPIPE));
    w.settle();
    let mut buf = [0; 64];
    assert_eq!(w.server.read(s, &mut buf), Ok(8));
    assert_eq!(w.server.read(s, &mut buf), Ok(0));
    assert_eq!(w.server.write(s, b"answer"), Ok(6));
    w.server.close(s).unwrap();
    w.settle();
    assert_eq!(w.client.read(c, &mut buf), Ok(6));
    assert_eq!(w.client.read(c, &mut buf), Ok(0));
    w.client.close(c).unwrap();
    w.until(|w| (w.client.counters().unwrap().connections == 0).then_some(()));
    w.until(|w| (w.server.counters().unwrap().connections == 0).then_some(()));
}

#[test]
fn shutdown_of_reading_ends_reads() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client.write(c, b"x").unwrap();
    w.settle();
    w.server.shutdown(s, How::Read).unwrap();
    assert_eq!(w.server.read(s, &mut [0; 4]), Ok(1));
    assert_eq!(w.server.read(s, &mut [0; 4]), Ok(0));
    assert_eq!(w.server.write(s, b"y"), Ok(1));
}

#[test]
fn closing_with_unread_data_resets() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client.write(c, b"never read").unwrap();
    w.settle();
    w.server.close(s).unwrap();
    w.settle();
    assert_eq!(w.client.read(c, &mut [0; 4]), Err(Errno::ECONNRESET));
}

#[test]
fn linger_zero_resets() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    w.client
        .set_option(c, SocketOption::Linger(Some(Duration::ZERO)))
        .unwrap();
    w.client.close(c).unwrap();
    w.settle();
    assert_eq!(w.server.read(s, &mut [0; 4]), Err(Errno::ECONNRESET));
}

#[test]
fn linger_gives_up_in_time() {
    let mut w = World::new();
    let (c, _, _) = w.connection(80);
    w.client
        .write(c, b"nobody acknowledges this: the peer is not driven")
        .unwrap();
    w.client
        .set_option(c, SocketOption::Linger(Some(Duration::from_millis(50))))
        .unwrap();
    let start = std::time::Instant::now();
    assert_eq!(w.client.close(c), Ok(()));
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(50) && took < support::DEADLINE,
        "{took:?}"
    );
    assert_eq!(w.client.kind(c), Err(Errno::EBADF));
}

#[test]
fn linger_waits_for_the_peer() {
    let (mut client, mut server) = support::contexts(support::Mode::Inline, support::Mode::Paired);
    let listener = server.socket(Domain::V4).unwrap();
    server.bind(listener, addr(SERVER, 80)).unwrap();
    server.listen(listener, 1).unwrap();
    let c = client.socket(Domain::V4).unwrap();
    client.connect(c, addr(SERVER, 80)).unwrap();
    client
        .set_option(c, SocketOption::Linger(Some(support::DEADLINE)))
        .unwrap();
    client.write(c, &pattern(0, 1000)).unwrap();
    let start = std::time::Instant::now();
    client.close(c).unwrap();
    assert!(start.elapsed() < support::DEADLINE / 2);
    let (s, _) = server.accept(listener).unwrap();
    let mut buf = [0; 2000];
    assert_eq!(server.recv(s, &mut buf, RecvFlags::WAITALL), Ok(1000));
}

#[test]
fn calls_on_the_wrong_thing_say_so() {
    let mut w = World::new();
    let c = &mut w.client;
    let none = SocketId(4000);
    assert_eq!(c.read(none, &mut [0]), Err(Errno::EBADF));
    assert_eq!(c.close(none), Err(Errno::EBADF));
    let fresh = c.socket(Domain::V4).unwrap();
    assert_eq!(c.read(fresh, &mut [0]), Err(Errno::ENOTCONN));
    assert_eq!(c.write(fresh, b"x"), Err(Errno::ENOTCONN));
    assert_eq!(c.accept(fresh), Err(Errno::EINVAL));
    assert_eq!(c.shutdown(fresh, How::Both), Err(Errno::ENOTCONN));
    assert_eq!(
        c.connect(fresh, addr("fd00::2", 80)),
        Err(Errno::EAFNOSUPPORT)
    );
    assert_eq!(c.info(fresh), Err(Errno::ENOTCONN));
    let ep = c.epoll_create().unwrap();
    assert_eq!(c.kind(ep), Ok(Kind::Epoll));
    assert_eq!(c.read(ep, &mut [0]), Err(Errno::EINVAL));
    assert_eq!(c.bind(ep, addr(CLIENT, 1)), Err(Errno::ENOTSOCK));
    assert_eq!(
        c.set_option(ep, SocketOption::NoDelay(true)),
        Err(Errno::ENOTSOCK)
    );
    assert_eq!(c.abort(fresh), Err(Errno::ENOTCONN));
    assert_eq!(c.kind(fresh), Err(Errno::EBADF));
}

#[test]
fn bindings_are_kept_apart() {
    let mut w = World::new();
    let c = &mut w.client;
    let (a, b) = (c.socket(Domain::V4).unwrap(), c.socket(Domain::V4).unwrap());
    assert_eq!(c.bind(a, addr("10.9.9.9", 80)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(c.bind(a, addr("::1", 80)), Err(Errno::EAFNOSUPPORT));
    assert_eq!(c.bind(a, addr(CLIENT, 80)), Ok(()));
    assert_eq!(c.bind(a, addr(CLIENT, 81)), Err(Errno::EINVAL));
    assert_eq!(c.bind(b, addr("0.0.0.0", 80)), Err(Errno::EADDRINUSE));
    assert_eq!(c.bind(b, addr("0.0.0.0", 0)), Ok(()));
    assert_ne!(c.local_addr(b).unwrap().port(), 0);
    assert_eq!(c.listen(a, 0), Err(Errno::EINVAL));
    assert_eq!(c.listen(a, 4), Ok(()));
    assert_eq!(c.listen(a, 8), Ok(()));
    assert_eq!(
        c.option(a, OptionName::AcceptConn),
        Ok(SocketOption::AcceptConn(true))
    );
    assert_eq!(c.read(a, &mut [0]), Err(Errno::ENOTCONN));
    assert_eq!(c.connect(a, addr(SERVER, 80)), Err(Errno::EISCONN));
    c.close(a).unwrap();
    let again = c.socket(Domain::V4).unwrap();
    assert_eq!(c.bind(again, addr(CLIENT, 80)), Ok(()));
    assert_eq!(c.listen(again, 4), Ok(()));
}

#[test]
fn a_bound_socket_connects_from_there() {
    let mut w = World::new();
    let listener = w.listen(80);
    let c = w.client.socket(Domain::V4).unwrap();
    w.client.set_nonblocking(c, true).unwrap();
    w.client.bind(c, addr("0.0.0.0", 7777)).unwrap();
    assert_eq!(
        w.client.connect(c, addr(SERVER, 80)),
        Err(Errno::EINPROGRESS)
    );
    assert_eq!(w.client.local_addr(c), Ok(addr(CLIENT, 7777)));
    let s = w.accept(listener);
    assert_eq!(w.server.peer_addr(s), Ok(addr(CLIENT, 7777)));
}

#[test]
fn sources_are_taken_in_turn() {
    let mut w = World::with(|config| {
        if config.addresses[0].addr == addr(CLIENT, 0).ip() {
            config.set("addr", "10.0.0.3/24 10.0.0.4/24").unwrap();
        }
    });
    let listener = w.listen(80);
    let range = |base: &str, count| {
        Some(SourceRange {
            base: base.parse().unwrap(),
            count,
        })
    };
    assert_eq!(
        w.client.set_source_range(range("10.0.0.5", 3)),
        Err(Errno::EADDRNOTAVAIL)
    );
    assert_eq!(
        w.client.set_source_range(range("10.0.0.3", 0)),
        Err(Errno::EINVAL)
    );
    // The third is not ours.
    assert_eq!(w.client.set_source_range(range("10.0.0.3", 3)), Ok(2));
    let mut seen = Vec::new();
    for _ in 0..2 {
        w.connect(80);
        let s = w.accept(listener);
        seen.push(w.server.peer_addr(s).unwrap().ip().to_string());
    }
    assert_eq!(seen, ["10.0.0.3", "10.0.0.4"]);
}

#[test]
fn a_full_backlog_loses_nobody() {
    let mut w = World::new();
    let listener = w.server.socket(Domain::V4).unwrap();
    w.server.set_nonblocking(listener, true).unwrap();
    w.server.bind(listener, addr(SERVER, 80)).unwrap();
    w.server.listen(listener, 2).unwrap();
    let clients: Vec<SocketId> = (0..6).map(|_| w.connect(80)).collect();
    w.settle();
    let served: Vec<SocketId> = (0..6).map(|_| w.accept(listener)).collect();
    for &s in &served {
        w.server.write(s, b"served").unwrap();
    }
    for c in clients {
        w.until(|w| w.client.read(c, &mut [0; 6]).ok());
    }
}

#[test]
fn closing_a_listener_resets_who_waits() {
    let mut w = World::new();
    let listener = w.listen(80);
    let c = w.connect(80);
    w.settle();
    w.server.close(listener).unwrap();
    w.settle();
    assert_eq!(
        w.client.connect(c, addr(SERVER, 80)),
        Err(Errno::ECONNRESET)
    );
    w.until(|w| (w.server.counters().unwrap().connections == 0).then_some(()));
    let again = w.listen(80);
    w.connect(80);
    w.accept(again);
}

#[test]
fn options_are_kept_and_inherited() {
    let mut w = World::new();
    let listener = w.listen(80);
    for option in [
        SocketOption::NoDelay(true),
        SocketOption::KeepAlive(true),
        SocketOption::KeepIdle(Duration::from_secs(5)),
        SocketOption::KeepInterval(Duration::from_secs(2)),
        SocketOption::KeepCount(3),
        SocketOption::RecvBuffer(65_536),
        SocketOption::SendBuffer(32_768),
        SocketOption::UserTimeout(Duration::from_secs(9)),
        SocketOption::MaxSegment(1000),
        SocketOption::Linger(Some(Duration::from_secs(1))),
        SocketOption::ReuseAddr(true),
    ] {
        w.server.set_option(listener, option).unwrap();
    }
    let c = w.connect(80);
    let s = w.accept(listener);
    w.settle();
    for (name, value) in [
        (OptionName::NoDelay, SocketOption::NoDelay(true)),
        (OptionName::KeepAlive, SocketOption::KeepAlive(true)),
        (
            OptionName::KeepIdle,
            SocketOption::KeepIdle(Duration::from_secs(5)),
        ),
        (OptionName::KeepCount, SocketOption::KeepCount(3)),
        (OptionName::RecvBuffer, SocketOption::RecvBuffer(65_536)),
        (OptionName::SendBuffer, SocketOption::SendBuffer(32_768)),
        (
            OptionName::UserTimeout,
            SocketOption::UserTimeout(Duration::from_secs(9)),
        ),
        (
            OptionName::Linger,
            SocketOption::Linger(Some(Duration::from_secs(1))),
        ),
        (OptionName::Domain, SocketOption::Domain(Domain::V4)),
        (OptionName::Error, SocketOption::Error(None)),
    ] {
        assert_eq!(w.server.option(s, name), Ok(value));
    }
    // Timestamps take 12 bytes of each segment.
    let SocketOption::MaxSegment(mss) = w.client.option(c, OptionName::MaxSegment).unwrap() else {
        panic!()
    };
    assert!((900..=1000).contains(&mss), "{mss}");
    assert_eq!(
        w.server.set_option(s, SocketOption::AcceptConn(true)),
        Err(Errno::ENOPROTOOPT)
    );
    assert_eq!(
        w.server.set_option(s, SocketOption::KeepCount(0)),
        Err(Errno::EINVAL)
    );
}

#[test]
fn the_state_of_tcp_can_be_asked_for() {
    let mut w = World::new();
    let (c, s, listener) = w.connection(80);
    w.client.write(c, &pattern(0, 500)).unwrap();
    w.settle();
    let info = w.client.info(c).unwrap();
    assert_eq!(info.state, State::Established);
    assert_eq!(w.server.info(s).unwrap().bytes_received, 500);
    assert_eq!(w.server.info(listener), Err(Errno::EINVAL));
    w.server.read(s, &mut [0; 500]).unwrap();
    w.client.shutdown(c, How::Write).unwrap();
    w.settle();
    assert_eq!(w.server.info(s).unwrap().state, State::CloseWait);
}

#[test]
fn a_full_send_buffer_stops_the_writer() {
    let mut w = World::with(|config| config.sndbuf = 16_384);
    let (c, s, _) = w.connection(80);
    let data = pattern(0, 1 << 20);
    let mut sent = w.client.write(c, &data).unwrap();
    assert!(sent < data.len());
    let mut got = Vec::new();
    w.until(|w| {
        while let Ok(n) = w.client.write(c, &data[sent..]) {
            sent += n;
            if n == 0 {
                break;
            }
        }
        let mut buf = [0; 8192];
        while let Ok(n) = w.server.read(s, &mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
        (got.len() == data.len()).then_some(())
    });
    assert!(got == data);
}

#[test]
fn much_that_was_written_leaves_before_the_next_wait() {
    let mut w = World::new();
    let (c, s, _) = w.connection(80);
    let half = pattern(0, 64 << 10);
    assert_eq!(w.client.write(c, &half), Ok(half.len()));
    w.server.poll().unwrap();
    assert_eq!(w.server.available(s), Ok(0));
    assert_eq!(w.client.write(c, &half), Ok(half.len()));
    w.server.poll().unwrap();
    assert!(w.server.available(s).unwrap() > 0);
}

#[test]
fn the_largest_values_are_as_good_as_large_ones() {
    let mut w = World::new();
    let listener = w.listen(80);
    let c = w.client.socket(Domain::V4).unwrap();
    for option in [
        SocketOption::RecvBuffer(u32::MAX),
        SocketOption::SendBuffer(u32::MAX),
        SocketOption::UserTimeout(Duration::MAX),
        SocketOption::Linger(Some(Duration::MAX)),
    ] {
        w.server.set_option(listener, option).unwrap();
        w.client.set_option(c, option).unwrap();
    }
    w.client.set_nonblocking(c, true).unwrap();
    assert_eq!(
        w.client.connect(c, addr(SERVER, 80)),
        Err(Errno::EINPROGRESS)
    );
    let s = w.accept(listener);
    let data = pattern(0, 1 << 20);
    let (mut sent, mut got) = (0, Vec::new());
    w.until(|w| {
        if let Ok(n) = w.client.write(c, &data[sent..]) {
            sent += n;
        }
        let mut buf = [0; 8192];
        while let Ok(n) = w.server.read(s, &mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
        (got.len() == data.len()).then_some(())
    });
    assert!(got == data);
    let ep = w.client.epoll_create().unwrap();
    w.client.wake_handle().wake();
    assert_eq!(
        w.client
            .epoll_wait(ep, &mut [EpollEvent::default()], Some(Duration::MAX)),
        Ok(0)
    );
    w.client.wake_handle().interrupt();
    assert_eq!(w.client.close(c), Err(Errno::EINTR), "it lingers");
    assert_eq!(w.client.kind(c), Err(Errno::EBADF), "it is closed");
}

#[test]
fn pipes_carry_bytes() {
    let mut w = World::new();
    let c = &mut w.client;
    let (r, p) = c.pipe().unwrap();
    assert_eq!(c.read(r, &mut [0; 4]), Err(Errno::EDEADLK));
    // A call that need not wait does not.
    let at_once = c.recv(r, &mut [0; 4], RecvFlags::DONTWAIT);
    assert_eq!(at_once, Err(Errno::EAGAIN));
    for end in [r, p] {
        c.set_nonblocking(end, true).unwrap();
    }
    assert_eq!(c.read(r, &mut [0; 4]), Err(Errno::EAGAIN));
    assert_eq!(c.read(p, &mut [0; 4]), Err(Errno::EBADF));
    assert_eq!(c.write(r, b"x"), Err(Errno::EBADF));
    assert_eq!(c.write(p, &pattern(0, 10_240)), Ok(10_240));
    assert_eq!(c.available(r), Ok(10_240));
    let mut buf = vec![0; 20_000];
    assert_eq!(c.read(r, &mut buf), Ok(10_240));
    assert!(buf[..10_240] == pattern(0, 10_240)[..]);
    assert_eq!(c.write(p, &vec![1; 100_000]), Ok(65_536));
    assert_eq!(c.write(p, b"x"), Err(Errno::EAGAIN));
    c.close(p).unwrap();
    let mut all = 0;
    loop {
        match c.read(r, &mut buf).unwrap() {
            0 => break,
            n => all += n,
        }
    }
    assert_eq!(all, 65_536);
    let (r, p) = c.pipe().unwrap();
    c.close(r).unwrap();
    assert_eq!(c.write(p, b"x"), Err(Errno::EPIPE));
    assert_eq!(c.peer_addr(p), Err(Errno::ENOTSOCK));
}
