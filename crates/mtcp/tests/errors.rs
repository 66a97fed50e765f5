//! Which error a call reports, and how often.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::Duration;

use mtcp::{Domain, EpollEvent, Errno, SocketOption};
use support::{World, addr};

#[test]
fn a_peer_that_is_silent_for_too_long_is_an_error_everywhere() {
    let mut w = World::new();
    for ask in 0..3 {
        let (c, _, _) = w.connection(80 + ask);
        let timeout = SocketOption::UserTimeout(Duration::from_millis(250));
        w.client.set_option(c, timeout).unwrap();
        let ep = w.client.epoll_create().unwrap();
        let interest = mtcp::Interest {
            events: mtcp::Events::IN,
            data: 1,
        };
        w.client.epoll_ctl(ep, mtcp::Ctl::Add, c, interest).unwrap();
        assert_eq!(w.client.write(c, b"is anybody there?"), Ok(17));
        // The server does not run.
        let mut events = [EpollEvent::default()];
        let n = w
            .client
            .epoll_wait(ep, &mut events, Some(support::DEADLINE));
        assert_eq!(n, Ok(1));
        assert!(events[0].events.contains(mtcp::Events::ERR));
        let first = match ask {
            0 => w.client.write(c, b"x").unwrap_err(),
            1 => w.client.read(c, &mut [0; 4]).unwrap_err(),
            _ => w.client.take_error(c).unwrap().unwrap(),
        };
        assert_eq!(first, Errno::ETIMEDOUT);
        assert_eq!(w.client.write(c, b"x"), Err(Errno::EPIPE));
        assert_eq!(w.client.read(c, &mut [0; 4]), Ok(0));
        assert_eq!(w.client.take_error(c), Ok(None));
        w.client.close(c).unwrap();
    }
}

#[test]
fn what_was_heard_on_the_way_is_the_error_of_a_connect() {
    let mut w = World::new();
    let c = w.client.socket(Domain::V4).unwrap();
    // Nobody has this address: the link says so, long before the SYNs are given up. The call blocks
    // until it does.
    assert_eq!(
        w.client.connect(c, addr("10.0.0.78", 80)),
        Err(Errno::EHOSTUNREACH)
    );
    // The socket may try again.
    assert_eq!(
        w.client.connect(c, addr("192.0.2.1", 80)),
        Err(Errno::ENETUNREACH)
    );
}

#[test]
fn time_outs_of_calls_are_no_errors_of_the_connection() {
    let mut w = World::new();
    let (c, _, _) = w.connection(80);
    w.client.set_nonblocking(c, false).unwrap();
    let soon = Some(Duration::from_millis(20));
    w.client
        .set_option(c, SocketOption::RecvTimeout(soon))
        .unwrap();
    w.client
        .set_option(c, SocketOption::SendTimeout(soon))
        .unwrap();
    assert_eq!(w.client.read(c, &mut [0; 4]), Err(Errno::EAGAIN));
    // Nobody reads: in the end nothing more fits.
    let mut written = 0;
    let error = loop {
        match w.client.write(c, &[0; 1 << 20]) {
            Ok(n) => written += n,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Errno::EAGAIN);
    assert!(written > 0);
    assert_eq!(w.client.take_error(c), Ok(None));
    // A connect goes on in the background.
    let d = w.client.socket(Domain::V4).unwrap();
    w.client
        .set_option(d, SocketOption::SendTimeout(soon))
        .unwrap();
    let nobody = addr("10.0.0.79", 80);
    assert_eq!(w.client.connect(d, nobody), Err(Errno::EINPROGRESS));
    w.client.set_nonblocking(d, true).unwrap();
    assert_eq!(w.client.connect(d, nobody), Err(Errno::EALREADY));
}
