//! How a connection opens: SYN_SENT (RFC 9293 §3.10.7.3), the SYN_RECEIVED of a simultaneous open,
//! and Fast Open (RFC 7413): the data of a SYN is delivered before the handshake is complete, or
//! the first bytes go with the SYN, if the server's cookie is known.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::check::on_segment;
use crate::tcp::conn::Conn;
use crate::tcp::data::{process_data, process_fin, take_text};
use crate::tcp::establish::{acknowledge_syn, establish, greet, start_windows};
use crate::tcp::flags::Flags;
use crate::tcp::open::synchronize;
use crate::tcp::options::Agreed;
use crate::tcp::segment::Segment;
use crate::tcp::setup::{FastOpen, HalfOpen, Listeners, OpenActions, Options};
use crate::tcp::step::{Step, Stop};

/// If the state is SYN-SENT, then ...
pub(crate) fn on_segment_syn_sent(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    conn.cold.statistics.on_arrival(seg);
    // First, check the ACK bit: only our SYN can have been acknowledged.
    if seg.has(TcpFlags::ACK) && !conn.open_view().acknowledges_syn(seg) {
        let actions = conn.open().on_foreign_ack(seg);
        carry_out_opened(conn, now, seg, actions);
        return Err(DropReason::TcpAck.into());
    }
    check_rst_of_syn(conn, seg)?;
    // "Fifth, if neither of the SYN or RST bits is set, then drop the segment and return."
    if !seg.has(TcpFlags::SYN) {
        return Err(DropReason::TcpState.into());
    }
    take_syn(conn, now, seg);
    if seg.has(TcpFlags::ACK) {
        conn.ecn().agree(seg);
        complete_active_open(conn, now, seg);
        process_data(conn, now, seg)?;
        process_fin(conn, now, seg)
    } else {
        // "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment and send it". Text in the SYN
        // comes again. RFC 9293 MUST-10, MUST-11.
        conn.hot.state = State::SynReceived;
        repeat_syn(conn);
        Ok(())
    }
}

/// Second, check the RST bit. Without an acceptable ACK anybody could have sent it.
/// RFC 5961 §3.2-5.
fn check_rst_of_syn(conn: &mut Conn<'_>, seg: &Segment<'_>) -> Step {
    if !seg.has(TcpFlags::RST) {
        return Ok(());
    }
    if !seg.has(TcpFlags::ACK) {
        return Err(DropReason::TcpReset.into());
    }
    conn.sh.counters.resets_in += 1;
    if conn.cold.ecn.stop_asking() {
        conn.cold.open.syn_repeated = true;
        repeat_syn(conn);
    } else {
        conn.fail(Error::Refused);
    }
    Err(Stop::Done)
}

/// Fourth, check the SYN bit.
fn take_syn(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let wscale = conn.cold.open.wscale;
    let is_ipv4 = conn.key.is_ipv4();
    let agreed = Agreed::new(&conn.sh.config, wscale, seg.options, is_ipv4);
    let config = &conn.sh.config;
    let options = conn.sh.options.at(conn.cold.options);
    let (hot, cold) = (&mut *conn.hot, &mut *conn.cold);
    synchronize(config, hot, cold, options, seg.seq, &agreed, is_ipv4);
    if let Some(stamps) = seg.options.timestamps {
        conn.hot.ts_recent = stamps.tsval;
    }
    conn.hot.snd.take_window(seg, 0);
    conn.hot.last_received = now.as_millis() as u32;
}

/// "If SND.UNA > ISS (our SYN has been ACKed), change the connection state to ESTABLISHED".
fn complete_active_open(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    acknowledge_syn(conn, now, seg);
    on_fast_open_answer(conn, now, seg);
    conn.mark_ack();
    establish(conn, now);
}

/// SYN_RECEIVED of a simultaneous open, or of one by Fast Open.
pub(crate) fn on_segment_syn_received(
    conn: &mut Conn<'_>,
    now: Instant,
    seg: &Segment<'_>,
) -> Step {
    let open = conn.open_view();
    if open.is_repeated_syn(seg) {
        repeat_syn(conn);
        return Err(Stop::Done);
    }
    if open.answers_our_syn(seg) {
        conn.hot.state = State::SynSent;
        return on_segment_syn_sent(conn, now, seg);
    }
    match open.without_repeated_syn(seg, conn.hot.snd_wscale) {
        Some(seg) => {
            conn.mark_ack();
            on_segment(conn, now, &seg)
        }
        None => on_segment(conn, now, seg),
    }
}

