//! A stack and a scripted peer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::frame::{RxFrame, RxMeta};
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use super::frames::{compose, dissect};
use super::seg::{Payload, Seg, pattern, seg};
use super::sink::Sink;
use super::{config, mac, v4, v6};
use crate::command::{Command, Options, Reply};
use crate::config::Config;
use crate::error::Error;
use crate::event::{Event, Ready};
use crate::id::{ConnId, ListenerId, PortId, Token};
use crate::info::{State, TcpInfo};
use crate::stack::Stack;
use crate::{AppStreams, Status};

/// Token of listeners.
pub const LISTENER: Token = Token(7);
/// Token of connections.
pub const CLIENT: Token = Token(8);

const PORT: PortId = PortId(0);
/// Where the stack listens, and the peer when the stack connects.
const SERVICE: u16 = 80;
/// The peer's port when it connects.
const PEER_PORT: u16 = 5000;
/// The peer's initial sequence number: near the wrap.
const PEER_ISS: SeqNumber = SeqNumber(u32::MAX - 1000);

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

/// A stack, the application on it, and a peer that sends what the test says. Time is virtual and starts at 10 s.
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
    now: Instant,
    start: Instant,
    local: SocketAddr,
    peer: SocketAddr,
    /// ISS of the stack, as seen in its SYN.
    iss: SeqNumber,
    /// First TSval seen from the stack.
    ts_base: Option<u32>,
    events: Vec<Event>,
    listener: Option<ListenerId>,
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
        let mut config = config(1, 2);
        change(&mut config);
        let frame_len = usize::from(config.interfaces[0].capabilities.mtu) + 18;
        let (stack, app) = Stack::new(config).expect("stack");
        let mut harness = Self {
            stack,
            app,
            conn: None,
            sink: Sink {
                frame_len,
                ..Sink::default()
            },
            now: Instant::ZERO,
            start: Instant::ZERO,
            local: SocketAddr::new(v4(1), SERVICE),
            peer: SocketAddr::new(v4(2), PEER_PORT),
            iss: SeqNumber(0),
            ts_base: None,
            events: Vec::new(),
            listener: None,
        };
        // Address checks end, announcements go out.
        harness.advance(10_000);
        harness.sink.frames.clear();
        harness.start = harness.now;
        harness
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

    /// Milliseconds since the start.
    pub fn elapsed(&self) -> u64 {
        (self.now - self.start).as_millis() as u64
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    // ---- the peer ------------------------------------------------------------------------------------------------------------------

    fn frame(&self, seg: &Seg) -> Vec<u8> {
        let mut header = seg.header(PEER_ISS, self.iss, self.ts_base.unwrap_or(0));
        header.src_port = seg.port.unwrap_or(self.peer.port());
        header.dst_port = self.local.port();
        let (src, dst) = (self.peer.ip(), self.local.ip());
        compose(mac(2), mac(1), src, dst, &header, &seg.bytes())
    }

    /// The peer sends segments in one burst; the stack does not get to transmit.
    pub fn inject_all(&mut self, segs: &[Seg]) {
        let frames: Vec<_> = segs.iter().map(|seg| self.frame(seg)).collect();
        let lent: Vec<_> = frames
            .iter()
            .map(|bytes| RxFrame {
                bytes,
                meta: RxMeta::default(),
            })
            .collect();
        self.stack.receive(self.now, PORT, &lent);
    }

    /// The peer sends any frame; the stack does not get to transmit.
    pub fn inject_raw(&mut self, bytes: &[u8]) {
        let meta = RxMeta::default();
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
    }

    /// The next TCP segment that the stack sent.
    pub fn pop(&mut self) -> Option<(SocketAddr, SocketAddr, TcpHeader, Vec<u8>)> {
        while let Some(frame) = self.sink.frames.pop_front() {
            if let Some((src, dst, header, payload)) = dissect(&frame) {
                if header.flags.contains(TcpFlags::SYN) {
                    self.iss = header.seq;
                }
                if let (None, Some(stamps)) = (self.ts_base, header.options.timestamps) {
                    self.ts_base = Some(stamps.tsval);
                }
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
        let shown = self.show(&header, payload.len());
        assert_eq!(src, self.local, "source of {shown}");
        let port = wanted.port.unwrap_or(self.peer.port());
        assert_eq!(
            dst,
            SocketAddr::new(self.peer.ip(), port),
            "destination of {shown}"
        );
        self.check(&wanted, &header, &payload, &shown);
        header
    }

    #[track_caller]
    fn check(&self, wanted: &Seg, header: &TcpHeader, payload: &[u8], shown: &str) {
        let ignored = if wanted.look_at_psh {
            TcpFlags::empty()
        } else {
            TcpFlags::PSH
        };
        assert_eq!(
            header.flags - ignored,
            wanted.flags - ignored,
            "flags of {shown}"
        );
        if let Some(seq) = wanted.seq {
            assert_eq!(header.seq - self.iss, seq, "sequence number of {shown}");
        }
        if let Some(ack) = wanted.ack {
            assert_eq!(
                header.ack - PEER_ISS,
                ack,
                "acknowledgment number of {shown}"
            );
        }
        if let Some(window) = wanted.window {
            assert_eq!(header.window, window, "window of {shown}");
        }
        match &wanted.payload {
            Payload::Empty => assert_eq!(payload.len(), 0, "payload of {shown}"),
            Payload::Len(len) => assert_eq!(payload.len(), *len, "payload of {shown}"),
            Payload::Bytes(bytes) => assert_eq!(payload, bytes, "payload of {shown}"),
        }
        self.check_options(wanted, header, shown);
    }

    #[track_caller]
    fn check_options(&self, wanted: &Seg, header: &TcpHeader, shown: &str) {
        let options = &header.options;
        if wanted.mss.is_some() {
            assert_eq!(options.mss, wanted.mss, "MSS of {shown}");
        }
        if wanted.wscale.is_some() {
            assert_eq!(
                options.window_scale, wanted.wscale,
                "window scale of {shown}"
            );
        }
        if wanted.sack_permitted {
            assert!(options.sack_permitted, "SACK-permitted of {shown}");
        }
        if let Some((tsval, tsecr)) = wanted.stamps {
            let stamps = options.timestamps.expect("timestamps");
            let base = self.ts_base.unwrap_or(0);
            let relative = (stamps.tsval.wrapping_sub(base), stamps.tsecr);
            assert_eq!(relative, (tsval, tsecr), "timestamps of {shown}");
        }
        if let Some(blocks) = &wanted.sack {
            let sent: Vec<_> = options
                .sack
                .iter()
                .map(|(left, right)| (left - PEER_ISS, right - PEER_ISS))
                .collect();
            assert_eq!(&sent, blocks, "SACK blocks of {shown}");
        }
    }

    fn show(&self, header: &TcpHeader, len: usize) -> String {
        format!(
            "<{} seq {} len {len} ack {} win {}> at {} ms",
            header.flags,
            header.seq - self.iss,
            header.ack - PEER_ISS,
            header.window,
            self.elapsed(),
        )
    }

    /// The stack has nothing (more) to say.
    #[track_caller]
    pub fn expect_nothing(&mut self) {
        if let Some((_, _, header, payload)) = self.pop() {
            panic!(
                "expected nothing, but got {}",
                self.show(&header, payload.len())
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

    // ---- time ----------------------------------------------------------------------------------------------------------------------

    /// Lets `ms` milliseconds pass. Timers fire when they are due, and the stack sends what they want.
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

    // ---- the application -----------------------------------------------------------------------------------------------------------

    /// A command that must succeed.
    #[track_caller]
    pub fn execute(&mut self, command: Command) -> Reply {
        match self.stack.execute(self.now, command) {
            Ok(reply) => reply,
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// A command that must fail.
    #[track_caller]
    pub fn refuse(&mut self, command: Command) -> Error {
        match self.stack.execute(self.now, command) {
            Ok(reply) => panic!("{command:?} succeeded: {reply:?}"),
            Err(error) => error,
        }
    }

    /// The connection of the test.
    #[track_caller]
    pub fn id(&self) -> ConnId {
        self.conn.expect("a connection")
    }

    /// Its slot.
    #[track_caller]
    pub fn slot(&self) -> u32 {
        self.id().slot
    }

    /// Listens.
    #[track_caller]
    pub fn listen(&mut self, backlog: u32, options: Options) {
        let reply = self.execute(Command::Listen {
            token: LISTENER,
            local: self.local,
            only_v6: false,
            backlog,
            options,
        });
        match reply {
            Reply::Listening(listener, local) => {
                assert_eq!(local, self.local);
                self.listener = Some(listener);
            }
            other => panic!("Listen replied {other:?}"),
        }
    }

    /// The listener.
    #[track_caller]
    pub fn listener(&self) -> ListenerId {
        self.listener.expect("a listener")
    }

    /// Writes bytes that say where they are, and rings the doorbell.
    #[track_caller]
    pub fn write(&mut self, len: usize) {
        self.write_without_transmit(len);
        self.transmit();
    }

    /// The same, and the stack does not get to transmit.
    #[track_caller]
    pub fn write_without_transmit(&mut self, len: usize) {
        let id = self.id();
        let bytes = pattern(0, len);
        assert_eq!(self.app.write(id.slot, &bytes), len, "send stream full");
        self.execute(Command::Send(id));
    }

    /// Reads everything there is, and rings the doorbell if it is due.
    #[track_caller]
    pub fn read(&mut self) -> Vec<u8> {
        let id = self.id();
        let mut bytes = vec![0; self.app.readable(id.slot) as usize];
        let n = self.app.read(id.slot, &mut bytes);
        assert_eq!(n, bytes.len());
        if self.app.window_update_due(id.slot) {
            self.execute(Command::Received(id));
        }
        self.transmit();
        bytes
    }

    /// Everything there is to read are the bytes that the peer sent from relative sequence number `seq` on.
    #[track_caller]
    pub fn expect_read(&mut self, seq: u32, len: usize) {
        let bytes = self.read();
        assert_eq!(bytes.len(), len, "bytes to read");
        assert!(bytes == pattern(seq, len), "other bytes than were sent");
    }

    /// Shuts the send side down.
    #[track_caller]
    pub fn shutdown(&mut self) {
        self.execute(Command::Shutdown(self.id()));
        self.transmit();
    }

    /// Releases the streams and closes.
    #[track_caller]
    pub fn close(&mut self) {
        let id = self.id();
        self.app.release(id.slot);
        self.execute(Command::Close(id));
        self.transmit();
    }

    /// Releases the streams and aborts.
    #[track_caller]
    pub fn abort(&mut self) {
        let id = self.id();
        self.app.release(id.slot);
        self.execute(Command::Abort(id));
        self.transmit();
    }

    /// TCP_INFO.
    #[track_caller]
    pub fn info(&mut self) -> TcpInfo {
        match self.execute(Command::Info(self.id())) {
            Reply::Info(info) => info,
            other => panic!("Info replied {other:?}"),
        }
    }

    /// The state is this one.
    #[track_caller]
    pub fn expect_state(&mut self, state: State) {
        assert_eq!(self.info().state, state);
    }

    /// The connection is gone, and with it everything it had.
    #[track_caller]
    pub fn expect_gone(&mut self) {
        let id = self.id();
        assert_eq!(self.refuse(Command::Info(id)), Error::BadId);
        let usage = self.stack.usage();
        assert_eq!(
            (usage.connections, usage.flows, usage.timers, usage.queued),
            (0, 0, 0, 0),
            "{usage:?}"
        );
        assert_eq!((usage.range_sets, usage.recv_bytes), (0, 0), "{usage:?}");
    }

    /// Status of the streams.
    #[track_caller]
    pub fn status(&self) -> Status {
        self.app.status(self.slot())
    }

    /// All events since the last look.
    pub fn events(&mut self) -> Vec<Event> {
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
        std::mem::take(&mut self.events)
    }

    /// What became true of the connection since the last look, and why it failed.
    pub fn ready(&mut self) -> (Ready, Option<Error>) {
        let conn = self.conn;
        let mut sum = (Ready::empty(), None);
        for event in self.events() {
            if let Event::Ready {
                conn: of,
                ready,
                error,
                ..
            } = event
            {
                if Some(of) == conn {
                    sum = (sum.0 | ready, sum.1.or(error));
                }
            }
        }
        sum
    }

    // ---- states, each from the one before ------------------------------------------------------------------------------------------

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
                local,
                remote,
            },
        ] = events[..]
        else {
            panic!("expected one Accepted, got {events:?}");
        };
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
        self.peer.set_port(SERVICE);
        let reply = self.execute(Command::Connect {
            token: CLIENT,
            local: Some(SocketAddr::new(self.local.ip(), 0)),
            remote: self.peer,
            options,
        });
        let Reply::Connecting(conn, local) = reply else {
            panic!("Connect replied {reply:?}");
        };
        self.conn = Some(conn);
        self.local = local;
        self.transmit();
        self.expect(seg().syn())
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

    /// Another peer address of the same family.
    pub fn peer_ip(&self) -> IpAddr {
        self.peer.ip()
    }
}
