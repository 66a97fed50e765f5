//! What the wheel fires. A connection has several deadlines and one entry in the wheel, for the
//! earliest or earlier: when it fires, whatever is due happens, and the entry is set again.

use wire::time::Instant;

use crate::error::Error;
use crate::info::State;
use crate::tcp::clock::near;
use crate::tcp::conn::Conn;
use crate::tcp::deadlines::{Deadlines, probe_interval};
use crate::tcp::flags::Flags;

pub(crate) fn on_timer(conn: &mut Conn<'_>, now: Instant) {
    conn.hot.wheel_at = Instant::FAR;
    let in_flight = conn.loss_view().modelled_flight();
    if conn.cold.loss.pacing.release_at() <= now {
        let actions = conn.loss().on_release_timer();
        conn.carry_out(actions);
    }
    if conn.hot.loss.early_at <= now {
        on_early_timer(conn, now);
    }
    if conn.hot.loss.rtx_at <= now {
        on_rtx_timer(conn, now);
    }
    if let Some(before) = in_flight {
        conn.loss().sampler().note_flight_lost(before);
    }
    if conn.has(Flags::ACK_DELAYED) && near(now, conn.hot.rcv.ack_at) <= now {
        conn.clear(Flags::ACK_DELAYED);
        conn.mark_ack();
    }
    if conn.has(Flags::COLD_TIMERS) && !conn.hot.state.is_over() {
        on_cold_timers(conn, now);
    }
    if !conn.hot.state.is_over() {
        conn.wake_at(earliest(conn, now));
    }
}

fn earliest(conn: &Conn<'_>, now: Instant) -> Instant {
    let mut at = conn.hot.loss.deadline();
    at = at.min(conn.cold.loss.pacing.release_at());
    if conn.has(Flags::ACK_DELAYED) {
        at = at.min(near(now, conn.hot.rcv.ack_at));
    }
    if conn.has(Flags::COLD_TIMERS) {
        at = at
            .min(deadlines(conn, now).first())
            .min(user_deadline(conn, now))
            .min(conn.cold.snd.cork_deadline());
    }
    at
}

/// The reordering timer or the probe timer expired.
fn on_early_timer(conn: &mut Conn<'_>, now: Instant) {
    let may_send = conn.hot.snd.wnd > 0 && conn.hot.state.may_transmit();
    let probe = conn.cold.search.probe();
    let actions = conn.loss().on_early_timer(now, may_send, probe);
    conn.carry_out(actions);
}

fn on_rtx_timer(conn: &mut Conn<'_>, now: Instant) {
    conn.hot.loss.rtx_at = Instant::FAR;
    match conn.hot.state {
        State::SynSent | State::SynReceived => on_syn_timeout(conn, now),
        _ if conn.has(Flags::PERSIST) || conn.hot.snd.wnd == 0 => on_persist_timer(conn, now),
        // What should have been sent never was: its neighbour could not be resolved, or a send
        // is still due.
        _ if conn.hot.flight() == 0 => conn.mark_output(),
        _ => on_retransmission_timer(conn, now),
    }
}

/// RFC 9293 §3.8.3: R2 for a SYN.
/// RFC 9293 MUST-22.
fn on_syn_timeout(conn: &mut Conn<'_>, now: Instant) {
    conn.sh.counters.timeouts += 1;
    let limit = if conn.cold.open.may_send_early(conn.hot.state) {
        conn.sh.config.syn_ack_retries
    } else {
        let asked = conn.options().syn_retries;
        asked.unwrap_or(conn.sh.config.syn_retries)
    };
    if conn.hot.retries >= limit || user_deadline(conn, now) <= now {
        conn.fail(conn.cold.soft_error.unwrap_or(Error::TimedOut));
        return;
    }
    conn.cold.statistics.on_timeout(now, conn.hot.retries == 0);
    conn.hot.retries += 1;
    conn.cold.ecn.on_syn_lost(conn.hot.retries);
    let stamp = conn.hot.tsval(now);
    conn.loss().timers().back_off(stamp);
    conn.set(Flags::SYN_DUE);
    conn.start_rtx_timer(now);
    conn.mark_output();
}

