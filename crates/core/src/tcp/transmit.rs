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
use crate::tcp::emit::{fill_header, outgoing};
use crate::tcp::flags::Flags;
use crate::tcp::frame::send_segment;
use crate::tcp::gso::send_gso;
use crate::tcp::loss::NewData;
use crate::tcp::output::plan_next;
use crate::tcp::queues::Output;
use crate::tcp::ranges::Range;
use crate::tcp::send::{Kind, Plan};
use crate::tcp::target::Target;
use crate::tcp::timers::start_cold_timers;

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
            match take_turn(&mut conn, now, sink) {
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
            has_turn_to_come(&conn) || send_due_acks(&mut conn, now, sink) != Sent::Full
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
                    on_unreachable(&mut conn, now);
                }
                let slot = conn.slot();
                self.settle(now, slot);
            }
        }
    }
}

/// Sends up to a quantum of segments.
#[inline(always)]
fn take_turn(conn: &mut Conn<'_>, now: Instant, sink: &mut impl FrameSink) -> Turn {
    let mut sent = 0;
    while sent < QUANTUM {
        let Some(plan) = plan_next(conn, now) else {
            return end_turn(conn, now, sink);
        };
        sent += plan.segments();
        let is_last = conn.send_view().is_last(&plan);
        match send_planned(conn, now, plan, sink) {
            Sent::Yes if is_last => return end_turn(conn, now, sink),
            Sent::Yes => {}
            Sent::Full => return Turn::Full,
            Sent::Not => return Turn::Off,
        }
    }
    Turn::More
}

/// Nothing (more) to send: what holds it back, and is an ACK left that hoped to ride on it?
#[inline(always)]
fn end_turn(conn: &mut Conn<'_>, now: Instant, sink: &mut impl FrameSink) -> Turn {
    let mut send = conn.send_part();
    send.note_held(now);
    send.note_limits(now);
    let actions = send.actions;
    conn.carry_out_sent(actions);
    let send = conn.send_view();
    let waits = conn.cold.loss.pacing.is_waiting() || send.is_corked();
    if send.is_blocked_by_window() && !waits && conn.send_part().begin_persist(now) {
        conn.start_rtx_timer(now);
    }
    if !conn.has(Flags::ACK_NOW) || conn.sh.queues.has_ack(conn.place) {
        return Turn::Done;
    }
    match send_due_acks(conn, now, sink) {
        Sent::Yes => Turn::Done,
        Sent::Full => Turn::Full,
        Sent::Not => Turn::Off,
    }
}

/// Whether the ACK that is due can wait for the connection's turn on the other lists: it goes
/// with what is sent then, or behind it. Duplicate ACKs must not wait (RFC 5681 §2).
fn has_turn_to_come(conn: &Conn<'_>) -> bool {
    conn.has(Flags::ON_DATA | Flags::ON_CONTROL)
        && conn.hot.rcv.dup_acks_due == 0
        && !conn.has(Flags::KEEPALIVE_DUE)
        && !conn.cold.ecn.owes_pure_ack()
}

fn send_due_acks(conn: &mut Conn<'_>, now: Instant, sink: &mut impl FrameSink) -> Sent {
    if conn.has(Flags::KEEPALIVE_DUE) {
        let probe = conn.send_view().keepalive();
        match send_planned(conn, now, probe, sink) {
            Sent::Yes => conn.clear(Flags::KEEPALIVE_DUE),
            other => return other,
        }
    }
    while conn.has(Flags::ACK_NOW) {
        let ack = conn.send_view().ack();
        match send_planned(conn, now, ack, sink) {
            Sent::Yes => {}
            other => return other,
        }
    }
    Sent::Yes
}

fn send_planned(conn: &mut Conn<'_>, now: Instant, plan: Plan, sink: &mut impl FrameSink) -> Sent {
    match resolve(conn, now) {
        Ok(mac) if conn.cold.snd.is_urgent => send_urgently(conn, now, plan, mac, sink),
        Ok(mac) => send_to(conn, now, plan, mac, None, sink),
        Err(sent) => sent,
    }
}

/// Urgent data may be unacknowledged.
#[cold]
#[inline(never)]
fn send_urgently(
    conn: &mut Conn<'_>,
    now: Instant,
    plan: Plan,
    mac: MacAddr,
    sink: &mut impl FrameSink,
) -> Sent {
    let urgent = conn.send_part().urgent_pointer(plan.seq);
    send_to(conn, now, plan, mac, urgent, sink)
}

