//! Two stacks back to back, over a link that a closure may make worse.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use wire::frame::{RxFrame, RxMeta};
use wire::ip::Ecn;
use wire::time::Instant;

use super::frames::{codepoint, mark};
use super::sink::Sink;
use super::{config, v4};
use crate::AppStreams;
use crate::command::{Command, Options, Reply};
use crate::config::Config;
use crate::event::Event;
use crate::id::{ConnId, PortId, Token};
use crate::stack::Stack;

const PORT: PortId = PortId(0);

/// What becomes of a frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after the delay of the link.
    Pass,
    /// It is lost.
    Lose,
    /// It arrives later by this much.
    Delay(Duration),
    /// It arrives twice.
    Duplicate,
    /// It met congestion: marked if it may be (RFC 3168 §5), lost if not.
    Mark,
}

/// One of the two stacks.
#[derive(Debug)]
pub struct End {
    /// The stack.
    pub stack: Stack,
    /// The application's end of its streams.
    pub app: AppStreams,
    /// Frames on their way to it, with their time of arrival.
    inbox: VecDeque<(Instant, Vec<u8>)>,
    sink: Sink,
    /// Events that were not looked at.
    pub events: Vec<Event>,
}

impl End {
    fn new(config: Config) -> Self {
        let (stack, app) = Stack::new(config).expect("stack");
        Self {
            stack,
            app,
            inbox: VecDeque::new(),
            sink: Sink::default(),
            events: Vec::new(),
        }
    }
}

/// Two stacks: end 0 has addresses with 1, end 1 with 2.
#[derive(Debug)]
pub struct Pair {
    /// Both.
    pub ends: [End; 2],
    /// Virtual time.
    pub now: Instant,
    /// One way.
    pub delay: Duration,
    /// Frames that were sent.
    pub frames: u64,
}

impl Pair {
    /// Two stacks with changed configurations, `delay` apart.
    pub fn new(delay: Duration, change: impl Fn(&mut Config)) -> Self {
        let end = |index, peer| {
            let mut config = config(index, peer);
            change(&mut config);
            End::new(config)
        };
        let mut pair = Self {
            ends: [end(1, 2), end(2, 1)],
            now: Instant::ZERO,
            delay,
            frames: 0,
        };
        pair.run(Duration::from_secs(10), |_, _| Fate::Pass);
        pair
    }

    /// Connects end 0 to port 80 of end 1, which listens. Returns both connections.
    pub fn connect(
        &mut self,
        options: Options,
        fate: impl FnMut(usize, &[u8]) -> Fate,
    ) -> (ConnId, ConnId) {
        let service = SocketAddr::new(v4(2), 80);
        let listen = Command::Listen {
            token: Token(1),
            local: service,
            only_v6: false,
            backlog: 64,
            options,
        };
        self.ends[1]
            .stack
            .execute(self.now, listen)
            .expect("listen");
        let connect = Command::Connect {
            token: Token(2),
            local: None,
            remote: service,
            options,
        };
        let Ok(Reply::Connecting(client, _)) = self.ends[0].stack.execute(self.now, connect) else {
            panic!("connect");
        };
        self.run(Duration::from_secs(20), fate);
        let accepted = self.ends[1].events.iter().find_map(|event| match event {
            Event::Accepted { conn, .. } => Some(*conn),
            Event::Ready { .. } => None,
        });
        let server = accepted.expect("accepted");
        let token = Token(3);
        let accept = Command::Accept {
            conn: server,
            token,
        };
        self.ends[1]
            .stack
            .execute(self.now, accept)
            .expect("accept");
        (client, server)
    }

    /// Lets `time` pass, frame by frame and timer by timer.
    pub fn run(&mut self, time: Duration, mut fate: impl FnMut(usize, &[u8]) -> Fate) {
        let end = self.now + time;
        loop {
            self.exchange(&mut fate);
            let next = self.ends.iter().filter_map(next_event).min();
            match next {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.deliver();
        }
        self.now = end;
    }

    /// One step of `run`: what is due now, at both ends.
    pub fn exchange(&mut self, fate: &mut impl FnMut(usize, &[u8]) -> Fate) {
        for from in 0..2 {
            let End {
                stack,
                sink,
                events,
                ..
            } = &mut self.ends[from];
            stack.advance(self.now);
            stack.transmit(self.now, PORT, sink);
            while let Some(event) = stack.poll_event() {
                events.push(event);
            }
            let frames = std::mem::take(&mut sink.frames);
            for frame in frames {
                self.frames += 1;
                let fate = fate(from, &frame);
                self.carry(1 - from, frame, fate);
            }
        }
    }

    fn carry(&mut self, to: usize, mut frame: Vec<u8>, fate: Fate) {
        let at = self.now + self.delay;
        let inbox = &mut self.ends[to].inbox;
        match fate {
            Fate::Lose => {}
            Fate::Mark if codepoint(&frame) == Ecn::NotEct => {}
            Fate::Mark => {
                mark(&mut frame, Ecn::Ce);
                insert(inbox, at, frame);
            }
            Fate::Pass => insert(inbox, at, frame),
            Fate::Delay(more) => insert(inbox, at + more, frame),
            Fate::Duplicate => {
                insert(inbox, at, frame.clone());
                insert(inbox, at, frame);
            }
        }
    }

    fn deliver(&mut self) {
        for end in &mut self.ends {
            let due = end.inbox.partition_point(|(at, _)| *at <= self.now);
            let frames: Vec<_> = end.inbox.drain(..due).collect();
            let lent: Vec<_> = frames
                .iter()
                .map(|(_, bytes)| RxFrame {
                    bytes,
                    meta: RxMeta::default(),
                })
                .collect();
            if !lent.is_empty() {
                end.stack.receive(self.now, PORT, &lent);
            }
        }
    }
}

fn insert(inbox: &mut VecDeque<(Instant, Vec<u8>)>, at: Instant, frame: Vec<u8>) {
    let place = inbox.partition_point(|(other, _)| *other <= at);
    inbox.insert(place, (at, frame));
}

fn next_event(end: &End) -> Option<Instant> {
    let arrival = end.inbox.front().map(|(at, _)| *at);
    arrival.into_iter().chain(end.stack.next_deadline()).min()
}
