//! The handshake of a connection is complete, whichever way it went.

use ring::stream::Status;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::Step;
use crate::tcp::timers::start_cold_timers;

/// The handshake is complete.
pub(crate) fn establish(conn: &mut Conn<'_>, now: Instant) {
    conn.hot.state = State::Established;
    if !conn.sh.net.paths.is_empty() {
        conn.path().adopt(now);
    }
    conn.cold.snd.una_since = now;
    start_windows(conn, now);
    greet(conn);
    if conn.has(Flags::FIN_QUEUED) {
        conn.hot.state = State::FinWait1;
    }
    if conn.options().unsent_low_water.is_some() {
        conn.bound_unsent();
    }
    start_cold_timers(conn, now);
    conn.mark_if_more();
}

/// The application may read and write.
pub(crate) fn greet(conn: &mut Conn<'_>) {
    conn.add_status(Status::CONNECTED);
    conn.notify(Ready::CONNECTED | Ready::WRITABLE);
}

/// The windows and the RTO of a connection that has just been established.
pub(crate) fn start_windows(conn: &mut Conn<'_>, now: Instant) {
    let syn_lost = conn.has(Flags::SYN_RETRANSMITTED);
    conn.hot.retries = 0;
    conn.cold.statistics.end_timeouts(now);
    conn.loss().congestion().start_windows(now, syn_lost);
}

/// Our SYN is acknowledged: nothing is in flight any more.
pub(crate) fn acknowledge_syn(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let una = conn.cold.iss + 1;
    conn.loss().on_syn_acked(now, seg, una);
    conn.hot.snd.una = una;
    conn.clear(Flags::SYN_DUE);
}

/// Fifth of RFC 9293 §3.10.7.4 in SYN-RECEIVED: "If SND.UNA < SEG.ACK =< SND.NXT, then enter
/// ESTABLISHED state".
pub(crate) fn complete_simultaneous_open(
    conn: &mut Conn<'_>,
    now: Instant,
    seg: &Segment<'_>,
) -> Step {
    if seg.ack <= conn.hot.snd.una || seg.ack > conn.hot.snd.nxt {
        conn.sh.answer_with_reset(now, seg);
        return Err(DropReason::TcpAck.into());
    }
    acknowledge_syn(conn, now, seg);
    conn.hot.snd.take_window(seg, conn.hot.snd_wscale);
    establish(conn, now);
    if conn.hot.flight() > 0 {
        // Data went before the handshake was complete (RFC 7413 §4.2.2).
        conn.start_rtx_timer(now);
    }
    Ok(())
}