#[inline(always)]
fn send_to(
    conn: &mut Conn<'_>,
    now: Instant,
    mut plan: Plan,
    mac: MacAddr,
    urgent: Option<u16>,
    sink: &mut impl FrameSink,
) -> Sent {
    let mut header = TcpHeader::default();
    fill_header(conn, now, &plan, &mut header);
    if let Some(pointer) = urgent {
        header.flags |= TcpFlags::URG;
        header.urgent = pointer;
    }
    let interface = usize::from(conn.hot.port.0);
    let interface = conn.sh.config.interfaces.get(interface);
    // RFC 9293 MUST-45.
    let target = Target {
        path: &conn.cold.path,
        mac,
        dst: conn.key.remote().ip(),
        ecn: conn
            .ecn_view()
            .codepoint(|| outgoing(&plan, conn.hot.snd.nxt)),
        partial: interface.is_some_and(|interface| interface.capabilities.tx_checksum),
    };
    let start = conn.send_view().stream_start();
    let shared = &mut *conn.sh;
    let payload = if plan.len > 0 {
        let offset = plan.data_seq() - start;
        shared.streams.peek(conn.stream, offset, plan.len)
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
    conn.sh.counters.frames_out += 1;
    conn.sh.counters.bytes_out += len as u64;
    on_sent(conn, now, &plan);
    Sent::Yes
}

#[inline(always)]
fn resolve(conn: &mut Conn<'_>, now: Instant) -> Result<MacAddr, Sent> {
    if let Some(mac) = conn.cold.path.known {
        return Ok(mac);
    }
    if conn.has(Flags::PROGRESS) {
        conn.clear(Flags::PROGRESS);
        let sh = &mut *conn.sh;
        sh.net.links.confirm(now, &conn.cold.path, &mut sh.counters);
    }
    let sh = &mut *conn.sh;
    match sh.net.resolve(now, &conn.cold.path, &mut sh.counters) {
        Resolution::Ready(mac) => Ok(mac),
        Resolution::Pending(_) => {
            conn.lists().park();
            Err(Sent::Not)
        }
        Resolution::Failed => {
            conn.lists().leave_all();
            on_unreachable(conn, now);
            Err(Sent::Not)
        }
    }
}

/// The neighbour does not answer. That ends an attempt to connect; an established connection
/// tries again with its timers (RFC 1122 §4.2.3.9: a soft error).
#[cold]
fn on_unreachable(conn: &mut Conn<'_>, now: Instant) {
    if conn.hot.state == State::SynSent {
        conn.fail(Error::HostUnreachable);
        return;
    }
    conn.lists().leave_all();
    conn.clear(Flags::ACK_NOW | Flags::KEEPALIVE_DUE);
    conn.hot.rcv.dup_acks_due = 0;
    conn.cold.soft_error = Some(Error::HostUnreachable);
    // Without a timer nothing would ever try again.
    let waits = conn.hot.flight() > 0
        || conn.has(Flags::SYN_DUE)
        || conn.send_view().is_blocked_by_window();
    if waits && conn.hot.loss.rtx_at == Instant::FAR {
        conn.start_rtx_timer(now);
    }
}

/// Everything that having sent a segment changes.
fn on_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    conn.sh.counters.segments_out += 1;
    conn.sh.counters.tcp_bytes_out += u64::from(plan.len);
    conn.cold.statistics.on_sent(plan, conn.hot.snd.nxt);
    if plan.flags.contains(TcpFlags::ACK) {
        on_ack_sent(conn, plan);
    }
    let sent = outgoing(plan, conn.hot.snd.nxt);
    let has_ack = plan.flags.contains(TcpFlags::ACK);
    conn.cold.ecn.on_sent(sent, has_ack);
    conn.loss().on_sent(plan.len);
    match plan.kind {
        Kind::Ack => conn.sh.counters.acks_out += 1,
        Kind::Keepalive => conn.sh.counters.keepalive_probes += 1,
        Kind::Syn => on_syn_sent(conn, now, plan),
        Kind::New => on_new_sent(conn, now, plan),
        Kind::Retransmission => on_retransmitted(conn, now, plan),
        Kind::TailProbe => on_tail_probe_sent(conn, now, plan),
        Kind::Probe => on_probe_sent(conn, now, plan),
    }
}

