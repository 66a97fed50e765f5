//! What the kernel cannot be asked: many sockets, fairness, one bit per entry, waking, lost links,
//! idleness.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use mtcp::{Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, SocketId, SocketOption};
use support::{DEADLINE, Mode, SERVER, World, addr, contexts, contexts_with};

const NOW: Option<Duration> = Some(Duration::ZERO);

fn add(context: &mut Context, ep: SocketId, id: SocketId, events: Events) {
    context
        .epoll_ctl(
            ep,
            Ctl::Add,
            id,
            Interest {
                events,
                data: id.0.into(),
            },
        )
        .unwrap();
}

fn wait(context: &mut Context, ep: SocketId, room: usize) -> Vec<(u64, Events)> {
    let mut events = vec![EpollEvent::default(); room];
    let n = context.epoll_wait(ep, &mut events, NOW).unwrap();
    events[..n]
        .iter()
        .map(|event| (event.data, event.events))
        .collect()
}

#[test]
fn every_one_of_many_gets_a_turn() {
    let mut w = World::new();
    let listener = w.listen(80);
    let ep = w.server.epoll_create().unwrap();
    let mut served = Vec::new();
    for _ in 0..50 {
        let c = w.connect(80);
        let s = w.accept(listener);
        w.client.connect(c, addr(SERVER, 80)).unwrap();
        w.client.write(c, b"x").unwrap();
        add(&mut w.server, ep, s, Events::IN);
        served.push(u64::from(s.0));
    }
    w.settle();
    let mut seen: Vec<u64> = (0..10)
        .flat_map(|_| wait(&mut w.server, ep, 5))
        .map(|(data, _)| data)
        .collect();
    seen.sort_unstable();
    served.sort_unstable();
    assert_eq!(seen, served);
}

/// Reports that the program does nothing about leave room for what arrives.
#[test]
fn those_who_stay_ready_do_not_keep_others_from_coming() {
    let mut w = World::new();
    let listener = w.listen(80);
    let ep = w.server.epoll_create().unwrap();
    for _ in 0..100 {
        let c = w.connect(80);
        let s = w.accept(listener);
        w.client.connect(c, addr(SERVER, 80)).unwrap();
        w.client.write(c, b"x").unwrap();
        add(&mut w.server, ep, s, Events::IN);
    }
    w.settle();
    add(&mut w.server, ep, listener, Events::IN);
    w.connect(80);
    let late = u64::from(listener.0);
    w.until(|w| {
        let reports = wait(&mut w.server, ep, 7);
        reports.iter().any(|(data, _)| *data == late).then_some(())
    });
}

