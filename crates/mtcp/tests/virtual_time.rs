//! A context on virtual time: calls wait for hours, and nobody sleeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use io::loopback::LoopPort;
use io::sim::{SimConfig, SimPort, pair};
use mtcp::{
    Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, SocketOption, VirtualClock, Waiter,
    in_virtual_time,
};
use mtcp_core::Config;
use mtcp_core::config::{Address, Interface, Route, StaticNeighbour};
use mtcp_core::{PortId, Undelivered};
use wire::frame::{Capabilities, MacAddr};
use wire::time::Instant;

/// Lets time pass; after the end of it, nothing waits any longer.
#[derive(Debug)]
struct Passing {
    clock: VirtualClock,
    end: Instant,
}

impl Waiter for Passing {
    fn wait(&self, context: &mut Context, until: Option<Instant>) {
        let now = self.clock.now();
        let next = until.unwrap_or(self.end).min(self.end);
        self.clock.advance(next.max(now + Duration::from_nanos(1)));
        if next >= self.end {
            context.wake_handle().interrupt();
        }
    }
}

/// A context, the other end of its link, where nobody is, and its time.
fn alone(end: Duration) -> (Context, SimPort, VirtualClock) {
    let clock = VirtualClock::default();
    let (near, far) = pair(SimConfig {
        tx_checksum: false,
        blocking: false,
        ..SimConfig::default()
    })
    .unwrap();
    let port = PortId(0);
    let peer = StaticNeighbour {
        addr: [10, 0, 0, 9].into(),
        prefix_len: 32,
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        port,
    };
    let link = Interface {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        capabilities: Capabilities {
            mtu: 1500,
            tx_checksum: false,
            loops: false,
            ..LoopPort::CAPABILITIES
        },
        addresses: vec![Address {
            addr: [10, 0, 0, 1].into(),
            prefix_len: 24,
        }],
    };
    let config = Config {
        secret: [7; 32],
        max_connections: 16,
        recv_pool: 8 << 20,
        send_pool: 8 << 20,
        huge_pages: false,
        interfaces: vec![link],
        routes: Vec::<Route>::new(),
        neighbours: vec![peer],
        ..Config::default()
    };
    let waiter = Arc::new(Passing {
        clock: clock.clone(),
        end: Instant::ZERO + end,
    });
    let context = in_virtual_time(near, config, &clock, waiter).unwrap();
    (context, far, clock)
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn calls_end_by_their_time_outs() {
    let (mut context, _far, clock) = alone(10 * HOUR);
    let listener = context.socket(Domain::V4).unwrap();
    context
        .bind(listener, "0.0.0.0:80".parse().unwrap())
        .unwrap();
    context.listen(listener, 5).unwrap();
    context
        .set_option(listener, SocketOption::RecvTimeout(Some(HOUR)))
        .unwrap();
    assert_eq!(context.accept(listener), Err(Errno::EAGAIN));
    assert_eq!(clock.now().since(Instant::ZERO), HOUR);
    let epoll = context.epoll_create().unwrap();
    let interest = Interest {
        events: Events::IN,
        data: 1,
    };
    context
        .epoll_ctl(epoll, Ctl::Add, listener, interest)
        .unwrap();
    let mut events = [EpollEvent::default()];
    assert_eq!(context.epoll_wait(epoll, &mut events, Some(HOUR)), Ok(0));
    assert_eq!(clock.now().since(Instant::ZERO), 2 * HOUR);
}

#[test]
fn a_connection_that_nobody_answers_fails_when_linux_gives_up() {
    let (mut context, _far, clock) = alone(HOUR);
    let socket = context.socket(Domain::V4).unwrap();
    let nobody = "10.0.0.9:80".parse().unwrap();
    assert_eq!(context.connect(socket, nobody), Err(Errno::ETIMEDOUT));
    // 1 + 2 + 4 + ... s.
    let seconds = clock.now().since(Instant::ZERO).as_secs();
    assert!((60..200).contains(&seconds), "{seconds}");
}

#[test]
fn a_wait_that_never_ends_is_interrupted() {
    let (mut context, _far, clock) = alone(HOUR);
    let listener = context.socket(Domain::V4).unwrap();
    context.listen(listener, 5).unwrap();
    assert_eq!(context.accept(listener), Err(Errno::EINTR));
    assert!(clock.now().since(Instant::ZERO) >= HOUR);
}

#[test]
fn what_is_counted_in_real_time_elsewhere_is_not_here() {
    let (mut context, _far, clock) = alone(HOUR);
    assert_eq!(
        context.deliver(Duration::from_secs(60)),
        Ok(Undelivered::default())
    );
    assert_eq!(context.drain(Duration::from_secs(60)), Ok(true));
    assert_eq!(clock.now(), Instant::ZERO);
}
