//! Output: the lists of a port, drained into its frames: in turns, a few of SYN-ACKs and control,
//! ACKs, and some more of data. Where the link takes less than there is, what has begun goes on
//! before what begins, and what waits is new.

use std::time::Duration;

use ring::stream::Pieces;
use wire::frame::{FrameSink, MacAddr};
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use crate::error::Error;
use crate::id::PortId;
use crate::info::State;
use crate::ip::Resolution;
use crate::neigh::cache::Ended;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::emit::outgoing;
use crate::tcp::flags::Flags;
use crate::tcp::frame::send_segment;
use crate::tcp::gso::send_gso;
use crate::tcp::loss::NewData;
use crate::tcp::queues::Output;
use crate::tcp::ranges::Range;
use crate::tcp::send::{Kind, Plan};
use crate::tcp::target::Target;

/// Segments that one connection sends before others have their turn.
const QUANTUM: u32 = 16;

/// How an attempt to send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    /// The sink has no frame left.
    Full,
    /// The neighbour's hardware address is not known, or the connection failed: it is off the
    /// lists.
    Not,
}

/// How a connection's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Done,
    More,
    Full,
    Off,
}

/// How long an ACK waits at least, and not twice as long, for something to ride on.
const HELD_ACK_MAX: Duration = Duration::from_millis(1);

/// Which ACKs are sent that nothing takes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// All.
    All,
    /// Not those for less than two segments, for 2 ms at most: the application is being told what
    /// has come, and may answer.
    Due,
}

impl Tcp {
    pub fn transmit(&mut self, now: Instant, port: PortId, acks: Acks, sink: &mut impl FrameSink) {
        if port == PortId::SIBLINGS {
            if let Some(handover) = &mut self.handover {
                handover.transmit(sink);
            }
            return;
        }
        self.shared
            .net
            .links
            .transmit(port, sink, &mut self.shared.counters);
        let all = self.shared.bare().drain(now, port, sink)
            && self.time_waits().send_last_acks(now, port, sink)
            && self.send_lists(now, port, acks, sink);
        if all && !self.closing_with_reset.is_empty() {
            self.part(now, port);
            self.shared.bare().drain(now, port, sink);
        }
    }

    /// False when the sink is full.
    fn send_lists(
        &mut self,
        now: Instant,
        port: PortId,
        acks: Acks,
        sink: &mut impl FrameSink,
    ) -> bool {
        loop {
            let all = self.setup().send_syn_acks(now, port, sink)
                && self.send_list(now, port, Output::Control, sink)
                && self.send_acks(now, port, acks, sink)
                && self.send_list(now, port, Output::Data, sink);
            if !all {
                return false;
            }
            self.shared.queues.begin_round(port);
            if !self.shared.queues.has_lists(port) {
                return true;
            }
        }
    }

    /// Round robin over the connections of a list, for a round. False when the sink is full.
    fn send_list(
        &mut self,
        now: Instant,
        port: PortId,
        which: Output,
        sink: &mut impl FrameSink,
    ) -> bool {
        while let Some(place) = self.shared.queues.output_in_turn(port, which) {
            let Some(mut conn) = self.conns.at(place, &mut self.shared) else {
                self.shared.queues.remove_output(port, which, place);
                continue;
            };
            match conn.take_turn(now, sink) {
                Turn::Full => return false,
                Turn::Done => conn.lists().leave(which),
                Turn::More => conn.lists().give_way(which),
                Turn::Off => {}
            }
            if conn.is_over() {
                let slot = conn.slot();
                self.settle(now, slot);
            }
            self.shared.queues.count_output(port, which);
        }
        true
    }

    /// RFC 9293 MUST-58, MUST-59.
    fn send_acks(
        &mut self,
        now: Instant,
        port: PortId,
        acks: Acks,
        sink: &mut impl FrameSink,
    ) -> bool {
        match acks {
            Acks::All => self.shared.queues.ripen_all_acks(port),
            Acks::Due => self.shared.queues.ripen_acks(now, port, HELD_ACK_MAX),
        }
        while let Some(place) = self.shared.queues.ripe_ack(port) {
            if !self.send_ack(now, place, sink) {
                return false;
            }
            self.shared.queues.remove_ack(port, place);
        }
        while let Some(place) = self.shared.queues.new_ack(port) {
            let conn = self.conns.at(place, &mut self.shared);
            if conn.is_some_and(|conn| conn.has_little_to_acknowledge()) {
                self.shared.queues.have_ack_wait(port, place);
                continue;
            }
            if !self.send_ack(now, place, sink) {
                return false;
            }
            self.shared.queues.remove_ack(port, place);
        }
        true
    }

