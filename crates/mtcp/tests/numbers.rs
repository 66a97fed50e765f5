//! Socket numbers: used again, used after close, used up.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::Duration;

use mtcp::{Ctl, Domain, EpollEvent, Errno, Events, How, Interest, OptionName, SocketId};
use support::{SERVER, World, addr};

/// News of what had a number before is not news of what has it now.
#[test]
fn a_number_used_again_is_another_socket() {
    let mut w = World::new();
    let (c, s, listener) = w.connection(80);
    let ep = w.server.epoll_create().unwrap();
    let interest = Interest {
        events: Events::IN,
        data: 1,
    };
    w.server.epoll_ctl(ep, Ctl::Add, s, interest).unwrap();
    // On its way when the number changes hands, and after.
    w.client.write(c, b"for the first").unwrap();
    w.client.poll().unwrap();
    w.server.close(s).unwrap();
    let d = w.connect(80);
    let other = w.accept(listener);
    assert_ne!(s, other, "not before the next report");
    w.client.close(d).unwrap();
    // Without an instance nothing is reported.
    w.server.close(ep).unwrap();
    let d = w.connect(80);
    let t = w.accept(listener);
    assert_eq!(s, t, "the first freed is the first used");
    let ep = w.server.epoll_create().unwrap();
    w.server.epoll_ctl(ep, Ctl::Add, t, interest).unwrap();
    w.settle();
    let mut events = [EpollEvent::default(); 4];
    let none = w.server.epoll_wait(ep, &mut events, Some(Duration::ZERO));
    assert_eq!(none, Ok(0));
    assert_eq!(w.server.read(t, &mut [0; 4]), Err(Errno::EAGAIN));
    // The FIN of the first came before the reset that answered its data.
    assert_eq!(w.client.read(c, &mut [0; 4]), Ok(0));
    w.client.write(d, b"yes").unwrap();
    let mut buf = [0; 8];
    assert_eq!(w.until(|w| w.server.read(t, &mut buf).ok()), 3);
}

/// Calls on what is closed fail, and do nothing to who has the number next.
#[test]
fn use_after_close_is_refused() {
    let mut w = World::new();
    let (c, _, _) = w.connection(80);
    w.client.close(c).unwrap();
    let k = &mut w.client;
    assert_eq!(k.close(c), Err(Errno::EBADF));
    assert_eq!(k.abort(c), Err(Errno::EBADF));
    assert_eq!(k.read(c, &mut [0; 4]), Err(Errno::EBADF));
    assert_eq!(k.write(c, b"x"), Err(Errno::EBADF));
    assert_eq!(k.shutdown(c, How::Both), Err(Errno::EBADF));
    assert_eq!(k.connect(c, addr(SERVER, 80)), Err(Errno::EBADF));
    assert_eq!(k.option(c, OptionName::NoDelay), Err(Errno::EBADF));
    assert_eq!(k.available(c), Err(Errno::EBADF));
    // Handles to a context may outlive it.
    let waker = k.wake_handle();
    drop(w);
    waker.wake();
    waker.interrupt();
}

#[test]
fn sockets_run_out_and_come_back() {
    let mut w = World::with(|config| config.max_concurrency = 16);
    let c = &mut w.client;
    let all: Vec<SocketId> = (0..16).map(|_| c.socket(Domain::V4).unwrap()).collect();
    assert!(all.iter().all(|id| id.0 < 16));
    assert_eq!(c.socket(Domain::V4), Err(Errno::ENFILE));
    assert_eq!(c.pipe(), Err(Errno::ENFILE));
    assert_eq!(c.epoll_create(), Err(Errno::ENFILE));
    c.close(all[3]).unwrap();
    assert_eq!(c.pipe(), Err(Errno::ENFILE));
    assert_eq!(c.socket(Domain::V4), Ok(all[3]));
}
