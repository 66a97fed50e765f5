//! The states of RFC 9293, each from the one before.

use wire::tcp::TcpHeader;

use super::harness::{CLIENT, Handshake, Harness, LISTENER, SERVICE};
use super::seg::{Seg, seg};
use crate::command::{Command, Options, Reply};
use crate::event::Event;
use crate::info::State;
use std::net::SocketAddr;

impl Harness {
    /// SYN received, SYN-ACK sent; listens first if nothing does. Returns the SYN-ACK.
    #[track_caller]
    pub fn syn_received(&mut self, handshake: &Handshake) -> TcpHeader {
        if self.listener.is_none() {
            self.listen(16, Options::default());
        }
        self.send(handshake.syn());
        self.expect(seg().syn().ack(1).seq(0))
    }

    /// The ACK that completes the handshake.
    pub fn handshake_ack(&self, handshake: &Handshake) -> Seg {
        Seg {
            stamps: handshake.ts.map(|tsval| (tsval, 0)),
            ..seg().seq(1).ack(1).win(handshake.window)
        }
    }

    /// A passive handshake with `handshake`, accepted.
    #[track_caller]
    pub fn established_with(&mut self, handshake: &Handshake) {
        self.syn_received(handshake);
        self.send(self.handshake_ack(handshake));
        self.expect_nothing();
        self.take_accepted();
        self.events();
    }

    /// The connection that waits to be accepted is accepted.
    #[track_caller]
    pub fn take_accepted(&mut self) {
        let events = self.events();
        let [
            Event::Accepted {
                listener,
                conn,
                key,
            },
        ] = events[..]
        else {
            panic!("expected one Accepted, got {events:?}");
        };
        let (local, remote) = (key.local(), key.remote());
        assert_eq!((listener, local, remote), (LISTENER, self.local, self.peer));
        self.conn = Some(conn);
        let token = CLIENT;
        self.execute(Command::Accept { conn, token });
    }

    /// A passive handshake without options but an MSS of 1000, accepted.
    #[track_caller]
    pub fn established() -> Self {
        Self::new().and_established(&Handshake::default())
    }

    /// The same with other options, on this stack.
    #[track_caller]
    #[must_use]
    pub fn and_established(mut self, handshake: &Handshake) -> Self {
        self.established_with(handshake);
        self
    }

    /// An active open: SYN sent and taken off the wire. Returns the SYN.
    #[track_caller]
    pub fn connect(&mut self, options: Options) -> TcpHeader {
        self.start_connect(options);
        self.expect(seg().syn())
    }

    /// An active open: SYN sent.
    #[track_caller]
    pub fn start_connect(&mut self, options: Options) {
        self.peer.set_port(SERVICE);
        let reply = self.execute(Command::Connect {
            token: CLIENT,
            local: Some(SocketAddr::new(self.local.ip(), 0)),
            remote: self.peer,
            options,
        });
        let (Reply::Connecting(conn, local) | Reply::Deferred(conn, local)) = reply else {
            panic!("Connect replied {reply:?}");
        };
        self.conn = Some(conn);
        self.local = local;
        self.transmit();
    }

    /// An active open, established.
    #[track_caller]
    #[must_use]
    pub fn and_connected(mut self, handshake: &Handshake, options: Options) -> Self {
        self.connect(options);
        self.send(handshake.syn().ack(1));
        self.expect(seg().seq(1).ack(1));
        self.expect_nothing();
        self.events();
        self
    }

    /// ESTABLISHED, then the peer's FIN.
    #[track_caller]
    pub fn close_wait() -> Self {
        let mut h = Self::established();
        h.send(seg().seq(1).fin().ack(1).win(60_000));
        h.expect(seg().seq(1).ack(2));
        h.expect_state(State::CloseWait);
        h.events();
        h
    }

    /// ESTABLISHED, then our FIN.
    #[track_caller]
    pub fn fin_wait_1() -> Self {
        let mut h = Self::established();
        h.shutdown();
        h.expect(seg().seq(1).fin().ack(1));
        h.expect_state(State::FinWait1);
        h
    }

    /// FIN_WAIT_1, then its ACK.
    #[track_caller]
    pub fn fin_wait_2() -> Self {
        let mut h = Self::fin_wait_1();
        h.send(seg().seq(1).ack(2).win(60_000));
        h.expect_nothing();
        h.expect_state(State::FinWait2);
        h.events();
        h
    }

    /// Both FINs crossed.
    #[track_caller]
    pub fn closing() -> Self {
        let mut h = Self::fin_wait_1();
        h.send(seg().seq(1).fin().ack(1).win(60_000));
        h.expect(seg().seq(2).ack(2));
        h.expect_state(State::Closing);
        h.events();
        h
    }

    /// CLOSE_WAIT, then our FIN.
    #[track_caller]
    pub fn last_ack() -> Self {
        let mut h = Self::close_wait();
        h.shutdown();
        h.expect(seg().seq(1).fin().ack(2));
        h.expect_state(State::LastAck);
        h
    }

    /// FIN_WAIT_2, then the peer's FIN.
    #[track_caller]
    pub fn time_wait() -> Self {
        let mut h = Self::fin_wait_2();
        h.send(seg().seq(1).fin().ack(2).win(60_000));
        h.expect(seg().seq(2).ack(2));
        h.expect_state(State::TimeWait);
        h.events();
        h
    }
}
