//! Segments without a control block behind them: RSTs, challenge ACKs, SYN cookies, and what
//! half-open and TIME_WAIT records say. They wait as a few numbers or as a mark on their record,
//! and are written straight into the frame that the port lends.

use std::collections::VecDeque;
use std::io;

use ring::stream::Pieces;
use wire::frame::FrameSink;
use wire::ip::{Ecn, Protocol};
use wire::tcp::{TcpFlags, TcpHeader, Timestamps, fill_checksum};
use wire::time::Instant;

use crate::config::Config;
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::id::PortId;
use crate::ip::{Net, Path, Resolution};
use crate::tcp::frame::write_frame;
use crate::tcp::target::Target;

/// Room for answers that rate limits allow, besides one for each connection.
const ANSWERS: usize = 4096;

/// A segment that nobody else remembers.
#[derive(Clone, Copy, Debug)]
struct Bare {
    key: FlowKey,
    seq: wire::seq::SeqNumber,
    ack: wire::seq::SeqNumber,
    stamps: Timestamps,
    window: u16,
    /// 0: no option.
    mss: u16,
    flags: TcpFlags,
    /// With an option if `Has::SCALE`.
    scale: u8,
    has: Has,
}

bitflags::bitflags! {
    /// Options of a bare segment.
    #[derive(Clone, Copy, Debug)]
    struct Has: u8 {
        const STAMPS = 1;
        const SCALE = 2;
        const SACK = 4;
    }
}

const _: () = assert!(size_of::<Bare>() <= 60);

impl Bare {
    fn new(key: FlowKey, header: &TcpHeader) -> Self {
        let options = &header.options;
        let mut has = Has::empty();
        has.set(Has::STAMPS, options.timestamps.is_some());
        has.set(Has::SCALE, options.window_scale.is_some());
        has.set(Has::SACK, options.sack_permitted);
        Self {
            key,
            seq: header.seq,
            ack: header.ack,
            stamps: options.timestamps.unwrap_or_default(),
            window: header.window,
            mss: options.mss.unwrap_or(0),
            flags: header.flags,
            scale: options.window_scale.unwrap_or(0),
            has,
        }
    }

    fn header(&self) -> TcpHeader {
        let mut header = TcpHeader {
            src_port: self.key.local().port(),
            dst_port: self.key.remote().port(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            ..TcpHeader::default()
        };
        let options = &mut header.options;
        options.mss = (self.mss > 0).then_some(self.mss);
        options.window_scale = self.has.contains(Has::SCALE).then_some(self.scale);
        options.sack_permitted = self.has.contains(Has::SACK);
        options.timestamps = self.has.contains(Has::STAMPS).then_some(self.stamps);
        header
    }
}

/// The bare segments that are due, first come first served.
#[derive(Debug)]
pub(crate) struct Answers {
    ports: Vec<VecDeque<Bare>>,
    max: usize,
}

impl Answers {
    /// Address space for all is reserved; memory is touched as it is used.
    pub fn new(config: &Config) -> io::Result<Self> {
        let max = config.max_connections as usize + ANSWERS;
        let mut ports = Vec::new();
        for _ in &config.interfaces {
            let mut queue = VecDeque::new();
            queue.try_reserve_exact(max)?;
            ports.push(queue);
        }
        Ok(Self { ports, max })
    }

    fn push(&mut self, port: PortId, bare: Bare) -> bool {
        let queue = self.ports.get_mut(usize::from(port.0));
        let Some(queue) = queue.filter(|queue| queue.len() < self.max) else {
            return false;
        };
        queue.push_back(bare);
        true
    }

    fn front(&self, port: PortId) -> Option<&Bare> {
        self.ports.get(usize::from(port.0))?.front()
    }

    fn pop(&mut self, port: PortId) {
        if let Some(queue) = self.ports.get_mut(usize::from(port.0)) {
            queue.pop_front();
        }
    }

    /// Those due on `port`.
    pub fn due(&self, port: PortId) -> usize {
        self.ports.get(usize::from(port.0)).map_or(0, VecDeque::len)
    }