#[test]
fn a_thousand_connections_are_served() {
    let mut w = World::new();
    let listener = w.listen(80);
    let ep = w.server.epoll_create().unwrap();
    add(&mut w.server, ep, listener, Events::IN);
    let clients: Vec<SocketId> = (0..1000).map(|_| w.connect(80)).collect();
    let mut accepted = 0;
    let mut written = vec![false; clients.len()];
    let mut answered = vec![0; clients.len()];
    w.until(|w| {
        for (data, _) in wait(&mut w.server, ep, 64) {
            let id = SocketId(data as u32);
            if id == listener {
                while let Ok((s, _)) = w.server.accept(listener) {
                    w.server.set_nonblocking(s, true).unwrap();
                    add(&mut w.server, ep, s, Events::IN);
                    accepted += 1;
                }
                continue;
            }
            let mut buf = [0; 8];
            match w.server.read(id, &mut buf) {
                Ok(n) if n > 0 => {
                    w.server.write(id, &buf[..n]).unwrap();
                    w.server.close(id).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        for (i, &c) in clients.iter().enumerate() {
            if !written[i] {
                written[i] = w.client.write(c, &(i as u64).to_le_bytes()).is_ok();
            } else if answered[i] < 8 {
                let mut buf = [0; 8];
                if let Ok(n) = w.client.read(c, &mut buf) {
                    assert_eq!(n, 8);
                    assert_eq!(u64::from_le_bytes(buf), i as u64);
                    answered[i] = 8;
                    w.client.close(c).unwrap();
                }
            }
        }
        answered.iter().all(|&n| n == 8).then_some(())
    });
    assert_eq!(accepted, 1000);
}

#[test]
fn closing_inside_the_loop_takes_the_rest_along() {
    let mut w = World::new();
    let (c, s, listener) = w.connection(80);
    let c2 = w.connect(80);
    let s2 = w.accept(listener);
    let ep = w.server.epoll_create().unwrap();
    add(&mut w.server, ep, s, Events::IN);
    add(&mut w.server, ep, s2, Events::IN);
    w.client.write(c, b"x").unwrap();
    w.settle();
    w.client.write(c2, b"x").unwrap();
    w.settle();
    assert_eq!(wait(&mut w.server, ep, 1).len(), 1);
    w.server.close(s).unwrap();
    w.server.close(s2).unwrap();
    assert_eq!(wait(&mut w.server, ep, 8), []);
    // The numbers are reused, the registrations are not.
    w.connect(80);
    let again = w.accept(listener);
    assert!(again == s || again == s2);
    assert_eq!(wait(&mut w.server, ep, 8), []);
    add(&mut w.server, ep, again, Events::OUT);
    assert_eq!(wait(&mut w.server, ep, 8), [(again.0.into(), Events::OUT)]);
    w.server.close(ep).unwrap();
    assert_eq!(
        w.server.epoll_wait(ep, &mut [EpollEvent::default()], NOW),
        Err(Errno::EBADF)
    );
    w.server.close(again).unwrap();
}

#[test]
fn one_bit_per_entry_and_one_entry_per_wait() {
    let mut w = World::with(|config| config.one_event_per_entry = true);
    let (c, s, _) = w.connection(80);
    let ep = w.server.epoll_create().unwrap();
    add(&mut w.server, ep, s, Events::IN | Events::OUT);
    w.client.write(c, b"x").unwrap();
    w.settle();
    let data = u64::from(s.0);
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::IN)]);
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::OUT)]);
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::IN)]);
    w.server
        .epoll_ctl(
            ep,
            Ctl::Mod,
            s,
            Interest {
                events: Events::IN | Events::OUT | Events::ET,
                data,
            },
        )
        .unwrap();
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::IN)]);
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::OUT)]);
    assert_eq!(wait(&mut w.server, ep, 8), []);
    w.client.abort(c).unwrap();
    w.settle();
    // One byte has not been read, and the end is readable too.
    assert_eq!(wait(&mut w.server, ep, 8), [(data, Events::IN)]);
    assert_eq!(wait(&mut w.server, ep, 8), []);
    assert_eq!(w.server.read(s, &mut [0; 8]), Ok(1));
    assert_eq!(w.server.read(s, &mut [0; 8]), Err(Errno::ECONNRESET));
}

#[test]
fn a_reset_is_an_end_to_who_expects_the_events_of_the_original() {
    let end = Events::RDHUP | Events::IN | Events::OUT;
    for legacy in [false, true] {
        for (asked, told) in [
            (end, Events::RDHUP),
            (Events::IN | Events::OUT, Events::IN),
            (Events::OUT, Events::OUT),
            (Events::empty(), Events::HUP),
        ] {
            let mut w = World::with(|config| {
                config.one_event_per_entry = true;
                config.legacy_errors = legacy;
            });
            let (c, s, _) = w.connection(80);
            w.client.abort(c).unwrap();
            w.settle();
            let ep = w.server.epoll_create().unwrap();
            add(&mut w.server, ep, s, asked);
            // As long as it is there.
            for _ in 0..3 {
                assert_eq!(wait(&mut w.server, ep, 8), [(s.0.into(), told)]);
            }
            let read = w.server.read(s, &mut [0; 8]);
            assert_eq!(
                read,
                if legacy {
                    Ok(0)
                } else {
                    Err(Errno::ECONNRESET)
                }
            );
        }
    }
}