    fn send_ack(&mut self, now: Instant, place: u32, sink: &mut impl FrameSink) -> bool {
        let conn = self.conns.at(place, &mut self.shared);
        conn.is_none_or(|mut conn| {
            conn.has_turn_to_come() || conn.send_due_acks(now, sink) != Sent::Full
        })
    }

    /// Neighbour resolutions have ended: who waited for them may go on.
    pub fn wake_resolved(&mut self, now: Instant) {
        while let Some(ended) = self.shared.net.links.poll_resolved() {
            self.setup().wake_syn_acks(ended.slot);
            self.wake_parked(now, &ended);
        }
    }

    fn wake_parked(&mut self, now: Instant, ended: &Ended) {
        let port = ended.port;
        let mut next = self.shared.queues.front_output(port, Output::Parked);
        while let Some(place) = next {
            next = self.shared.queues.next_output(port, Output::Parked, place);
            let Some(mut conn) = self.conns.at(place, &mut self.shared) else {
                continue;
            };
            if conn.cold.path.next_hop == ended.addr {
                conn.unpark();
                if ended.mac.is_none() {
                    conn.on_unreachable(now);
                }
                let slot = conn.slot();
                self.settle(now, slot);
            }
        }
    }
}

impl Conn<'_> {
    /// Sends up to a quantum of segments.
    #[inline(always)]
    fn take_turn(&mut self, now: Instant, sink: &mut impl FrameSink) -> Turn {
        let mut sent = 0;
        while sent < QUANTUM {
            let Some(plan) = self.plan(now) else {
                return self.end_turn(now, sink);
            };
            sent += plan.segments();
            let is_last = self.send_view().is_last(&plan);
            match self.send(now, plan, sink) {
                Sent::Yes if is_last => return self.end_turn(now, sink),
                Sent::Yes => {}
                Sent::Full => return Turn::Full,
                Sent::Not => return Turn::Off,
            }
        }
        Turn::More
    }

    /// Nothing (more) to send: what holds it back, and is an ACK left that hoped to ride on it?
    #[inline(always)]
    fn end_turn(&mut self, now: Instant, sink: &mut impl FrameSink) -> Turn {
        let mut send = self.send_part();
        send.note_held(now);
        send.note_limits(now);
        let actions = send.actions;
        self.carry_out_sent(actions);
        let send = self.send_view();
        let waits = self.cold.loss.pacing.is_waiting() || send.is_corked();
        if send.is_blocked_by_window() && !waits && self.send_part().begin_persist(now) {
            self.start_rtx_timer(now);
        }
        if !self.has(Flags::ACK_NOW) || self.sh.queues.has_ack(self.place) {
            return Turn::Done;
        }
        match self.send_due_acks(now, sink) {
            Sent::Yes => Turn::Done,
            Sent::Full => Turn::Full,
            Sent::Not => Turn::Off,
        }
    }

    /// Whether the ACK that is due can wait for the connection's turn on the other lists: it goes
    /// with what is sent then, or behind it. Duplicate ACKs must not wait (RFC 5681 §2).
    fn has_turn_to_come(&self) -> bool {
        self.has(Flags::ON_DATA | Flags::ON_CONTROL)
            && self.hot.rcv.dup_acks_due == 0
            && !self.has(Flags::KEEPALIVE_DUE)
            && !self.cold.ecn.owes_pure_ack()
    }

    /// Whether the ACK that is due is for less than must be acknowledged at once (RFC 5681 §4.2),
    /// and the peer can go on without it.
    pub fn has_little_to_acknowledge(&self) -> bool {
        self.receive_view().owes_little()
            && !self.has(Flags::KEEPALIVE_DUE)
            && !self.cold.ecn.owes_pure_ack()
    }

    fn send_due_acks(&mut self, now: Instant, sink: &mut impl FrameSink) -> Sent {
        if self.has(Flags::KEEPALIVE_DUE) {
            let probe = self.send_view().keepalive();
            match self.send(now, probe, sink) {
                Sent::Yes => self.clear(Flags::KEEPALIVE_DUE),
                other => return other,
            }
        }
        while self.has(Flags::ACK_NOW) {
            let ack = self.send_view().ack();
            match self.send(now, ack, sink) {
                Sent::Yes => {}
                other => return other,
            }
        }
        Sent::Yes
    }

    fn send(&mut self, now: Instant, plan: Plan, sink: &mut impl FrameSink) -> Sent {
        match self.resolve(now) {
            Ok(mac) if self.cold.snd.is_urgent => self.send_urgently(now, plan, mac, sink),
            Ok(mac) => self.send_to(now, plan, mac, None, sink),
            Err(sent) => sent,
        }
    }

    /// Urgent data may be unacknowledged.
    #[cold]
    #[inline(never)]
    fn send_urgently(
        &mut self,
        now: Instant,
        plan: Plan,
        mac: MacAddr,
        sink: &mut impl FrameSink,
    ) -> Sent {
        let urgent = self.send_part().urgent_pointer(plan.seq);
        self.send_to(now, plan, mac, urgent, sink)
    }

    #[inline(always)]
    fn send_to(
        &mut self,
        now: Instant,
        mut plan: Plan,
        mac: MacAddr,
        urgent: Option<u16>,
        sink: &mut impl FrameSink,
    ) -> Sent {
        let mut header = TcpHeader::default();
        self.fill_header(now, &plan, &mut header);
        if let Some(pointer) = urgent {
            header.flags |= TcpFlags::URG;
            header.urgent = pointer;
        }
        let interface = usize::from(self.hot.port.0);
        let interface = self.sh.config.interfaces.get(interface);
        // RFC 9293 MUST-45.
        let target = Target {
            path: &self.cold.path,
            mac,
            dst: self.key.remote().ip(),
            ecn: self
                .ecn_view()
                .codepoint(|| outgoing(&plan, self.hot.snd.nxt)),
            partial: interface.is_some_and(|interface| interface.capabilities.tx_checksum),
        };
        let start = self.send_view().stream_start();
        let shared = &mut *self.sh;
        let payload = if plan.len > 0 {
            let offset = plan.data_seq() - start;
            shared.streams.peek(self.stream, offset, plan.len)
        } else {
            Pieces::EMPTY
        };
        let net = &shared.net;
        let sent = if plan.cut == 0 {
            send_segment(sink, net, &target, &header, payload)
        } else {
            send_gso(sink, net, &target, &mut header, &mut plan, payload)
        };
        let Some(len) = sent else {
            return Sent::Full;
        };
        self.sh.counters.frames_out += 1;
        self.sh.counters.bytes_out += len as u64;
        self.on_sent(now, &plan);
        Sent::Yes
    }

    #[inline(always)]
    fn resolve(&mut self, now: Instant) -> Result<MacAddr, Sent> {
        if let Some(mac) = self.cold.path.known {
            return Ok(mac);
        }
        if self.has(Flags::PROGRESS) {
            self.clear(Flags::PROGRESS);
            let sh = &mut *self.sh;
            sh.net.links.confirm(now, &self.cold.path, &mut sh.counters);
        }
        let sh = &mut *self.sh;
        match sh.net.resolve(now, &self.cold.path, &mut sh.counters) {
            Resolution::Ready(mac) => Ok(mac),
            Resolution::Pending(_) => {
                self.lists().park();
                Err(Sent::Not)
            }
            Resolution::Failed => {
                self.lists().leave_all();
                self.on_unreachable(now);
                Err(Sent::Not)
            }
        }
    }

    pub fn unpark(&mut self) {
        self.lists().leave(Output::Parked);
        self.mark_output();
        if self.has(Flags::ACK_NOW | Flags::KEEPALIVE_DUE) {
            self.queue_ack();
        }
    }

    /// The neighbour does not answer. That ends an attempt to connect; an established connection
    /// tries again with its timers (RFC 1122 §4.2.3.9: a soft error).
    #[cold]
    fn on_unreachable(&mut self, now: Instant) {
        if self.hot.state == State::SynSent {
            self.fail(Error::HostUnreachable);
            return;
        }
        self.lists().leave_all();
        self.clear(Flags::ACK_NOW | Flags::KEEPALIVE_DUE);
        self.hot.rcv.dup_acks_due = 0;
        self.cold.soft_error = Some(Error::HostUnreachable);
        // Without a timer nothing would ever try again.
        let waits = self.hot.flight() > 0
            || self.has(Flags::SYN_DUE)
            || self.send_view().is_blocked_by_window();
        if waits && self.hot.loss.rtx_at == Instant::FAR {
            self.start_rtx_timer(now);
        }
    }

    /// Everything that having sent a segment changes.
    fn on_sent(&mut self, now: Instant, plan: &Plan) {
        self.sh.counters.segments_out += 1;
        self.sh.counters.tcp_bytes_out += u64::from(plan.len);
        self.cold.statistics.on_sent(plan, self.hot.snd.nxt);
        if plan.flags.contains(TcpFlags::ACK) {
            self.on_ack_sent(plan);
        }
        let sent = outgoing(plan, self.hot.snd.nxt);
        let has_ack = plan.flags.contains(TcpFlags::ACK);
        self.cold.ecn.on_sent(sent, has_ack);
        self.loss().on_sent(plan.len);
        match plan.kind {
            Kind::Ack => self.sh.counters.acks_out += 1,
            Kind::Keepalive => self.sh.counters.keepalive_probes += 1,
            Kind::Syn => self.on_syn_sent(now, plan),
            Kind::New => self.on_new_sent(now, plan),
            Kind::Retransmission => self.on_retransmitted(now, plan),
            Kind::TailProbe => self.on_tail_probe_sent(now, plan),
            Kind::Probe => self.on_probe_sent(now, plan),
        }
    }

    /// The ACK that was due went out, alone or on something else.
    /// RFC 2883 §4-2.
    fn on_ack_sent(&mut self, plan: &Plan) {
        self.hot.rcv.on_ack_sent(plan.kind == Kind::Ack);
        self.cold.ecn.on_ack_sent();
        self.clear(Flags::ACK_DELAYED | Flags::DUPLICATE);
        if self.hot.rcv.dup_acks_due == 0 {
            self.unmark_ack();
        }
    }

    fn on_syn_sent(&mut self, now: Instant, plan: &Plan) {
        self.clear(Flags::SYN_DUE);
        // A SYN that goes again goes without data, which may have arrived for all that.
        self.send_part().advance(now, plan.end());
        let again = self.cold.open.syn_went_before(self.hot.retries);
        if again {
            // Only a time-out is a sign of loss.
            self.hot.set(Flags::SYN_RETRANSMITTED, self.hot.retries > 0);
            self.cold.statistics.retransmits += 1;
            self.sh.counters.retransmits += 1;
        }
        // The SYN is timed, or the SYN-ACK that answers a SYN that crossed it. Its data may be
        // refused.
        let end = self.cold.iss + 1;
        let actions = self.loss().on_syn_sent(now, again, end);
        self.carry_out(actions);
    }

    pub fn on_new_sent(&mut self, now: Instant, plan: &Plan) {
        self.send_part().on_new(now, plan);
        if self.has(Flags::PERSIST) {
            self.loss().timers().stop_rtx_timer();
        }
        if plan.len >= u32::from(self.hot.loss.mss) {
            self.on_full_segment_sent(now, plan);
        }
        let (end, len) = (plan.end(), plan.len);
        let mut loss = self.loss();
        loss.on_new_sent(now, NewData { end, len });
        loss.start_timers_of_new_data(now);
        let actions = loss.actions;
        let mut send = self.send_part();
        send.advance_new(now, end);
        let told = send.actions;
        self.carry_out_sent(told);
        self.carry_out(actions);
    }

    /// New data went out in a segment of full size, or larger: then it is a probe.
    fn on_full_segment_sent(&mut self, now: Instant, plan: &Plan) {
        let una = self.hot.snd.una;
        if self.cold.search.owes_proof(una) {
            self.path().prove(now);
        }
        self.cold.search.forget_before(una);
        let is_probe = plan.cut == 0 && plan.len > u32::from(self.hot.loss.mss);
        if is_probe {
            let range = Range::new(plan.seq, plan.end());
            self.path().on_probe_sent(range, plan.len);
        } else {
            self.cold.search.on_full_sent(plan.end());
        }
    }

    /// Data or FIN went out again.
    pub fn on_retransmitted(&mut self, now: Instant, plan: &Plan) {
        let range = Range::new(plan.seq, plan.end());
        self.send_part().on_again(plan);
        if self.cold.search.probe().is_some() {
            self.path().on_resent(now, range);
        }
        let actions = self.loss().on_retransmitted(now, range, plan.len);
        self.send_part().advance(now, range.end);
        let retransmits = &mut self.cold.statistics.retransmits;
        *retransmits = retransmits.saturating_add(1);
        self.sh.counters.retransmits += 1;
        self.carry_out(actions);
    }

    /// A tail loss probe went out: new data, or the last segment again.
    fn on_tail_probe_sent(&mut self, now: Instant, plan: &Plan) {
        let nxt = self.hot.snd.nxt;
        let is_new = plan.seq >= nxt;
        self.sh.counters.tail_probes += 1;
        let end = plan.end().max(nxt);
        self.loss().timers().on_tail_probe(is_new, end);
        if is_new {
            self.on_new_sent(now, plan);
        } else {
            self.on_retransmitted(now, plan);
        }
    }

    fn on_probe_sent(&mut self, now: Instant, plan: &Plan) {
        self.sh.counters.window_probes += 1;
        let range = Range::new(plan.seq, plan.end());
        let actions = self.loss().on_window_probe_sent(now, range);
        let retries = self.hot.retries;
        self.send_part().on_probe(now, range.end, retries);
        self.hot.retries = retries.saturating_add(1);
        self.carry_out(actions);
        self.start_cold_timers(now);
    }
}