    /// Those due on any port.
    pub fn len(&self) -> usize {
        self.ports.iter().map(VecDeque::len).sum()
    }
}

/// How an attempt to send a bare segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Sent,
    /// The sink has no frame left.
    Full,
    /// The neighbour in this place of the cache is being asked for its hardware address.
    Waits(u32),
    /// The neighbour does not answer.
    Lost,
}

/// What sends bare segments, borrowed for one step.
#[derive(Debug)]
pub(crate) struct BareOutput<'a> {
    pub answers: &'a mut Answers,
    pub net: &'a mut Net,
    pub counters: &'a mut Counters,
    pub config: &'a Config,
}

impl BareOutput<'_> {
    /// Has a segment without payload sent, along the route there is.
    pub fn queue(&mut self, key: &FlowKey, header: &TcpHeader) {
        let Ok(&Path { port, .. }) = self.net.way_back(key) else {
            return self.counters.drop(DropReason::ReplyNoRoute);
        };
        if !self.answers.push(port, Bare::new(*key, header)) {
            self.counters.drop(DropReason::ReplyQueueFull);
        }
    }

    /// Sends the bare segments that are due. False when the sink is full.
    pub fn drain(&mut self, now: Instant, port: PortId, sink: &mut impl FrameSink) -> bool {
        while let Some(bare) = self.answers.front(port) {
            let (key, header) = (bare.key, bare.header());
            if let Ok(&path) = self.net.way_back(&key)
                && !self.send_or_wait(now, &path, &key, &header, sink)
            {
                return false;
            }
            self.answers.pop(port);
        }
        true
    }

    /// Sends a segment without payload now, or lets it wait with the neighbour, in a packet. False
    /// when the sink is full.
    pub fn send_or_wait(
        &mut self,
        now: Instant,
        path: &Path,
        key: &FlowKey,
        header: &TcpHeader,
        sink: &mut impl FrameSink,
    ) -> bool {
        match self.send_alone(now, path, key, header, sink) {
            Outcome::Full => false,
            Outcome::Waits(_) => {
                self.wait_with_neighbour(now, path, key, header);
                true
            }
            Outcome::Sent | Outcome::Lost => true,
        }
    }

    /// Writes a segment without payload into a frame. The ports are in its header.
    pub fn send_alone(
        &mut self,
        now: Instant,
        path: &Path,
        key: &FlowKey,
        header: &TcpHeader,
        sink: &mut impl FrameSink,
    ) -> Outcome {
        let mac = match self.net.resolve(now, path, self.counters) {
            Resolution::Ready(mac) => mac,
            Resolution::Pending(neighbour) => return Outcome::Waits(neighbour),
            Resolution::Failed => {
                self.counters.drop(DropReason::NeighbourFailed);
                return Outcome::Lost;
            }
        };
        let interface = self.config.interfaces.get(usize::from(path.port.0));
        let target = Target {
            path,
            mac,
            dst: key.remote().ip(),
            ecn: Ecn::NotEct,
            partial: interface.is_some_and(|interface| interface.capabilities.tx_checksum),
        };
        let net = &*self.net;
        let mut len = 0;
        let sent = sink.send(|frame| {
            let meta = write_frame(frame, net, &target, header, Pieces::EMPTY);
            len = meta.len;
            meta
        });
        if !sent {
            return Outcome::Full;
        }
        self.counters.segments_out += 1;
        self.counters.frames_out += 1;
        self.counters.bytes_out += len as u64;
        Outcome::Sent
    }

    fn wait_with_neighbour(
        &mut self,
        now: Instant,
        path: &Path,
        key: &FlowKey,
        header: &TcpHeader,
    ) {
        let mut bytes = [0; TcpHeader::MAX_LEN];
        let len = header.emit(&mut bytes);
        let Some(segment) = bytes.get_mut(..len) else {
            return;
        };
        let (src, dst) = (key.local().ip(), key.remote().ip());
        fill_checksum(src, dst, segment);
        self.counters.segments_out += 1;
        let links = &mut self.net.links;
        links.send_packet(now, path, dst, Protocol::TCP, segment, self.counters);
    }
}