#[test]
fn wrong_calls_are_refused() {
    let mut w = World::new();
    let c = &mut w.client;
    let (ep, other) = (c.epoll_create().unwrap(), c.epoll_create().unwrap());
    let socket = c.socket(Domain::V4).unwrap();
    let interest = Interest::default();
    assert_eq!(
        c.epoll_ctl(ep, Ctl::Add, SocketId(999), interest),
        Err(Errno::EBADF)
    );
    assert_eq!(
        c.epoll_ctl(SocketId(999), Ctl::Add, socket, interest),
        Err(Errno::EBADF)
    );
    assert_eq!(
        c.epoll_ctl(socket, Ctl::Add, socket, interest),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        c.epoll_ctl(ep, Ctl::Add, other, interest),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        c.epoll_ctl(ep, Ctl::Mod, socket, interest),
        Err(Errno::ENOENT)
    );
    assert_eq!(c.epoll_ctl(ep, Ctl::Add, socket, interest), Ok(()));
    assert_eq!(
        c.epoll_ctl(ep, Ctl::Add, socket, interest),
        Err(Errno::EEXIST)
    );
    assert_eq!(c.epoll_wait(ep, &mut [], NOW), Err(Errno::EINVAL));
    assert_eq!(
        c.epoll_wait(socket, &mut [EpollEvent::default()], NOW),
        Err(Errno::EINVAL)
    );
}

#[test]
fn pipes_are_watched_too() {
    let mut w = World::new();
    let c = &mut w.client;
    let (r, p) = c.pipe().unwrap();
    let ep = c.epoll_create().unwrap();
    add(c, ep, r, Events::IN);
    assert_eq!(wait(c, ep, 8), []);
    c.write(p, b"x").unwrap();
    assert_eq!(wait(c, ep, 8), [(r.0.into(), Events::IN)]);
    c.close(p).unwrap();
    assert_eq!(wait(c, ep, 8), [(r.0.into(), Events::IN | Events::HUP)]);
}

#[test]
fn time_outs_are_kept() {
    for mode in support::MODES {
        let (mut client, _server) = contexts(mode, Mode::Inline);
        let ep = client.epoll_create().unwrap();
        let start = Instant::now();
        let n = client.epoll_wait(
            ep,
            &mut [EpollEvent::default()],
            Some(Duration::from_millis(30)),
        );
        let took = start.elapsed();
        assert_eq!(n, Ok(0));
        assert!(
            took >= Duration::from_millis(30) && took < DEADLINE,
            "{took:?}"
        );
    }
}

#[test]
fn a_wake_up_ends_the_sleep() {
    for mode in support::MODES {
        let (mut client, _server) = contexts(mode, Mode::Inline);
        let ep = client.epoll_create().unwrap();
        let handle = client.wake_handle();
        let waker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            handle.wake();
        });
        let start = Instant::now();
        assert_eq!(
            client.epoll_wait(ep, &mut [EpollEvent::default()], Some(DEADLINE)),
            Ok(0)
        );
        assert!(start.elapsed() < DEADLINE);
        waker.join().unwrap();
        // Before the sleep counts for the next one.
        client.wake_handle().wake();
        assert_eq!(
            client.epoll_wait(ep, &mut [EpollEvent::default()], Some(DEADLINE)),
            Ok(0)
        );
        assert!(start.elapsed() < DEADLINE);
    }
}

/// Contexts that look for work for longer than any test takes before they sleep.
fn restless(mode: Mode) -> (Context, Context) {
    contexts_with(mode, Mode::Inline, |config| config.spin = 2 * DEADLINE)
}

#[test]
fn who_looks_for_work_keeps_time_outs_and_hears_of_wake_ups() {
    for mode in support::MODES {
        let (mut client, _server) = restless(mode);
        let ep = client.epoll_create().unwrap();
        let mut room = [EpollEvent::default()];
        let (start, short) = (Instant::now(), Duration::from_millis(30));
        assert_eq!(client.epoll_wait(ep, &mut room, Some(short)), Ok(0));
        assert!(start.elapsed() >= short);
        let handle = client.wake_handle();
        let waker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            handle.wake();
        });
        assert_eq!(client.epoll_wait(ep, &mut room, None), Ok(0));
        waker.join().unwrap();
        assert!(start.elapsed() < DEADLINE);
    }
}

#[test]
fn timers_fire_while_nothing_else_happens() {
    // Looks that end at once, and one that goes on until something is there.
    for timeout in [NOW, Some(2 * DEADLINE)] {
        let (mut client, _server) = restless(Mode::Inline);
        let ep = client.epoll_create().unwrap();
        let socket = client.socket(Domain::V4).unwrap();
        client.set_nonblocking(socket, true).unwrap();
        let limit = SocketOption::UserTimeout(Duration::from_millis(200));
        client.set_option(socket, limit).unwrap();
        let (host, start) = (addr(SERVER, 80), Instant::now());
        assert_eq!(client.connect(socket, host), Err(Errno::EINPROGRESS));
        add(&mut client, ep, socket, Events::OUT);
        // Nobody answers.
        let mut room = [EpollEvent::default()];
        while client.epoll_wait(ep, &mut room, timeout) == Ok(0) {
            assert!(start.elapsed() < DEADLINE, "{timeout:?}");
        }
        assert!(start.elapsed() < DEADLINE);
        assert!(client.take_error(socket).unwrap().is_some());
    }
}

