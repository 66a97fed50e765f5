//! One stack on the bench: every call and every frame comes from the input.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::command::{Command, Keepalive, Marking, Options, Reply};
use mtcp_core::config::CongestionControl;
use mtcp_core::{
    Acks, AppStreams, Config, ConnId, Event, ListenerId, PortId, Stack, Token, Urgent, Usage,
};
use wire::frame::{RxFrame, RxMeta};
use wire::ip::Ecn;
use wire::time::Instant;

use super::input::Input;
use super::segments::{self, Seen};
use crate::check;
use crate::frame::Frame;
use crate::pipe::packet::set_ecn;
use crate::scenario::{host_config, v4, v6};
use crate::segment::Segment;
use crate::sink::Tx;

const PORT: PortId = PortId(0);
/// Connections that the network remembers.
const MAX_SEEN: usize = 16;
/// Timers that may fire until everything must be over.
const LAST_TURNS: u32 = 200_000;
/// Turns in a row without time passing.
const MAX_SPINS: u32 = 1000;

/// See the module.
pub struct Lab {
    stack: Stack,
    streams: AppStreams,
    config: Config,
    now: Instant,
    conns: Vec<ConnId>,
    listeners: Vec<ListenerId>,
    /// Slots that the application may hold after misuse.
    leaked: Vec<u32>,
    seen: Vec<Seen>,
    last_frame: Vec<u8>,
    sent: Vec<Frame>,
    spare: Vec<Vec<u8>>,
}