/// RFC 6298 §5.4 to §5.6.
/// RFC 9293 MUST-20; RFC 6298 §5-7.
fn on_retransmission_timer(conn: &mut Conn<'_>, now: Instant) {
    conn.sh.counters.timeouts += 1;
    let mut limit = conn.sh.config.data_retries;
    if conn.has(Flags::APP_CLOSED) {
        limit = limit.min(conn.sh.config.orphan_retries);
    }
    if conn.hot.retries >= limit || user_deadline(conn, now) <= now {
        conn.fail(conn.cold.soft_error.unwrap_or(Error::TimedOut));
        return;
    }
    conn.cold.statistics.on_timeout(now, conn.hot.retries == 0);
    conn.hot.retries += 1;
    // With data in flight: perhaps the path has changed.
    conn.path().on_timeout(now);
    conn.sh.net.links.suspect(now, &conn.cold.path);
    let actions = conn.loss().on_timeout(now);
    conn.carry_out(actions);
    let stamp = conn.hot.tsval(now);
    conn.loss().timers().back_off(stamp);
    conn.start_rtx_timer(now);
}

/// The window is closed (RFC 9293 §3.8.6.1): probe, ever more rarely, for as long as the peer
/// answers. RFC 9293 MUST-36, MUST-37.
fn on_persist_timer(conn: &mut Conn<'_>, now: Instant) {
    let orphaned =
        conn.has(Flags::APP_CLOSED) && conn.hot.loss.backoff >= conn.sh.config.orphan_retries;
    let unanswered = conn.hot.retries >= conn.sh.config.data_retries;
    let mut send = conn.send_part();
    send.note_blocked(now);
    if unanswered || orphaned || send.is_held_up(now) {
        conn.send_reset(now);
        conn.fail(conn.cold.soft_error.unwrap_or(Error::TimedOut));
        return;
    }
    send.owe_probe();
    conn.start_rtx_timer(now);
    conn.mark_output();
}

/// Which timers that few connections have does this one have? Its options have changed.
pub(crate) fn choose_cold_timers(conn: &mut Conn<'_>) {
    let wanted = conn.options().has_cold_timers()
        || conn.cold.fin_wait_2_at < Instant::FAR
        || conn.cold.snd.cork_deadline() < Instant::FAR;
    conn.hot.set(Flags::COLD_TIMERS, wanted);
}

/// The timers that few connections have.
#[inline]
pub(crate) fn start_cold_timers(conn: &mut Conn<'_>, now: Instant) {
    if conn.has(Flags::COLD_TIMERS) {
        conn.wake_at(earliest(conn, now));
    }
}

fn on_cold_timers(conn: &mut Conn<'_>, now: Instant) {
    if conn.cold.snd.cork_deadline() <= now {
        conn.push();
    }
    let deadlines = deadlines(conn, now);
    if deadlines.fin_wait_2() <= now {
        conn.finish(State::Closed);
    } else if deadlines.idle() <= now {
        conn.send_reset(now);
        conn.fail(Error::TimedOut);
    } else if deadlines.keepalive() <= now {
        on_keepalive_timer(conn, now);
    } else if user_deadline(conn, now) <= now {
        conn.fail(conn.cold.soft_error.unwrap_or(Error::TimedOut));
    }
}

/// The deadlines that few connections have.
fn deadlines<'a>(conn: &'a Conn<'_>, now: Instant) -> Deadlines<'a> {
    let (hot, cold) = (&*conn.hot, &*conn.cold);
    Deadlines {
        options: conn.options(),
        state: hot.state,
        is_waiting: hot.flight() > 0 || conn.has(Flags::PERSIST),
        last_received: near(now, hot.last_received),
        last_sent: cold.snd.last_sent,
        probes: cold.keepalive_probes,
        probe_at: cold.keepalive_at,
        fin_wait_2_at: cold.fin_wait_2_at,
    }
}

fn user_deadline(conn: &Conn<'_>, now: Instant) -> Instant {
    conn.send_view().user_deadline(now, conn.hot.retries)
}

/// RFC 9293 MUST-29.
fn on_keepalive_timer(conn: &mut Conn<'_>, now: Instant) {
    let Some(keepalive) = conn.options().keepalive else {
        return;
    };
    if deadlines(conn, now).is_given_up(now, &keepalive) {
        conn.send_reset(now);
        conn.fail(conn.cold.soft_error.unwrap_or(Error::TimedOut));
        return;
    }
    conn.cold.keepalive_probes += 1;
    conn.cold.keepalive_at = now + probe_interval(&keepalive);
    conn.set(Flags::KEEPALIVE_DUE);
    conn.queue_ack();
}
