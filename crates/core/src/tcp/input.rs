//! Input: frames in, a list of named steps in the order of RFC 9293 §3.10.7.

use wire::frame::{BURST, RxFrame};
use wire::time::Instant;

use crate::drops::Drop;
use crate::flow::{self, FlowHash, FlowKey};
use crate::id::PortId;
use crate::info::State;
use crate::ip::{Datagram, Input};
use crate::tcp::Tcp;
use crate::tcp::conn::{Conn, Step};
use crate::tcp::segment::Segment;

impl Tcp {
    pub fn receive(&mut self, now: Instant, port: PortId, frames: &[RxFrame<'_>]) {
        for burst in frames.chunks(BURST) {
            self.receive_burst(now, port, burst);
        }
        self.wake_resolved(now);
    }

    /// Passes, so that the memory each needs is on its way before it is needed.
    fn receive_burst(&mut self, now: Instant, port: PortId, frames: &[RxFrame<'_>]) {
        let mut datagrams = [const { None }; BURST];
        self.parse_ip(now, port, frames, &mut datagrams);
        let mut segments = [const { None }; BURST];
        self.parse_tcp(&datagrams, &mut segments);
        self.prefetch(&segments);
        for segment in segments.iter().flatten() {
            self.process(now, segment);
        }
    }

    fn parse_ip<'a>(
        &mut self,
        now: Instant,
        port: PortId,
        frames: &[RxFrame<'a>],
        datagrams: &mut [Option<Datagram<'a>>; BURST],
    ) {
        for (frame, place) in frames.iter().zip(datagrams) {
            let shared = &mut self.shared;
            match shared.net.input(now, port, frame, &mut shared.counters) {
                Input::Tcp(datagram) => *place = Some(datagram),
                Input::Error(error) => self.on_transport_error(now, &error),
                Input::Consumed => {}
            }
        }
    }

    fn parse_tcp<'a>(
        &mut self,
        datagrams: &'a [Option<Datagram<'_>>; BURST],
        segments: &mut [Option<Segment<'a>>; BURST],
    ) {
        for (datagram, place) in datagrams.iter().flatten().zip(segments) {
            self.shared.counters.segments_in += 1;
            match Segment::parse(datagram, &self.flows) {
                Ok(segment) => {
                    self.flows.prefetch(segment.hash);
                    *place = Some(segment);
                }
                Err(reason) => self.shared.counters.drop(reason),
            }
        }
    }

    /// Finds the connections of a burst once before they are needed, so that their misses overlap.
    fn prefetch(&self, segments: &[Option<Segment<'_>>; BURST]) {
        for segment in segments.iter().flatten() {
            let Some(id) = self.flows.find(segment.hash, |_| true) else {
                continue;
            };
            let slot = flow::index(id) as u32;
            match flow::tag(id) as u32 {
                flow::HALF_OPEN => self.half_open.prefetch(slot),
                flow::CONNECTION => {
                    self.conns.prefetch(slot);
                    self.shared.streams.prefetch(slot);
                }
                _ => {}
            }
        }
    }

    fn process(&mut self, now: Instant, segment: &Segment<'_>) {
        let step = match self.lookup(segment.hash, &segment.key) {
            None => self.on_listen(now, segment),
            Some(id) => {
                let slot = flow::index(id) as u32;
                match flow::tag(id) as u32 {
                    flow::HALF_OPEN => self.on_half_open(now, slot, segment),
                    flow::TIME_WAIT => self.on_time_wait(now, slot, segment),
                    _ => self.on_connection(now, slot, segment),
                }
            }
        };
        if let Err(stop) = step {
            self.shared.count(stop);
        }
    }

    /// What has these endpoints.
    pub fn lookup(&self, hash: FlowHash, key: &FlowKey) -> Option<u32> {
        self.flows.find(hash, |id| self.key_of(id) == *key)
    }

    fn key_of(&self, id: u32) -> FlowKey {
        let slot = flow::index(id) as u32;
        match flow::tag(id) as u32 {
            flow::HALF_OPEN => self.half_open.at(slot).map(|record| record.key),
            flow::TIME_WAIT => self.time_wait.at(slot).map(|record| record.key),
            _ => Some(self.conns.key(slot)),
        }
        .unwrap_or(FlowKey::NONE)
    }

    fn on_connection(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return Err(Drop::TcpNoConnection.into());
        };
        let step = match conn.hot.state {
            State::SynSent => conn.on_segment_syn_sent(now, seg),
            State::SynReceived => {
                let step = conn.on_segment_syn_received(now, seg);
                self.leave_pending(now, slot);
                step
            }
            _ => conn.on_segment(now, seg),
        };
        self.settle(now, slot);
        step
    }
}

impl Conn<'_> {
    /// RFC 9293 §3.10.7.4, "Otherwise". (Security and urgent data, third and sixth, have no effect: the one is not used by anybody, the
    /// other is delivered in line.)
    /// RFC 9293 MUST-31.
    pub fn on_segment(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        self.tally_arrival(seg);
        if self.is_predicted(seg) {
            return self.take_predicted(now, seg);
        }
        self.check_timestamp(now, seg)?;
        self.check_sequence(now, seg)?;
        self.check_rst(now, seg)?;
        self.check_syn(now, seg)?;
        self.process_ack(now, seg)?;
        self.process_data(now, seg)?;
        self.process_fin(seg)
    }
}
