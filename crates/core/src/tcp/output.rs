//! What goes next: window probe, retransmission, new data, FIN. The parts say what they would have
//! sent, or allow; what comes before what is decided here.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::emit::{ecn_bits, segment_room, syn_data_len};
use crate::tcp::flags::Flags;
use crate::tcp::loss::{FRTO_SEGMENTS, Frto};
use crate::tcp::send::{Kind, Plan, Unsent, at_a_time};

/// The next segment of the control and data lists.
#[inline(always)]
pub(crate) fn plan_next(conn: &mut Conn<'_>, now: Instant) -> Option<Plan> {
    if conn.has(Flags::SYN_DUE) {
        return Some(plan_syn(conn, now));
    }
    if !conn.hot.state.may_transmit() && !conn.cold.open.may_send_early(conn.hot.state) {
        return None;
    }
    if conn.has(Flags::PROBE_DUE) {
        return plan_window_probe(conn);
    }
    if conn.has(Flags::TAIL_PROBE_DUE)
        && let Some(probe) = plan_tail_probe(conn)
    {
        return Some(probe);
    }
    let plan = if conn.loss_view().is_held_by_frto() {
        plan_frto(conn, now)
    } else {
        plan_lost(conn).or_else(|| plan_new(conn, now))
    };
    let plan = plan?;
    may_depart(conn, now).then_some(plan)
}

/// F-RTO (RFC 5682): nothing before the ACK of the first retransmission; then new data, if
/// there is some that may go. RFC 5682 §2.1-7.
#[cold]
fn plan_frto(conn: &mut Conn<'_>, now: Instant) -> Option<Plan> {
    let Frto::Second(left) = conn.loss_view().frto() else {
        return None;
    };
    let plan = if left > 0 { plan_new(conn, now) } else { None };
    if plan.is_none() && left == FRTO_SEGMENTS {
        let mut loss = conn.loss();
        loss.leave_frto();
        let actions = loss.actions;
        conn.carry_out(actions);
        return plan_lost(conn);
    }
    plan
}

fn plan_syn(conn: &Conn<'_>, now: Instant) -> Plan {
    let flags = if conn.hot.state == State::SynReceived {
        TcpFlags::SYN | TcpFlags::ACK
    } else {
        TcpFlags::SYN
    };
    Plan {
        kind: Kind::Syn,
        seq: conn.cold.iss,
        len: syn_data_len(conn, now),
        flags,
        cut: 0,
    }
}

#[cold]
fn plan_window_probe(conn: &mut Conn<'_>) -> Option<Plan> {
    let probe = conn.send_view().window_probe(segment_room(conn));
    if probe.is_none() {
        conn.clear(Flags::PROBE_DUE);
    }
    probe
}

/// What is taken for lost, and was not sent again since.
/// RFC 6675 §5-12, §5-13.
#[inline]
fn plan_lost(conn: &Conn<'_>) -> Option<Plan> {
    if conn.has(Flags::RECOVERY | Flags::LOSS) {
        plan_first_lost(conn)
    } else {
        None
    }
}

#[cold]
fn plan_first_lost(conn: &Conn<'_>) -> Option<Plan> {
    let loss = conn.loss_view();
    let room = segment_room(conn);
    let plan = conn.send_view().retransmission(loss.next_lost()?, room)?;
    loss.may_retransmit(plan.len).then_some(plan)
}

/// Whether a data segment may leave now, or waits for its time.
#[inline]
fn may_depart(conn: &mut Conn<'_>, now: Instant) -> bool {
    let mut loss = conn.loss();
    let may = loss.may_depart(now);
    let actions = loss.actions;
    conn.carry_out(actions);
    may
}

/// TLP_send_probe (RFC 8985 §7.3): new data if there is some, whatever the congestion window
/// says; else the last segment again.
/// RFC 8985 §7.3-4, §7.3-5.
#[cold]
fn plan_tail_probe(conn: &mut Conn<'_>) -> Option<Plan> {
    let room = segment_room(conn);
    let send = conn.send_view();
    let plan = send.tail_probe_of_new(room).or_else(|| {
        let last = send.last_in_flight(room);
        let gap = conn.loss_view().first_unsacked(last.start, last.end)?;
        send.tail_probe_again(gap, room)
    });
    if plan.is_none() {
        conn.clear(Flags::TAIL_PROBE_DUE);
    }
    plan
}

/// NextSeg (2): data that was never sent, and the FIN behind the last of it.
/// RFC 5681 §2-1; RFC 9937 §3-1.
fn plan_new(conn: &mut Conn<'_>, now: Instant) -> Option<Plan> {
    let send = conn.send_view();
    let unsent = send.unsent()?;
    if send.was_idle(now, u64::from(conn.hot.loss.rtt.rto_micros())) {
        conn.loss().congestion().restart_after_idle();
    }
    if conn.cold.search.is_open(conn.cold.path.mtu)
        && let Some(len) = plan_path_probe(conn, now, &unsent)
    {
        let may_go = conn.loss_view().cwnd_allows(len);
        return may_go.then(|| conn.send_view().segment(Kind::New, conn.hot.snd.nxt, len));
    }
    let send = conn.send_view();
    let len = send.new_len(&unsent, segment_room(conn))?;
    if len > 0 && !conn.loss_view().cwnd_allows(len) {
        return None;
    }
    let plan = send.new_segment(&unsent, len);
    Some(if len < unsent.sendable() {
        plan_gso(conn, plan, &unsent)
    } else {
        plan
    })
}

/// The length of a segment of new data that probes the path, if one is to go next.
#[inline(never)]
fn plan_path_probe(conn: &mut Conn<'_>, now: Instant, unsent: &Unsent) -> Option<u32> {
    let has_variable = segment_room(conn) < u32::from(conn.hot.loss.mss);
    let path = conn.path();
    path.plan_probe(now, unsent.available, unsent.usable, has_variable)
}

/// As many segments like `plan`, a full one of new data, as may go together with it.
fn plan_gso(conn: &Conn<'_>, plan: Plan, unsent: &Unsent) -> Plan {
    let port = usize::from(conn.hot.port.0);
    let interface = conn.sh.config.interfaces.get(port);
    let most = interface.map_or(0, |interface| interface.capabilities.tx_gso);
    let most = at_a_time(most, conn.cold.loss.pacing.rate());
    if most < 2 * plan.len {
        return plan;
    }
    let loss = conn.loss_view();
    let room = loss.hot.window.cwnd.saturating_sub(loss.pipe());
    let together = conn.send_view().gather(plan, unsent, most, room);
    // CWR is the first segment's alone (RFC 3168 §6.1.2), and one of the bits of a counter
    // (RFC 9768 §3.2.2): no link is trusted with it.
    if together.cut > 0 && ecn_bits(conn, &plan).contains(TcpFlags::CWR) {
        return plan;
    }
    together
}