impl Lab {
    pub fn new(input: &mut Input<'_>) -> io::Result<Self> {
        let mut config = host_config(1).stack;
        let mut other = crate::scenario::Scenario::new(0);
        other.fix_neighbours();
        let bits = input.u8();
        if bits & 1 != 0 {
            config.neighbours = other.hosts[0].stack.neighbours.clone();
        }
        config.timestamps = bits & 2 == 0;
        config.window_scaling = bits & 4 == 0;
        config.max_connections = 8;
        config.max_half_open = 4;
        config.max_time_wait = 4;
        config.max_listeners = 4;
        config.max_neighbours = 8;
        config.recv_pool = 256 << 10;
        config.send_pool = 256 << 10;
        config.recv_buffer = 32 << 10;
        config.send_buffer = 32 << 10;
        config.max_buffer = 64 << 10;
        config.reassembly_bytes = 64 << 10;
        config.data_retries = 5;
        let (stack, streams) = Stack::new(config.clone())?;
        Ok(Self {
            stack,
            streams,
            config,
            now: Instant::from_millis(u64::from(input.u32())),
            conns: Vec::new(),
            listeners: Vec::new(),
            leaked: Vec::new(),
            seen: Vec::new(),
            last_frame: Vec::new(),
            sent: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// One thing happens.
    pub fn op(&mut self, input: &mut Input<'_>) {
        match input.u8() % 32 {
            0 => self.listen(input),
            1 => self.connect(input),
            2 | 3 => self.write(input),
            4 | 5 => self.read(input),
            6 => self.command(input, Command::Shutdown),
            7 => self.end(input, Command::Close),
            8 => self.end(input, Command::Abort),
            9 => self.set_options(input),
            10 => self.unlisten(input),
            11..=13 => self.pass(input),
            14..=16 => self.transmit(u64::from(input.u8() % 64), Acks::All),
            17 => self.transmit(u64::from(input.u8() % 64), Acks::Due),
            18 => self.deliver(&[segments::noise(input)]),
            19 => {
                let error = segments::icmp_error(&self.last_frame, input);
                self.deliver(&[error]);
            }
            20 => self.syn(input),
            21 => self.burst(input),
            22 => self.repeat(input),
            23 => self.command(input, Command::SendMore),
            24 => self.command(input, Command::QuickAck),
            25 => self.command(input, Command::Push),
            26 => self.send_urgent(input),
            27 => self.pass_urgent(input),
            31 => self.fragments(input),
            _ => self.segment(input),
        }
    }

    fn execute(&mut self, command: Command) -> Option<Reply> {
        self.stack.execute(self.now, command).ok()
    }

    fn address(input: &mut Input<'_>, host: u8, port: u16) -> SocketAddr {
        SocketAddr::new(if input.bit() { v6(host) } else { v4(host) }, port)
    }

    fn options(input: &mut Input<'_>) -> Options {
        let bits = input.u8();
        let time = |input: &mut Input<'_>| Duration::from_millis(u64::from(input.u16()));
        let keepalive = Keepalive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(1),
            count: bits >> 4,
        };
        let sizes_and_times = Options {
            nodelay: bits & 1 != 0,
            keepalive: (bits & 2 != 0).then_some(keepalive),
            linger: (bits & 4 != 0).then(|| time(input)),
            recv_buffer: (bits & 8 != 0).then(|| input.u32() % 100_000),
            send_buffer: (bits & 16 != 0).then(|| input.u32() % 100_000),
            max_segment: (bits & 32 != 0).then(|| input.u16()),
            user_timeout: (bits & 64 != 0).then(|| time(input)),
            idle_timeout: (bits & 128 != 0).then(|| time(input)),
            ..Options::default()
        };
        Options {
            fast_open: (bits & 3 == 3).then_some(u32::from(bits >> 4)),
            fast_open_connect: bits & 12 == 12,
            congestion: CongestionControl::NAMES
                .get(usize::from(bits >> 5))
                .map(|(_, kind)| *kind),
            max_pacing_rate: (bits & 0xc == 0xc).then_some(100_000),
            reuse_port: bits & 0x30 == 0x30,
            ..Self::newer_options(input, sizes_and_times)
        }
    }

    /// Few inputs spend a byte on them.
    fn newer_options(input: &mut Input<'_>, options: Options) -> Options {
        if options.send_buffer.is_none() || options.idle_timeout.is_none() {
            return options;
        }
        let bits = input.u8();
        Options {
            cork: bits & 1 != 0,
            delay_acks: bits & 2 != 0,
            window_clamp: (bits & 4 != 0).then(|| input.u32() % 100_000),
            syn_retries: (bits & 8 != 0).then_some(bits >> 5),
            fin_wait_2: (bits & 16 != 0).then(|| Duration::from_secs(u64::from(bits >> 5))),
            defer_accept: bits >> 6,
            unsent_low_water: (bits & 32 != 0).then(|| input.u32() % 100_000),
            v4: Marking {
                class: bits,
                hop_limit: (bits & 64 != 0).then_some(bits >> 1),
            },
            ..options
        }
    }

    fn listen(&mut self, input: &mut Input<'_>) {
        let local = match input.u8() % 4 {
            0 => SocketAddr::from(([0; 16], 80)),
            which => Self::address(input, 1, 80 + u16::from(which)),
        };
        let command = Command::Listen {
            token: Token(7),
            local,
            only_v6: input.bit(),
            backlog: u32::from(input.u8() % 4),
            options: Self::options(input),
        };
        if let Some(Reply::Listening(id, _)) = self.execute(command) {
            self.listeners.push(id);
        }
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let remote = Self::address(input, 2, 90);
        let port = u16::from(input.u8() % 4);
        let local = (port != 3).then(|| Self::address(input, 1, port));
        let command = Command::Connect {
            token: Token(8),
            local,
            remote,
            options: Self::options(input),
        };
        if let Some(Reply::Connecting(id, _) | Reply::Deferred(id, _)) = self.execute(command) {
            self.conns.push(id);
        }
    }

    fn write(&mut self, input: &mut Input<'_>) {
        if let Some(conn) = input.pick(&self.conns) {
            let bytes = vec![5; usize::from(input.u16() % 20_000)];
            self.streams.write(conn.slot, &bytes);
            self.execute(Command::Send(conn));
        }
    }

    /// The end of what was written is urgent, or what somebody says is.
    fn send_urgent(&mut self, input: &mut Input<'_>) {
        if let Some(conn) = input.pick(&self.conns) {
            let written = self.streams.written(conn.slot);
            let end = if input.bit() { written } else { input.u32() };
            self.execute(Command::SendUrgent(conn, end));
        }
    }

    fn pass_urgent(&mut self, input: &mut Input<'_>) {
        if let Some(conn) = input.pick(&self.conns) {
            let slot = conn.slot;
            let unread = self.streams.readable(slot);
            assert!(self.streams.readable_past_mark(slot, false) <= unread);
            assert!(self.streams.readable_to_mark(slot, false) <= unread);
            if let Urgent::Here(_) = self.streams.urgent(slot) {
                self.streams.take_urgent(slot);
            }
            self.streams.pass_mark(slot, input.bit());
        }
    }

    fn read(&mut self, input: &mut Input<'_>) {
        if let Some(conn) = input.pick(&self.conns) {
            let mut bytes = vec![0; usize::from(input.u16() % 20_000)];
            self.streams.read(conn.slot, &mut bytes);
            if self.streams.window_update_due(conn.slot) || input.bit() {
                self.execute(Command::Received(conn));
            }
        }
    }

    fn command(&mut self, input: &mut Input<'_>, command: impl Fn(ConnId) -> Command) {
        if let Some(conn) = input.pick(&self.conns) {
            self.execute(command(conn));
        }
    }

    /// Ends a connection; one time in eight without having released it, and once more afterwards.
    fn end(&mut self, input: &mut Input<'_>, command: impl Fn(ConnId) -> Command) {
        let Some(conn) = input.pick(&self.conns) else {
            return;
        };
        if input.u8() % 8 == 7 {
            self.leaked.push(conn.slot);
            self.execute(command(conn));
        }
        self.streams.release(conn.slot);
        self.execute(command(conn));
        self.conns.retain(|other| *other != conn);
    }

    fn set_options(&mut self, input: &mut Input<'_>) {
        let options = Self::options(input);
        self.command(input, |conn| Command::SetOptions { conn, options });
        if let Some(listener) = input.pick(&self.listeners) {
            self.execute(Command::SetListenerOptions { listener, options });
        }
    }

    fn unlisten(&mut self, input: &mut Input<'_>) {
        if let Some(listener) = input.pick(&self.listeners) {
            self.execute(Command::Unlisten(listener));
            self.listeners.retain(|other| *other != listener);
        }
    }

    fn pass(&mut self, input: &mut Input<'_>) {
        let shift = input.u8() % 28;
        self.now += Duration::from_micros(u64::from(input.u8()) << shift);
        self.stack.advance(self.now);
        self.poll(input.bit());
    }

    /// Takes what the application has to know; and what comes, unless it is not accepted.
    fn poll(&mut self, accept: bool) {
        while let Some(event) = self.stack.poll_event() {
            if let Event::Accepted { conn, .. } = event {
                self.conns.push(conn);
                if accept {
                    let token = Token(9);
                    self.execute(Command::Accept { conn, token });
                }
            }
        }
    }

    fn transmit(&mut self, slots: u64, acks: Acks) {
        let Some(interface) = self.config.interfaces.first() else {
            return;
        };
        let mut sink = Tx {
            out: &mut self.sent,
            spare: &mut self.spare,
            slots,
            mtu: interface.capabilities.mtu,
            trust: false,
            full: false,
            problem: None,
        };
        self.stack.transmit_with(self.now, PORT, acks, &mut sink);
        let (full, problem) = (sink.full, sink.problem.take());
        assert_eq!(problem, None);
        assert!(
            full || acks == Acks::Due || !self.stack.has_output(PORT),
            "output is left and the sink has room"
        );
        for frame in &self.sent {
            assert_eq!(check::frame(frame, interface), Ok(()));
            if let Some(segment) = Segment::from_frame(&frame.bytes) {
                note(&mut self.seen, Seen::from_segment(&segment));
                self.last_frame.clone_from(&frame.bytes);
            }
        }
        self.spare
            .extend(self.sent.drain(..).map(|frame| frame.bytes));
    }

    fn deliver(&mut self, frames: &[Vec<u8>]) {
        let meta = RxMeta::default();
        let frames: Vec<_> = frames.iter().map(|bytes| RxFrame { bytes, meta }).collect();
        self.stack.receive(self.now, PORT, &frames);
    }

    fn next_segment(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let index = usize::from(input.u8())
            .checked_rem(self.seen.len())
            .unwrap_or(0);
        let Some(seen) = self.seen.get_mut(index) else {
            return Vec::new();
        };
        let segment = seen.segment(input);
        let mut frame = segment.to_frame(segments::PEER_MAC, crate::scenario::mac(1));
        match input.u8() {
            0..=127 => {}
            ecn @ 128..=250 => {
                set_ecn(&mut frame, Ecn::from_tos(ecn));
            }
            251.. => damage(&mut frame, input),
        }
        frame
    }

    fn segment(&mut self, input: &mut Input<'_>) {
        let frame = self.next_segment(input);
        self.deliver(&[frame]);
    }

    fn fragments(&mut self, input: &mut Input<'_>) {
        let frame = self.next_segment(input);
        self.deliver(&segments::fragments(&frame, input));
    }

    fn burst(&mut self, input: &mut Input<'_>) {
        let frames: Vec<_> = (0..input.u8() % 64)
            .map(|_| self.next_segment(input))
            .collect();
        self.deliver(&frames);
    }

    fn syn(&mut self, input: &mut Input<'_>) {
        let port = 80 + u16::from(input.u8() % 3);
        let from = 5000 + u16::from(input.u8() % 8);
        let (remote, local) = if input.bit() {
            (SocketAddr::new(v6(2), from), SocketAddr::new(v6(1), port))
        } else {
            (SocketAddr::new(v4(2), from), SocketAddr::new(v4(1), port))
        };
        let mut seen = Seen {
            local,
            remote,
            seq: wire::seq::SeqNumber(input.u32()),
            ack: wire::seq::SeqNumber(0),
            tsval: 0,
        };
        let mut segment = seen.segment(input);
        segment.header.flags = wire::tcp::TcpFlags::SYN;
        note(&mut self.seen, seen);
        self.deliver(&[segment.to_frame(segments::PEER_MAC, crate::scenario::mac(1))]);
    }

    /// The stack's own frame comes back, as it is or from the other side.
    fn repeat(&mut self, input: &mut Input<'_>) {
        let mut frame = self.last_frame.clone();
        if let Some(mut segment) = Segment::from_frame(&frame).filter(|_| input.bit()) {
            std::mem::swap(&mut segment.src, &mut segment.dst);
            std::mem::swap(&mut segment.header.src_port, &mut segment.header.dst_port);
            frame = segment.to_frame(segments::PEER_MAC, crate::scenario::mac(1));
        }
        self.deliver(&[frame]);
    }

    /// All invariants.
    pub fn check(&mut self) {
        assert_eq!(check::usage(&self.stack.usage(), &self.config), Ok(()));
        let accounts = check::accounts(&self.stack.usage(), &self.streams, &self.conns);
        assert_eq!(accounts, Ok(()));
        for conn in &self.conns {
            let result = check::connection(
                self.now,
                &mut self.stack,
                &self.streams,
                &self.config,
                *conn,
            );
            assert_eq!(result, Ok(()));
        }
    }

    /// The application ends everything and waits; then nothing is left.
    pub fn finish(&mut self) {
        for listener in std::mem::take(&mut self.listeners) {
            self.execute(Command::Unlisten(listener));
        }
        let (mut last, mut spins) = (self.now, 0);
        for _ in 0..LAST_TURNS {
            self.poll(true);
            for conn in std::mem::take(&mut self.conns) {
                self.streams.release(conn.slot);
                self.execute(Command::Close(conn));
            }
            for slot in std::mem::take(&mut self.leaked) {
                self.streams.release(slot);
            }
            self.transmit(1024, Acks::All);
            let usage = self.stack.usage();
            if usage == Usage::default() {
                break;
            }
            let Some(deadline) = self.stack.next_deadline() else {
                break;
            };
            self.now = self.now.max(deadline);
            self.stack.advance(self.now);
            spins = if self.now == last { spins + 1 } else { 0 };
            assert!(
                spins < MAX_SPINS,
                "timers fire and no time passes: {usage:?}"
            );
            last = self.now;
        }
        self.streams.sweep(usize::MAX);
        assert_eq!(self.stack.usage(), Usage::default());
        assert_eq!(self.streams.send_bytes_in_use(), 0);
    }
}

/// Changes one byte.
fn damage(frame: &mut [u8], input: &mut Input<'_>) {
    let at = usize::from(input.u16()).checked_rem(frame.len());
    if let Some(byte) = frame.get_mut(at.unwrap_or(0)) {
        *byte ^= input.u8();
    }
}

fn note(seen: &mut Vec<Seen>, new: Seen) {
    seen.retain(|old| (old.local, old.remote) != (new.local, new.remote));
    if seen.len() == MAX_SEEN {
        seen.remove(0);
    }
    seen.push(new);
}
