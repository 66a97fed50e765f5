//! The ACK field (RFC 9293 §3.10.7.4, fifth): what it acknowledges, the window it offers, the
//! round-trip time it measures.

use std::time::Duration;

use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::data::note_arrival;
use crate::tcp::ecn::EcnActions;
use crate::tcp::emit::fill_header;
use crate::tcp::establish::complete_simultaneous_open;
use crate::tcp::flags::Flags;
use crate::tcp::loss::{Acked, Before};
use crate::tcp::segment::Segment;
use crate::tcp::send::PathTimes;
use crate::tcp::step::{Step, Stop};

/// Fifth, check the ACK field.
pub(crate) fn process_ack(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    if !seg.has(TcpFlags::ACK) {
        return Err(DropReason::TcpState.into());
    }
    if conn.hot.state == State::SynReceived {
        complete_simultaneous_open(conn, now, seg)?;
    }
    check_ack(conn, now, seg)?;
    // Not before: its ACK gives a forged segment away (RFC 5961 §5.2). Its mark would be
    // echoed, its arrival would pass for a sign of life, and its timestamp would have PAWS drop
    // the real ones.
    note_arrival(conn, now);
    receive_marks(conn, now, seg);
    conn.hot.update_ts_recent(seg);
    process_progress(conn, now, seg);
    update_window(conn, now, seg);
    after_ack(conn, now);
    if conn.hot.state.is_over() {
        return Err(Stop::Done);
    }
    Ok(())
}

/// What it says of the segments in flight: arrived, lost, or late.
fn process_progress(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let rate = begin_rate_sample(conn);
    let report = conn.loss().begin_ack(now, seg);
    let actions = conn.ecn().on_ack(seg, report.news);
    if actions.contains(EcnActions::REDUCE) {
        obey_marks(conn, now);
    }
    let actions = conn.loss().review(now, seg, report.news);
    conn.carry_out(actions);
    let advances = seg.ack > conn.hot.snd.una;
    if advances {
        on_ack_advance(conn, now, seg);
        if conn.cold.search.is_suspected() {
            conn.path().confirm(now);
        }
    } else if seg.ack == conn.hot.snd.una {
        let window = u32::from(seg.window) << conn.hot.snd_wscale;
        let same_window = window == conn.hot.snd.wnd;
        let loss = conn.loss();
        let actions = loss.on_possible_duplicate(now, seg, report.news, same_window);
        conn.carry_out(actions);
    }
    let probe = conn.cold.search.probe();
    let actions = conn.loss().finish_ack(now, &report, advances, probe);
    conn.carry_out(actions);
    finish_rate_sample(conn, now, rate);
}

/// The receiver's half of ECN: an acceptable segment says whether it met congestion.
pub(crate) fn receive_marks(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let is_wanted = conn.cold.loss.congestion.wants_ecn();
    if conn.cold.ecn.ends_run(seg, is_wanted) {
        acknowledge_run(conn, now);
    }
    let actions = conn.ecn().receive(seg);
    if actions.contains(EcnActions::ACK) {
        conn.mark_ack();
    }
}

/// Acknowledges what came before the segment that is being processed, if that is still to be
/// acknowledged and no ACK is withheld.
#[cold]
fn acknowledge_run(conn: &mut Conn<'_>, now: Instant) {
    if conn.hot.rcv.has_unacknowledged() && !conn.receive_view().has_withheld_ack() {
        let plan = conn.send_view().ack();
        let mut header = TcpHeader::default();
        fill_header(conn, now, &plan, &mut header);
        conn.sh.send_bare(conn.key, &header);
        conn.hot.rcv.last_ack_sent = conn.hot.rcv.nxt;
    }
}

/// The ACK reports congestion that the sender has to react to. A window of one segment cannot
/// shrink: the rate does. The next segment waits for as long as the retransmission timer would,
/// twice as long each time in a row.
/// RFC 3168 §6.1.2-4; RFC 9438 §4.6-5.
#[cold]
fn obey_marks(conn: &mut Conn<'_>, now: Instant) {
    let flight = conn.hot.flight();
    let is_least = conn.loss().congestion().on_marks(flight);
    conn.ecn().on_obeyed();
    if is_least {
        let holds = conn.cold.ecn.next_hold();
        conn.loss().congestion().hold_back(now, holds);
    }
}

/// An ACK is about to be processed. `None`: the algorithm has no use for rates.
#[inline(always)]
pub(crate) fn begin_rate_sample(conn: &mut Conn<'_>) -> Option<Before> {
    conn.cold.loss.rate.newest = None;
    conn.cold.loss.rate.log.get()?;
    look_before(conn)
}

#[inline(never)]
fn look_before(conn: &mut Conn<'_>) -> Option<Before> {
    let has_more = conn.send_view().has_unsent() || conn.loss_view().has_lost();
    conn.loss().sampler().begin(has_more)
}

/// An ACK has been processed: what it says about the path.
#[inline(always)]
pub(crate) fn finish_rate_sample(conn: &mut Conn<'_>, now: Instant, before: Option<Before>) {
    if let Some(before) = before {
        tell_rate(conn, now, before);
    }
}

#[inline(never)]
fn tell_rate(conn: &mut Conn<'_>, now: Instant, before: Before) {
    let rtt = conn.loss_view().rtt_of_newest(now);
    conn.loss().sampler().finish(now, before, rtt);
}