/// Does what a step of the set-up part asks for about `seg`.
fn carry_out_opened(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>, actions: OpenActions) {
    if actions.contains(OpenActions::RESET) {
        conn.sh.answer_with_reset(now, seg);
    }
    if actions.contains(OpenActions::FREE_RESET) {
        conn.sh.reset(seg);
    }
    if actions.contains(OpenActions::SYN) {
        repeat_syn(conn);
    }
}

/// Our SYN or SYN-ACK is due.
pub(crate) fn repeat_syn(conn: &mut Conn<'_>) {
    conn.set(Flags::SYN_DUE);
    conn.mark_output();
}

/// SYN_RECEIVED, with the data of the SYN delivered; our SYN-ACK is due.
pub(crate) fn begin_fast(conn: &mut Conn<'_>, now: Instant, iss: SeqNumber, seg: &Segment<'_>) {
    conn.hot.snd.una = iss;
    conn.hot.snd.nxt = iss;
    conn.set(Flags::SYN_DUE);
    start_windows(conn, now);
    greet(conn);
    conn.mark_output();
    let len = seg.payload_len().min(conn.hot.rcv_wnd()) as usize;
    let Some(bytes) = seg.payload.get(..len).filter(|bytes| !bytes.is_empty()) else {
        return;
    };
    match take_text(conn, now, seg.data_seq(), bytes) {
        Ok(()) => conn.cold.statistics.syn_data = true,
        Err(stop) => conn.sh.count(stop),
    }
}

/// The SYN is due, or waits for the first bytes.
pub(crate) fn begin_active(conn: &mut Conn<'_>, now: Instant) {
    let wants = conn.options().fast_open_connect;
    if conn.open().begin(now, wants) {
        repeat_syn(conn);
    } else {
        conn.notify(Ready::WRITABLE);
    }
}

/// The application wrote, or will not: the SYN waits no longer.
pub(crate) fn release_syn(conn: &mut Conn<'_>) {
    if conn.cold.open.release() {
        conn.set(Flags::SYN_DUE);
    }
}

/// The SYN-ACK: what it acknowledges of the SYN's data has arrived, the rest goes again.
pub(crate) fn on_fast_open_answer(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    let data = seg.ack - conn.cold.iss - 1;
    if conn.cold.open.fast_open != FastOpen::Off {
        conn.cold.statistics.syn_data = data > 0;
        let mss = conn.cold.peer_mss;
        conn.open().learn(now, seg, data, mss);
    }
    conn.release(data);
    conn.hot.snd.una = seg.ack;
    conn.hot.snd.nxt = seg.ack;
}

/// A connection opened by cookie is established, or over.
pub(crate) fn leave_pending(conn: &mut Conn<'_>, now: Instant, listeners: &mut Listeners) {
    if conn.hot.state == State::SynReceived || !conn.cold.open.is_pending() {
        return;
    }
    conn.cold.open.fast_open = FastOpen::Off;
    let by_reset = conn.cold.error == Some(Error::Reset);
    if let Some(listener) = listeners.at_mut(conn.cold.listener) {
        listener.pending.leave(now, by_reset);
    }
}

/// Waits for the application.
pub(crate) fn enter_backlog(conn: &mut Conn<'_>, listeners: &mut Listeners) {
    conn.sh.counters.accepts += 1;
    listeners.enter_backlog(conn.cold.listener, &mut conn.sh.queues.backlog, conn.place);
}

/// The time from SYN-ACK to ACK (RFC 6298 §3).
pub(crate) fn time_handshake(
    conn: &mut Conn<'_>,
    now: Instant,
    record: &HalfOpen,
    seg: &Segment<'_>,
) {
    let again = record.has(Options::SENT_AGAIN);
    let mut loss = conn.loss();
    if again || record.has(Options::SENT) {
        loss.time_handshake(now, record.sent_at, again);
    }
    loss.measure(now, seg);
}