#[test]
fn a_message_is_seen_by_who_looks_again_and_again() {
    let (mut client, mut server) = restless(Mode::Inline);
    let mut world = World { client, server };
    let (socket, peer, _) = world.connection(80);
    World { client, server } = world;
    let ep = server.epoll_create().unwrap();
    add(&mut server, ep, peer, Events::IN);
    let sends = client.epoll_create().unwrap();
    let at_once = SocketOption::NoDelay(true);
    client.set_option(socket, at_once).unwrap();
    for round in 0..100 {
        assert_eq!(wait(&mut server, ep, 4), [], "{round}");
        assert_eq!(client.write(socket, &[round; 64]), Ok(64));
        assert_eq!(wait(&mut client, sends, 4), []);
        assert_eq!(wait(&mut server, ep, 4), [(peer.0.into(), Events::IN)]);
        let mut bytes = [0; 64];
        assert_eq!(server.read(peer, &mut bytes), Ok(64));
        assert_eq!(bytes, [round; 64]);
    }
}

#[test]
fn an_interruption_ends_blocking_calls() {
    for mode in support::MODES {
        let (mut client, _server) = contexts(mode, Mode::Inline);
        let listener = client.socket(Domain::V4).unwrap();
        client.listen(listener, 1).unwrap();
        let handle = client.wake_handle();
        let waker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            handle.interrupt();
        });
        assert_eq!(client.accept(listener), Err(Errno::EINTR));
        waker.join().unwrap();
        let ep = client.epoll_create().unwrap();
        client.wake_handle().interrupt();
        assert_eq!(
            client.epoll_wait(ep, &mut [EpollEvent::default()], NOW),
            Ok(0)
        );
        assert_eq!(
            client.epoll_wait(ep, &mut [EpollEvent::default()], None),
            Err(Errno::EINTR)
        );
    }
}

#[test]
fn a_lost_link_is_an_error_of_every_socket() {
    for mode in support::MODES {
        let (mut client, server) = contexts(mode, Mode::Inline);
        let ep = client.epoll_create().unwrap();
        let listener = client.socket(Domain::V4).unwrap();
        client.listen(listener, 1).unwrap();
        let socket = client.socket(Domain::V4).unwrap();
        client.set_nonblocking(socket, true).unwrap();
        assert_eq!(
            client.connect(socket, addr(SERVER, 80)),
            Err(Errno::EINPROGRESS)
        );
        for id in [listener, socket] {
            add(&mut client, ep, id, Events::IN);
        }
        drop(server);
        let mut events = [EpollEvent::default(); 8];
        let n = client.epoll_wait(ep, &mut events, None).unwrap();
        assert!(
            n >= 1
                && events[..n]
                    .iter()
                    .all(|event| event.events.contains(Events::ERR)),
            "{:?}",
            &events[..n]
        );
        assert!(client.link_error().is_some());
        assert_eq!(client.accept(listener), Err(Errno::ENETDOWN));
        assert_eq!(client.read(socket, &mut [0; 1]), Err(Errno::ENETDOWN));
        assert_eq!(client.write(socket, b"x"), Err(Errno::ENETDOWN));
        let other = client.socket(Domain::V4).unwrap();
        assert_eq!(
            client.connect(other, addr(SERVER, 80)),
            Err(Errno::ENETDOWN)
        );
        for id in [listener, socket, other] {
            client.close(id).unwrap();
        }
        assert_eq!(
            client.epoll_wait(ep, &mut events, None),
            Err(Errno::ENETDOWN)
        );
    }
}

