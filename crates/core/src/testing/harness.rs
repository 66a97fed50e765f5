//! A stack and a scripted peer.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use wire::frame::{RxFrame, RxMeta};
use wire::seq::SeqNumber;
use wire::tcp::TcpHeader;
use wire::time::Instant;

use super::frames::{codepoint, compose, dissect, mark};
use super::homes::{IN_HOMES, Program, move_out};
use super::seen::{PEER_ISS, Seen};
use super::seg::{Seg, seg};
use super::sink::Sink;
use super::{config, mac, v4, v6};
use crate::config::Config;
use crate::event::Event;
use crate::id::{ConnId, ListenerId, PortId, Token};
use crate::stack::Stack;
use crate::{Acks, AppStreams, Testament};

/// Token of listeners.
pub const LISTENER: Token = Token(7);
/// Token of connections.
pub const CLIENT: Token = Token(8);

const PORT: PortId = PortId(0);
/// Where the stack listens, and the peer when the stack connects.
pub(super) const SERVICE: u16 = 80;
/// The peer's port when it connects.
const PEER_PORT: u16 = 5000;
/// What the peer offers in its SYN.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// MSS option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub wscale: Option<u8>,
    /// SACK-permitted option.
    pub sack: bool,
    /// Timestamps option, TSval.
    pub ts: Option<u32>,
    /// Window field of SYN and ACK.
    pub window: u16,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            mss: Some(1000),
            wscale: None,
            sack: false,
            ts: None,
            window: 60_000,
        }
    }
}

impl Handshake {
    /// The same with other options.
    pub fn syn(&self) -> Seg {
        Seg {
            mss: self.mss,
            wscale: self.wscale,
            sack_permitted: self.sack,
            stamps: self.ts.map(|tsval| (tsval, 0)),
            ..seg().syn().win(self.window)
        }
    }
}

/// A stack, the application on it, and a peer that sends what the test says. Time is virtual and
/// starts at 10 s.
#[derive(Debug)]
pub struct Harness {
    /// The stack.
    pub stack: Stack,
    /// The application's end of the byte streams.
    pub app: AppStreams,
    /// The connection of the test, once there is one.
    pub conn: Option<ConnId>,
    /// What the stack sent.
    pub sink: Sink,
    pub(super) now: Instant,
    start: Instant,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// What the peer has seen of the stack.
    pub seen: Seen,
    pub(super) events: Vec<Event>,
    pub(super) listener: Option<ListenerId>,
    /// Where the application is, if it is in another process.
    pub(super) program: Option<Program>,
}

impl Default for Harness {
    fn default() -> Self {
        Self::new()
    }
}

