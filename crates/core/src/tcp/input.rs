//! Input: frames in, a list of named steps in the order of RFC 9293 §3.10.7.

use std::borrow::Cow;

use wire::frame::{RxChecksum, RxFrame, RxMeta};
use wire::handed::Handed;
use wire::tcp::{TcpFlags, TcpOptions};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::flow::{self, FlowKey, Guess};
use crate::handover::Origin;
use crate::id::PortId;
use crate::info::State;
use crate::ip::{Datagram, Input, TransportError};
use crate::tcp::Tcp;
use crate::tcp::check::on_segment;
use crate::tcp::connect::{leave_pending, on_segment_syn_received, on_segment_syn_sent};
use crate::tcp::icmp::on_transport_error;
use crate::tcp::segment::{Flow, Segment};
use crate::tcp::step::{Step, Stop};

/// Frames that are looked at together: as many as the processor fetches memory for at a time, and
/// few enough that what is known of them stays in its nearest cache, and calls of unmodified
/// programs within 8 KiB of their stack.
const PASS: usize = 15;
/// So many segments before its own what a connection has in many lines is asked for.
const SOON: usize = 2;

/// A segment between the passes.
#[derive(Debug)]
struct Arrived<'a> {
    frame: &'a RxFrame<'a>,
    datagram: Datagram<'a>,
    flow: Flow,
    guess: Option<Guess>,
}

/// A burst: where it came from, and who has seen it.
#[derive(Clone, Copy, Debug)]
struct Burst<'a> {
    port: PortId,
    frames: &'a [RxFrame<'a>],
    /// By another stack.
    handed: bool,
    tried: u64,
    orphan: bool,
}

/// What a segment came in.
#[derive(Clone, Copy, Debug)]
struct Carrier<'a> {
    burst: &'a Burst<'a>,
    frame: &'a RxFrame<'a>,
    datagram: &'a Datagram<'a>,
}

impl<'a> Burst<'a> {
    fn origin(&self, frame: &RxFrame<'a>) -> Origin<'a> {
        Origin {
            port: self.port,
            frame: frame.bytes,
            tried: self.tried,
            returns: false,
            orphan: self.orphan,
        }
    }
}

impl<'a> Carrier<'a> {
    /// `None`: it came in several frames, of which this is the last.
    fn origin(&self) -> Option<Origin<'a>> {
        let is_whole = matches!(self.datagram.payload, Cow::Borrowed(_));
        is_whole.then(|| self.burst.origin(self.frame))
    }
}

