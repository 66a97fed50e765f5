//! The stack of a process, its time and its frames.

use std::collections::VecDeque;
use std::time::Duration;

use mtcp_core::{AppStreams, Command, Config, ConnId, Error, Event, PortId, Reply, Stack};
use wire::checksum;
use wire::frame::{FrameSink, RxFrame, RxMeta, TxChecksum, TxMeta};
use wire::time::Instant;

use super::descriptors::{Accepted, Body, Descriptors};

const PORT: PortId = PortId(0);
/// Time before a program starts: addresses are checked and announced.
const PRELUDE: Duration = Duration::from_secs(10);
/// Timers that fire without time passing, in one turn: more is a livelock, and the deadline stays in the past.
const MAX_ROUNDS: usize = 1000;

/// A frame that the stack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// From the Ethernet header on.
    pub frame: Vec<u8>,
}

/// A stack with one interface and the descriptors of a program. See the [module](super).
#[derive(Debug)]
pub struct Process {
    pub(super) stack: Stack,
    pub(super) streams: AppStreams,
    pub(super) config: Config,
    pub(super) now: Instant,
    pub(super) table: Descriptors,
    sent: VecDeque<Sent>,
}

impl Process {
    /// A process that has opened nothing. `config` has one interface.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory could not be reserved.
    pub fn new(config: Config) -> std::io::Result<Self> {
        let (stack, streams) = Stack::new(config.clone())?;
        Ok(Self {
            stack,
            streams,
            config,
            now: Instant::ZERO,
            table: Descriptors::default(),
            sent: VecDeque::new(),
        })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// When a timer of the stack wants to fire.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.stack.next_deadline()
    }

    /// Moves the time on (never back) and lets the stack do what is due.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for _ in 0..MAX_ROUNDS {
            self.turn();
            if self.stack.next_deadline().is_none_or(|due| due > self.now) {
                return;
            }
        }
    }

    /// Lets the stack check and announce its addresses, and forgets the frames of that.
    pub fn settle_in(&mut self) {
        let start = self.now + PRELUDE;
        while let Some(due) = self.next_deadline().filter(|due| *due < start) {
            self.advance(due.max(self.now + Duration::from_nanos(1)));
        }
        self.advance(start);
        self.sent.clear();
    }

    /// A frame arrives, and the stack answers.
    pub fn receive(&mut self, frame: &[u8]) {
        let meta = RxMeta::default();
        let frame = RxFrame { bytes: frame, meta };
        self.stack.receive(self.now, PORT, &[frame]);
        self.turn();
    }

    /// The next frame that the stack sent.
    pub fn pop_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// One turn of the stack.
    pub(super) fn turn(&mut self) {
        self.stack.advance(self.now);
        self.transmit();
        while let Some(event) = self.stack.poll_event() {
            self.on_event(event);
        }
    }

    fn transmit(&mut self) {
        let mtu = self
            .config
            .interfaces
            .first()
            .map_or(0, |interface| interface.capabilities.mtu);
        let mut sink = Wire {
            frame_len: usize::from(mtu) + 18,
            at: self.now,
            sent: &mut self.sent,
        };
        self.stack.transmit(self.now, PORT, &mut sink);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted {
                listener,
                conn,
                key,
            } => match self.table.arrival(listener) {
                Some(queue) => queue.push_back(Accepted {
                    conn,
                    local: key.local(),
                    remote: key.remote(),
                }),
                None => self.abort(conn),
            },
            Event::Ready { conn, ready, .. } => {
                if let Some(socket) = self.table.stream_mut(conn) {
                    socket.on_ready(ready);
                }
            }
        }
    }

    /// A call on the stack, and what follows from it.
    pub(super) fn execute(&mut self, command: Command) -> Result<Reply, Error> {
        let reply = self.stack.execute(self.now, command);
        self.turn();
        reply
    }

    /// Nobody wants the connection.
    pub(super) fn abort(&mut self, conn: ConnId) {
        self.streams.release(conn.slot);
        let _ = self.execute(Command::Abort(conn));
    }

    /// What TCP knows of the connection of a descriptor.
    pub fn info(&mut self, fd: i32) -> Option<mtcp_core::TcpInfo> {
        let Body::Stream(conn) = self.table.socket(fd).ok()?.body else {
            return None;
        };
        match self.execute(Command::Info(conn)) {
            Ok(Reply::Info(info)) => Some(info),
            _ => None,
        }
    }
}

/// The transmit side of the link.
struct Wire<'a> {
    frame_len: usize,
    at: Instant,
    sent: &'a mut VecDeque<Sent>,
}

impl FrameSink for Wire<'_> {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let mut frame = vec![0; self.frame_len];
        let meta = fill(&mut frame);
        frame.truncate(meta.len);
        if let TxChecksum::Partial { start, offset } = meta.checksum {
            finish(&mut frame, start.into(), offset.into());
        }
        if !frame.is_empty() {
            let at = self.at;
            self.sent.push_back(Sent { at, frame });
        }
        true
    }
}

/// The checksum that the stack left to the link.
fn finish(frame: &mut [u8], start: usize, offset: usize) {
    if let Some(transport) = frame.get_mut(start..) {
        let sum = checksum::checksum(transport);
        if let Some(field) = transport.get_mut(offset..offset + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}