/// The ACK that was due went out, alone or on something else.
/// RFC 2883 §4-2.
fn on_ack_sent(conn: &mut Conn<'_>, plan: &Plan) {
    conn.hot.rcv.on_ack_sent(plan.kind == Kind::Ack);
    conn.cold.ecn.on_ack_sent();
    conn.clear(Flags::ACK_DELAYED | Flags::DUPLICATE);
    if conn.hot.rcv.dup_acks_due == 0 {
        conn.unmark_ack();
    }
}

fn on_syn_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    conn.clear(Flags::SYN_DUE);
    // A SYN that goes again goes without data, which may have arrived for all that.
    conn.send_part().advance(now, plan.end());
    let again = conn.cold.open.syn_went_before(conn.hot.retries);
    if again {
        // Only a time-out is a sign of loss.
        conn.hot.set(Flags::SYN_RETRANSMITTED, conn.hot.retries > 0);
        conn.cold.statistics.retransmits += 1;
        conn.sh.counters.retransmits += 1;
    }
    // The SYN is timed, or the SYN-ACK that answers a SYN that crossed it. Its data may be
    // refused.
    let end = conn.cold.iss + 1;
    let actions = conn.loss().on_syn_sent(now, again, end);
    conn.carry_out(actions);
}

pub(crate) fn on_new_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    conn.send_part().on_new(now, plan);
    if conn.has(Flags::PERSIST) {
        conn.loss().timers().stop_rtx_timer();
    }
    if plan.len >= u32::from(conn.hot.loss.mss) {
        on_full_segment_sent(conn, now, plan);
    }
    let (end, len) = (plan.end(), plan.len);
    let mut loss = conn.loss();
    loss.on_new_sent(now, NewData { end, len });
    loss.start_timers_of_new_data(now);
    let actions = loss.actions;
    let mut send = conn.send_part();
    send.advance_new(now, end);
    let told = send.actions;
    conn.carry_out_sent(told);
    conn.carry_out(actions);
}

/// New data went out in a segment of full size, or larger: then it is a probe.
fn on_full_segment_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    let una = conn.hot.snd.una;
    if conn.cold.search.owes_proof(una) {
        conn.path().prove(now);
    }
    conn.cold.search.forget_before(una);
    let is_probe = plan.cut == 0 && plan.len > u32::from(conn.hot.loss.mss);
    if is_probe {
        let range = Range::new(plan.seq, plan.end());
        conn.path().on_probe_sent(range, plan.len);
    } else {
        conn.cold.search.on_full_sent(plan.end());
    }
}

/// Data or FIN went out again.
pub(crate) fn on_retransmitted(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    let range = Range::new(plan.seq, plan.end());
    conn.send_part().on_again(plan);
    if conn.cold.search.probe().is_some() {
        conn.path().on_resent(now, range);
    }
    let actions = conn.loss().on_retransmitted(now, range, plan.len);
    conn.send_part().advance(now, range.end);
    let retransmits = &mut conn.cold.statistics.retransmits;
    *retransmits = retransmits.saturating_add(1);
    conn.sh.counters.retransmits += 1;
    conn.carry_out(actions);
}

/// A tail loss probe went out: new data, or the last segment again.
fn on_tail_probe_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    let nxt = conn.hot.snd.nxt;
    let is_new = plan.seq >= nxt;
    conn.sh.counters.tail_probes += 1;
    let end = plan.end().max(nxt);
    conn.loss().timers().on_tail_probe(is_new, end);
    if is_new {
        on_new_sent(conn, now, plan);
    } else {
        on_retransmitted(conn, now, plan);
    }
}

fn on_probe_sent(conn: &mut Conn<'_>, now: Instant, plan: &Plan) {
    conn.sh.counters.window_probes += 1;
    let range = Range::new(plan.seq, plan.end());
    let actions = conn.loss().on_window_probe_sent(now, range);
    let retries = conn.hot.retries;
    conn.send_part().on_probe(now, range.end, retries);
    conn.hot.retries = retries.saturating_add(1);
    conn.carry_out(actions);
    start_cold_timers(conn, now);
}