#[test]
fn what_arrived_before_the_link_was_lost_can_be_read() {
    for mode in support::MODES {
        let (mut client, mut server) = contexts(mode, Mode::Inline);
        let listener = server.socket(Domain::V4).unwrap();
        server.bind(listener, addr(SERVER, 80)).unwrap();
        server.listen(listener, 4).unwrap();
        let c = client.socket(Domain::V4).unwrap();
        client.set_nonblocking(c, true).unwrap();
        assert_eq!(client.connect(c, addr(SERVER, 80)), Err(Errno::EINPROGRESS));
        let driver = thread::spawn(move || {
            let (s, _) = server.accept(listener).unwrap();
            server.write(s, b"last words").unwrap();
            server.close(s).unwrap();
        });
        let start = Instant::now();
        while !driver.is_finished() {
            client.poll().unwrap_or_default();
            assert!(start.elapsed() < DEADLINE);
        }
        driver.join().unwrap();
        client.set_nonblocking(c, false).unwrap();
        let mut buf = [0; 64];
        assert_eq!(client.read(c, &mut buf), Ok(10), "{mode:?}");
        assert_eq!(client.read(c, &mut buf), Ok(0), "{mode:?}");
        while client.poll().is_ok() {
            assert!(start.elapsed() < DEADLINE);
        }
        assert_eq!(client.write(c, b"x"), Err(Errno::ENETDOWN));
    }
}

#[test]
fn calls_without_epoll_make_progress() {
    let (mut client, mut server) = contexts(Mode::Inline, Mode::Inline);
    let listener = server.socket(Domain::V4).unwrap();
    server.set_nonblocking(listener, true).unwrap();
    server.bind(listener, addr(SERVER, 80)).unwrap();
    server.listen(listener, 4).unwrap();
    let c = client.socket(Domain::V4).unwrap();
    client.set_nonblocking(c, true).unwrap();
    let start = Instant::now();
    let retry = |client: &mut Context| {
        let done = client.connect(c, addr(SERVER, 80));
        assert!(start.elapsed() < DEADLINE);
        done
    };
    let mut accepted = None;
    while accepted.is_none() || retry(&mut client) == Err(Errno::EALREADY) {
        let _ = retry(&mut client);
        accepted = accepted.or(server.accept(listener).ok());
    }
    let (s, _) = accepted.unwrap();
    server.set_nonblocking(s, true).unwrap();
    client.write(c, b"ping").unwrap();
    let mut buf = [0; 4];
    while server.read(s, &mut buf) == Err(Errno::EAGAIN) {
        assert_eq!(client.read(c, &mut [0; 1]), Err(Errno::EAGAIN));
        assert!(start.elapsed() < DEADLINE);
    }
    assert_eq!(&buf, b"ping");
}

/// A program that tries sockets before it has them watched pays for a turn now and then, not for
/// one per call; and misses nothing for long.
#[test]
fn a_call_that_would_block_makes_do_with_the_turn_before_for_a_moment() {
    let mut w = World::new();
    let (c, s, listener) = w.connection(80);
    let other = w.connect(80);
    let watched = w.accept(listener);
    let ep = w.server.epoll_create().unwrap();
    add(&mut w.server, ep, watched, Events::OUT);
    let start = Instant::now();
    loop {
        assert_eq!(wait(&mut w.server, ep, 1).len(), 1);
        w.client.write(c, b"x").unwrap();
        w.client.poll().unwrap();
        let tried = w.server.read(s, &mut [0]);
        thread::sleep(Duration::from_millis(1));
        if tried == Err(Errno::EAGAIN) {
            break;
        }
        // The moment had passed.
        assert_eq!(tried, Ok(1));
        assert!(start.elapsed() < DEADLINE, "each call runs a turn");
    }
    assert_eq!(w.server.read(s, &mut [0]), Ok(1));
    w.client.close(other).unwrap();
}

#[test]
fn what_a_turn_brought_is_fresh_for_a_moment() {
    for mode in support::MODES {
        let (mut context, _peer) = contexts(mode, Mode::Inline);
        let start = Instant::now();
        let seen = (0..1000).any(|_| {
            context.poll().unwrap();
            context.is_fresh()
        });
        thread::sleep(Duration::from_millis(1));
        assert!(!context.is_fresh(), "after {:?}", start.elapsed());
        assert!(seen);
    }
}

#[test]
fn a_paired_context_ends_its_thread() {
    for _ in 0..20 {
        let (client, server) = contexts(Mode::Paired, Mode::Paired);
        drop(client);
        drop(server);
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let stacks = threads
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("mtcp-"))
        .count();
    // Other tests of this process run contexts of their own, a few at a time.
    assert!(stacks < 20, "{stacks} stack threads left");
}