impl Harness {
    /// A stack with [`config`].
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A stack with a changed configuration.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let with_homes = |config: &mut Config| {
            config.max_homes = 2;
            change(config);
        };
        let mut harness = Self::on(Instant::ZERO, with_homes, Stack::new);
        if std::env::var_os(IN_HOMES).is_some() {
            harness.program = Some(move_out(&mut harness.stack, &mut harness.app));
        }
        // Address checks end, announcements go out.
        harness.advance(10_000);
        harness.sink.frames.clear();
        harness.start = harness.now;
        harness
    }

    /// A stack that takes the place of the one of `before`, which has ended, and whose peer it has.
    pub fn heir(
        before: Self,
        change: impl FnOnce(&mut Config),
        testament: impl FnOnce() -> Testament,
    ) -> Self {
        let Self {
            stack,
            app,
            now,
            seen,
            local,
            peer,
            ..
        } = before;
        drop((stack, app));
        let testament = testament();
        Self {
            seen,
            local,
            peer,
            ..Self::on(now, change, |config| {
                Stack::heir(config, now, testament, Vec::new())
            })
        }
    }

    fn on(
        now: Instant,
        change: impl FnOnce(&mut Config),
        make: impl FnOnce(Config) -> io::Result<(Stack, AppStreams)>,
    ) -> Self {
        let mut config = config(1, 2);
        change(&mut config);
        let frame_len = usize::from(config.interfaces[0].capabilities.mtu) + 18;
        let (stack, app) = make(config).expect("stack");
        Self {
            stack,
            app,
            conn: None,
            sink: Sink {
                frame_len,
                ..Sink::default()
            },
            now,
            start: now,
            local: SocketAddr::new(v4(1), SERVICE),
            peer: SocketAddr::new(v4(2), PEER_PORT),
            seen: Seen::default(),
            events: Vec::new(),
            listener: None,
            program: None,
        }
    }

    /// The same with IPv6 addresses.
    #[must_use]
    pub fn over_ipv6(mut self) -> Self {
        self.local.set_ip(v6(1));
        self.peer.set_ip(v6(2));
        self
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The sequence number of our SYN, as seen.
    pub fn sent_syn(&self) -> SeqNumber {
        self.seen.iss(self.peer.port())
    }

    /// Milliseconds since the start.
    pub fn elapsed(&self) -> u64 {
        (self.now - self.start).as_millis() as u64
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The connection of the test is another, from here.
    pub fn set_local(&mut self, local: SocketAddr) {
        self.local = local;
    }

    /// The peer's end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    // ---- the peer -------------------------------------------------------------------------------

    /// The frame of a segment from the peer.
    pub fn compose(&self, seg: &Seg) -> Vec<u8> {
        let port = seg.port.unwrap_or(self.peer.port());
        let mut header = seg.header(PEER_ISS, self.seen.iss(port), self.seen.stamp());
        header.src_port = port;
        header.dst_port = self.local.port();
        let (src, dst) = (self.peer.ip(), self.local.ip());
        let mut frame = compose(mac(2), mac(1), src, dst, &header, &seg.bytes());
        mark(&mut frame, seg.ecn.unwrap_or_default());
        frame
    }

    /// The peer sends segments in one burst; the stack does not get to transmit.
    pub fn inject_all(&mut self, segs: &[Seg]) {
        let frames: Vec<_> = segs.iter().map(|seg| self.compose(seg)).collect();
        let lent: Vec<_> = frames
            .iter()
            .map(|bytes| RxFrame {
                bytes,
                meta: RxMeta::default(),
            })
            .collect();
        self.stack.receive(self.now, PORT, &lent);
        self.stack.show();
    }

    /// The peer sends any frame; the stack does not get to transmit.
    pub fn inject_raw(&mut self, bytes: &[u8]) {
        let meta = RxMeta::default();
        self.stack
            .receive(self.now, PORT, &[RxFrame { bytes, meta }]);
        self.stack.show();
    }

    /// A SYN of the peer that the link has answered.
    pub fn inject_answered(&mut self, syn: Seg) {
        let bytes = &self.compose(&syn);
        let meta = RxMeta {
            answered: true,
            ..RxMeta::default()
        };
        self.stack
            .receive(self.now, PORT, &[RxFrame { bytes, meta }]);
    }

    /// The peer sends a segment; the stack does not get to transmit.
    pub fn inject(&mut self, seg: Seg) {
        self.inject_all(&[seg]);
    }

    /// The peer sends a segment, and the stack what it has to.
    pub fn send(&mut self, seg: Seg) {
        self.inject(seg);
        self.transmit();
    }

    /// The stack sends what it has to.
    pub fn transmit(&mut self) {
        self.stack.transmit(self.now, PORT, &mut self.sink);
        self.stack.show();
    }

    /// The stack sends what does not wait for answers of the application.
    pub fn transmit_before_answers(&mut self) {
        self.stack
            .transmit_with(self.now, PORT, Acks::Due, &mut self.sink);
    }

    /// Lets time pass, in which nothing happens.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The next TCP segment that the stack sent.
    pub fn pop(&mut self) -> Option<(SocketAddr, SocketAddr, TcpHeader, Vec<u8>)> {
        while let Some(frame) = self.sink.frames.pop_front() {
            if let Some((src, dst, header, payload)) = dissect(&frame) {
                self.seen.note(dst.port(), &header, codepoint(&frame));
                return Some((src, dst, header, payload));
            }
        }
        None
    }

    /// The next segment of the stack is this one. Returns its header.
    #[track_caller]
    pub fn expect(&mut self, wanted: Seg) -> TcpHeader {
        let Some((src, dst, header, payload)) = self.pop() else {
            panic!("expected {wanted:?}, but nothing was sent");
        };
        let shown = self.seen.show(&header, payload.len(), self.elapsed());
        assert_eq!(src, self.local, "source of {shown}");
        let port = wanted.port.unwrap_or(self.peer.port());
        assert_eq!(
            dst,
            SocketAddr::new(self.peer.ip(), port),
            "destination of {shown}"
        );
        self.seen.check(&wanted, &header, &payload, &shown);
        header
    }

    /// The stack has nothing (more) to say.
    #[track_caller]
    pub fn expect_nothing(&mut self) {
        if let Some((_, _, header, payload)) = self.pop() {
            panic!(
                "expected nothing, but got {}",
                self.seen.show(&header, payload.len(), self.elapsed())
            );
        }
    }

    /// Everything that the stack sent since the last look, forgotten.
    pub fn drain(&mut self) -> usize {
        let mut segments = 0;
        while self.pop().is_some() {
            segments += 1;
        }
        segments
    }

    // ---- time -----------------------------------------------------------------------------------

    /// Lets `ms` milliseconds pass. Timers fire when they are due, and the stack sends what they
    /// want.
    pub fn advance(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        self.transmit();
        for _ in 0..1_000_000 {
            match self.stack.next_deadline() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => {
                    self.now = end;
                    return;
                }
            }
            self.stack.advance(self.now);
            self.stack.show();
            self.transmit();
        }
        panic!("timers do not come to an end");
    }

    /// Nothing is sent for `ms` milliseconds.
    #[track_caller]
    pub fn expect_silence(&mut self, ms: u64) {
        self.advance(ms);
        self.expect_nothing();
    }
}