impl Tcp {
    pub fn receive(&mut self, now: Instant, port: PortId, frames: &[RxFrame<'_>]) {
        if port == PortId::SIBLINGS {
            self.receive_handed(now, frames);
        } else {
            self.spread(port, frames);
            let (tried, orphan) = (0, false);
            for frames in frames.chunks(PASS) {
                let burst = Burst {
                    port,
                    frames,
                    handed: false,
                    tried,
                    orphan,
                };
                self.receive_burst(now, &burst);
            }
        }
        self.wake_resolved(now);
    }

    fn spread(&mut self, port: PortId, frames: &[RxFrame<'_>]) {
        if let Some(handover) = &mut self.handover {
            for frame in frames {
                handover.spread(port, frame, &mut self.shared.counters);
            }
        }
    }

    /// Frames from other stacks with our addresses. Who hands on a segment has verified its
    /// checksum.
    fn receive_handed(&mut self, now: Instant, frames: &[RxFrame<'_>]) {
        for frame in frames {
            let Some((bytes, words)) = Handed::split(frame.bytes) else {
                self.shared.counters.drop(DropReason::FrameShort);
                continue;
            };
            if words.relay {
                // For the wire, which is the driver's.
                continue;
            }
            self.shared.counters.handed_in += 1;
            let checksum = if words.for_all {
                RxChecksum::Unverified
            } else {
                RxChecksum::Trusted
            };
            let meta = RxMeta {
                checksum,
                ..RxMeta::default()
            };
            let burst = Burst {
                port: PortId(words.port),
                frames: &[RxFrame { bytes, meta }],
                handed: true,
                tried: words.tried,
                orphan: words.orphan,
            };
            self.receive_burst(now, &burst);
        }
    }

    /// Passes, so that the memory each needs is on its way before it is needed.
    fn receive_burst(&mut self, now: Instant, burst: &Burst<'_>) {
        let mut arrived = [const { None }; PASS];
        let count = self.parse(now, burst, &mut arrived);
        let arrived = arrived.get_mut(..count).unwrap_or_default();
        for arrived in arrived.iter_mut().filter_map(Option::as_mut) {
            arrived.guess = self.prefetch(&arrived.flow);
        }
        let mut ahead = arrived.iter().filter_map(Option::as_ref);
        for arrived in ahead.by_ref().take(SOON) {
            self.prefetch_rest(arrived.guess);
        }
        for arrived in arrived.iter().filter_map(Option::as_ref) {
            if let Some(ahead) = ahead.next() {
                self.prefetch_rest(ahead.guess);
            }
            let carrier = Carrier {
                burst,
                frame: arrived.frame,
                datagram: &arrived.datagram,
            };
            let mut options = TcpOptions::default();
            match Segment::parse(&arrived.datagram, &arrived.flow, &mut options) {
                Ok(segment) => self.process(now, &carrier, &segment, arrived.guess),
                Err(reason) => self.shared.counters.drop(reason),
            }
        }
    }

    /// Takes what the frames carry, and leaves its segments in `arrived`: how many.
    fn parse<'a>(
        &mut self,
        now: Instant,
        burst: &Burst<'a>,
        arrived: &mut [Option<Arrived<'a>>; PASS],
    ) -> usize {
        let mut count = 0;
        for frame in burst.frames {
            let Some(place) = arrived.get_mut(count) else {
                break;
            };
            // Each by itself: of what was predicted, much is known that does not have to be looked
            // at again.
            let arrives = match self.shared.net.predicted(burst.port, frame) {
                Some(datagram) => {
                    self.shared.counters.frame_in(frame.bytes.len());
                    self.arrive(frame, datagram, place)
                }
                None => self.arrive_otherwise(now, burst, frame, place),
            };
            count += usize::from(arrives);
        }
        count
    }

    #[inline(never)]
    fn arrive_otherwise<'a>(
        &mut self,
        now: Instant,
        burst: &Burst<'a>,
        frame: &'a RxFrame<'a>,
        place: &mut Option<Arrived<'a>>,
    ) -> bool {
        let datagram = self.datagram(now, burst, frame);
        datagram.is_some_and(|datagram| self.arrive(frame, datagram, place))
    }

    /// Leaves a segment in its place. False if it is too short to be one.
    #[inline(always)]
    fn arrive<'a>(
        &mut self,
        frame: &'a RxFrame<'a>,
        datagram: Datagram<'a>,
        place: &mut Option<Arrived<'a>>,
    ) -> bool {
        self.shared.counters.segments_in += 1;
        let Some(flow) = Flow::of(&datagram, &self.flows) else {
            self.shared.counters.drop(DropReason::TcpMalformed);
            return false;
        };
        self.flows.prefetch(flow.digest.hash);
        *place = Some(Arrived {
            frame,
            datagram,
            flow,
            guess: None,
        });
        true
    }

    /// The segment that a frame brings, if it is one.
    fn datagram<'a>(
        &mut self,
        now: Instant,
        burst: &Burst<'a>,
        frame: &RxFrame<'a>,
    ) -> Option<Datagram<'a>> {
        let shared = &mut self.shared;
        let counters = &mut shared.counters;
        match shared.net.input(now, burst.port, frame, counters) {
            Input::Tcp(datagram) => Some(datagram),
            Input::Error(error) => {
                self.on_transport_error(now, &error, &burst.origin(frame));
                None
            }
            Input::Consumed => None,
        }
    }

    /// Finds the connection of a segment once before it is needed, so that the misses of a burst
    /// overlap.
    #[inline]
    fn prefetch(&self, flow: &Flow) -> Option<Guess> {
        let guess = self.flows.guess(flow.digest.hash)?;
        let slot = flow::index(guess.id) as u32;
        match flow::tag(guess.id) as u32 {
            flow::HALF_OPEN => self.setup.half_open.prefetch(slot),
            flow::CONNECTION => {
                self.conns.prefetch(slot);
                self.shared.streams.prefetch(slot);
            }
            _ => {}
        }
        Some(guess)
    }

    /// The same for what fewer segments need, shortly before it is needed.
    #[inline]
    fn prefetch_rest(&self, guess: Option<Guess>) {
        let guess = guess.filter(|guess| flow::tag(guess.id) as u32 == flow::CONNECTION);
        if let Some(Guess { id, .. }) = guess {
            self.conns.prefetch_rest(flow::index(id) as u32);
        }
    }

    fn process(
        &mut self,
        now: Instant,
        carrier: &Carrier<'_>,
        segment: &Segment<'_>,
        guess: Option<Guess>,
    ) {
        let is_key = |id| self.lookup().has_key(id, segment.key);
        let found = self.flows.find_guessed(segment.hash, guess, is_key);
        let step = match found {
            None => self.on_listen(now, segment, carrier.frame.meta.answered),
            Some(id) => {
                let slot = flow::index(id) as u32;
                match flow::tag(id) as u32 {
                    flow::HALF_OPEN => self.on_half_open(now, slot, segment),
                    flow::TIME_WAIT => self.on_time_wait(now, slot, segment),
                    _ => self.on_connection(now, slot, segment),
                }
            }
        };
        match step {
            Ok(()) => {}
            Err(Stop::UnknownFlow(reason)) => self.on_unknown_flow(now, carrier, segment, reason),
            Err(stop) => self.shared.count(stop),
        }
    }

    /// A segment that belongs to nothing here: another stack with our addresses may know it. If
    /// none does, the state is CLOSED (RFC 9293 §3.10.7.1).
    #[cold]
    fn on_unknown_flow(
        &mut self,
        now: Instant,
        carrier: &Carrier<'_>,
        seg: &Segment<'_>,
        reason: DropReason,
    ) {
        let local = seg.key.local();
        let returns = !carrier.burst.handed && self.survivors.contains(seg.key);
        let origin = carrier.origin();
        let origin = origin.map(|origin| Origin { returns, ..origin });
        let known = origin.filter(|origin| !origin.orphan);
        if known.is_some_and(|origin| self.hand_over(&origin, local.port())) {
            return;
        }
        if self.shared.config.bequeaths() && self.take_up(now, origin, seg) {
            return;
        }
        // RFC 9293 §3.10.7.1, unless somebody else will know better: then the peer sends it again.
        if !self.setup.listeners.is_left(local) && !self.survivors.tell(seg, &mut self.shared) {
            self.shared.answer_with_reset(now, seg);
        }
        self.shared.counters.drop(reason);
    }

    /// No stack has the connection. Perhaps one had it that has ended or does not listen any more,
    /// and no application had accepted it: then one that listens goes on.
    fn take_up(&mut self, now: Instant, origin: Option<Origin<'_>>, seg: &Segment<'_>) -> bool {
        if !seg.has(TcpFlags::ACK) || seg.has(TcpFlags::SYN | TcpFlags::RST) {
            return false;
        }
        let local = seg.key.local();
        let Some(listener) = self.setup.listeners.find(local, seg.origin) else {
            let orphan = origin.map(Origin::orphaned);
            return orphan.is_some_and(|orphan| self.hand_over(&orphan, local.port()));
        };
        let Some(record) = self.setup().take_cookie(now, listener, seg) else {
            return false;
        };
        if let Err(stop) = self.promote_cookie(now, &record, seg) {
            self.shared.count(stop);
        }
        true
    }

    /// Hands a frame on that is for the local `port` and unknown here. False: there is nobody to
    /// ask.
    fn hand_over(&mut self, origin: &Origin<'_>, port: u16) -> bool {
        let counters = &mut self.shared.counters;
        let handover = self.handover.as_mut();
        handover.is_some_and(|handover| handover.pass(origin, port, counters))
    }

    /// RFC 9293 MUST-54.
    pub fn on_transport_error(
        &mut self,
        now: Instant,
        error: &TransportError,
        origin: &Origin<'_>,
    ) {
        let key = FlowKey::new(error.quoted.src, error.quoted.dst);
        let hash = self.flows.hash(&key);
        let id = self.lookup().find(hash, &key);
        let slot = match id {
            Some(id) if flow::tag(id) == flow::CONNECTION as usize => flow::index(id) as u32,
            _ if self.hand_over(origin, error.quoted.src.port()) => return,
            _ => return self.shared.counters.drop(DropReason::IcmpQuote),
        };
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return;
        };
        if !conn.hot.snd.is_in_flight(error.quoted.seq) {
            return self.shared.counters.drop(DropReason::IcmpQuote);
        }
        on_transport_error(&mut conn, now, error);
        self.settle(now, slot);
    }

    fn on_connection(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return Err(DropReason::TcpNoConnection.into());
        };
        if conn.hot.state == State::SynReceived {
            let step = on_segment_syn_received(&mut conn, now, seg);
            leave_pending(&mut conn, now, &mut self.setup.listeners);
            self.settle(now, slot);
            return step;
        }
        let step = match conn.hot.state {
            State::SynSent => on_segment_syn_sent(&mut conn, now, seg),
            _ => on_segment(&mut conn, now, seg),
        };
        if conn.is_over() {
            self.settle(now, slot);
        }
        step
    }
}