/// RFC 5961 §5.2: an ACK is acceptable from SND.UNA - MAX.SND.WND to SND.NXT. On a young
/// connection the window reaches back beyond the ISS, to what can never have been acknowledged.
/// RFC 9293 MAY-12; RFC 5961 §5.2-1.
fn check_ack(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    let ever = u32::try_from(conn.cold.statistics.bytes_acked).unwrap_or(u32::MAX);
    let oldest = conn.hot.snd.una - conn.hot.snd.max_wnd.min(ever.saturating_add(1));
    // What the process had sent when it ended, and had not come to note.
    if seg.ack > conn.hot.snd.nxt && conn.is_orphan() && seg.ack <= conn.hot.snd.fin_seq + 1 {
        conn.hot.snd.nxt = seg.ack;
    }
    if seg.ack >= oldest && seg.ack <= conn.hot.snd.nxt {
        return Ok(());
    }
    conn.challenge(now);
    Err(DropReason::TcpAck.into())
}

/// SND.UNA < SEG.ACK =< SND.NXT.
/// RFC 6298 §5-3, §5-4.
/// RFC 6582 §3.2-5.
#[inline]
pub(crate) fn on_ack_advance(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let acked = seg.ack - conn.hot.snd.una;
    let flight = conn.hot.flight();
    let fin = conn.has(Flags::FIN_QUEUED) && seg.ack > conn.hot.snd.fin_seq;
    conn.release(acked - u32::from(fin));
    if conn.hot.retries > 0 {
        conn.hot.retries = 0;
        conn.cold.statistics.end_timeouts(now);
    }
    conn.cold.snd.una_since = now;
    conn.set(Flags::PROGRESS);
    // What this ACK acknowledges was sent in the mode there was before it.
    let mode = conn.hot.flags;
    if conn.loss_view().is_usual(seg.ack) {
        conn.loss().on_usual_advance(now, seg);
        conn.hot.snd.una = seg.ack;
    } else {
        on_unusual_advance(conn, now, seg);
    }
    if !mode.contains(Flags::RECOVERY) {
        let ack = Acked {
            acked,
            flight,
            marked: conn.cold.ecn.take_marked(acked),
            after_timeout: mode.contains(Flags::LOSS),
        };
        conn.loss().control_congestion(now, &ack);
        if conn.sh.loss.pacing {
            repace(conn);
        }
        let cwnd = conn.hot.loss.window.cwnd;
        if conn.cold.snd.may_want_more(cwnd, conn.sh.near) {
            raise_send_limit(conn);
        }
    }
    if conn.hot.snd.una == conn.hot.snd.nxt {
        conn.loss().timers().stop_rtx_timer();
    } else {
        let to_send = conn.sh.streams.send_len(conn.stream);
        let mut loss = conn.loss();
        loss.restart_timers(now, to_send);
        let actions = loss.actions;
        conn.carry_out(actions);
    }
}

#[inline(never)]
fn on_unusual_advance(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let actions = conn.loss().on_advance(now, seg);
    conn.hot.snd.una = seg.ack;
    conn.carry_out(actions);
}

/// The congestion window may have grown: more may be written ahead.
#[cold]
fn raise_send_limit(conn: &mut Conn<'_>) {
    let cwnd = conn.hot.loss.window.cwnd;
    let loss = &conn.cold.loss;
    let path = PathTimes {
        shortest: Duration::from_micros(loss.min_rtt.micros().into()),
        srtt: conn.hot.loss.rtt.srtt(),
        flight: loss.fill.flight,
        near: conn.sh.near,
    };
    let mut send = conn.send_part();
    send.raise_limit(cwnd, &path);
    let actions = send.actions;
    conn.carry_out_sent(actions);
}

#[inline(never)]
fn repace(conn: &mut Conn<'_>) {
    conn.loss().congestion().pace();
}

#[inline(never)]
pub(crate) fn on_ack_of_tail_probe(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let actions = conn.loss().on_ack_of_tail_probe(now, seg);
    conn.carry_out(actions);
}

/// RFC 9293 §3.10.7.4: SND.WND moves only with newer segments. What the ACK or the window let
/// go is sent.
pub(crate) fn update_window(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    if seg.ack < conn.hot.snd.una {
        return;
    }
    if conn.hot.snd.is_newer(seg) {
        move_window(conn, now, seg);
    }
    conn.mark_if_more();
}

fn move_window(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    conn.hot.snd.take_window(seg, conn.hot.snd_wscale);
    // A probe that is answered is not a time-out (RFC 9293 §3.8.6.1: the connection stays open
    // while the peer answers).
    if conn.has(Flags::PERSIST) {
        conn.hot.retries = 0;
        if conn.hot.snd.wnd > 0 {
            leave_persist(conn, now);
        }
    }
}

/// The window opened: what probes carried was never taken, so it counts as lost.
fn leave_persist(conn: &mut Conn<'_>, now: Instant) {
    conn.loss().timers().stop_rtx_timer();
    conn.hot.loss.backoff = 0;
    if conn.hot.flight() > 0 {
        conn.go_back(now);
        conn.start_rtx_timer(now);
    }
}

/// What the acknowledgment of our FIN means in each state.
fn after_ack(conn: &mut Conn<'_>, now: Instant) {
    if !conn.send_view().fin_acked() {
        return;
    }
    match conn.hot.state {
        State::FinWait1 => {
            conn.hot.state = State::FinWait2;
            conn.notify(Ready::DRAINED);
            conn.start_fin_wait_2(now);
        }
        State::Closing => {
            conn.notify(Ready::DRAINED);
            conn.finish(State::TimeWait);
        }
        State::LastAck => {
            conn.notify(Ready::DRAINED);
            conn.finish(State::Closed);
        }
        _ => {}
    }
}
