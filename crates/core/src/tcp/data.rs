//! Urgent data, segment text and FIN (RFC 9293 §3.10.7.4, sixth to eighth): what they mean for the
//! connection.

use ring::stream::Status;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

/// Sixth, check the URG bit.
pub(crate) fn process_urgent(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) {
    if !seg.has(TcpFlags::URG) || !conn.hot.state.may_receive() {
        return;
    }
    let mut receive = conn.receive();
    receive.note_urgent(seg);
    let actions = receive.actions;
    conn.carry_out_received(now, actions);
}

/// Seventh, process the segment text.
pub(crate) fn process_data(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    // In the other states the peer has sent FIN already: "ignore the segment text".
    if seg.payload.is_empty() || !conn.hot.state.may_receive() {
        return Ok(());
    }
    let start = seg.data_seq().max(conn.hot.rcv.nxt);
    let end = (seg.data_seq() + seg.payload_len()).min(conn.receive_view().limit());
    if end <= start {
        // Behind a closed window, or old with a new FIN behind it.
        conn.mark_ack();
        return if seg.has(TcpFlags::FIN) && end == conn.hot.rcv.nxt {
            Ok(())
        } else {
            Err(DropReason::TcpWindow.into())
        };
    }
    refuse_unread(conn, now)?;
    let skip = (start - seg.data_seq()) as usize;
    let bytes = seg
        .payload
        .get(skip..skip + (end - start) as usize)
        .unwrap_or_default();
    let taken = take_text(conn, now, start, bytes);
    // The report is of the first part that the segment brings again, and not of what is held
    // beyond the gap.
    conn.receive().note_duplicate(seg.data_seq(), start);
    taken
}

/// Nobody will read this, and the peer must know that it is lost: the application has closed
/// (RFC 9293 §3.10.4 and RFC 2525 §2.17), or has shut both directions down
/// (RFC 1122 §4.2.2.13). With our side still open, Linux keeps it; so do we.
fn refuse_unread(conn: &mut Conn<'_>, now: Instant) -> Step {
    let is_closed = conn.has(Flags::APP_CLOSED);
    let is_shut = conn.cold.read_shut && conn.has(Flags::FIN_QUEUED);
    if !is_closed && !is_shut {
        return Ok(());
    }
    conn.send_reset(now);
    if is_closed {
        conn.finish(State::Closed);
    } else {
        conn.fail(Error::Reset);
    }
    Err(DropReason::TcpClosed.into())
}

/// Takes the text of a segment from inside the window.
#[inline]
pub(crate) fn take_text(conn: &mut Conn<'_>, now: Instant, start: SeqNumber, bytes: &[u8]) -> Step {
    if conn.has(Flags::HOLES) || start != conn.hot.rcv.nxt {
        return take_unusual_text(conn, now, start, bytes);
    }
    conn.receive().take_next(now, bytes)?;
    conn.notify(Ready::READABLE);
    let mut receive = conn.receive();
    receive.owe_ack(now, false);
    let actions = receive.actions;
    conn.carry_out_received(now, actions);
    Ok(())
}

/// The text is out of order, or fills a gap.
#[inline(never)]
fn take_unusual_text(conn: &mut Conn<'_>, now: Instant, start: SeqNumber, bytes: &[u8]) -> Step {
    let mut receive = conn.receive();
    let taken = receive.take_text(now, start, bytes);
    let actions = receive.actions;
    conn.carry_out_received(now, actions);
    taken.map_err(Stop::from)
}

/// The application has read: the window may open.
pub(crate) fn on_read(conn: &mut Conn<'_>, now: Instant) {
    let srtt = conn.hot.loss.rtt.srtt();
    let actions = conn.receive().on_read(now, srtt);
    if conn.hot.state.may_receive() {
        conn.carry_out_received(now, actions);
    }
}

/// The connection is about to be accepted, and stays here.
pub(crate) fn release_withheld_ack(conn: &mut Conn<'_>, now: Instant) {
    let mut receive = conn.receive();
    receive.release_withheld_ack(now);
    let actions = receive.actions;
    conn.carry_out_received(now, actions);
}

/// Notes that a segment came. After a silence longer than the RTO the peer is in slow start
/// again: ACKs without delay help it.
pub(crate) fn note_arrival(conn: &mut Conn<'_>, now: Instant) {
    let millis = now.as_millis() as u32;
    let silence = millis.wrapping_sub(conn.hot.last_received);
    if silence > conn.hot.loss.rtt.rto_millis() {
        conn.hot.rcv.quick_acks = conn.hot.rcv.quick_acks.max(conn.sh.config.quick_acks);
    }
    conn.hot.last_received = millis;
    conn.cold.keepalive_probes = 0;
}

/// Eighth, check the FIN bit. A FIN beyond a gap is remembered until the gap is filled.
pub(crate) fn process_fin(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    let has_fin = seg.has(TcpFlags::FIN) && conn.hot.state.may_receive();
    let mut receive = conn.receive();
    if has_fin {
        let fin = seg.data_seq() + seg.payload_len();
        receive.note_fin(fin);
        // Each time it comes, as for data (RFC 5681 §4.2): the peer learns what is missing from
        // the answer.
        if seg.payload.is_empty() && fin > receive.hot.nxt {
            receive.owe_duplicate_ack();
        }
    }
    let is_next = receive.take_fin();
    let actions = receive.actions;
    conn.carry_out_received(now, actions);
    if is_next {
        on_fin(conn);
    }
    Ok(())
}

/// The peer's FIN has been taken.
fn on_fin(conn: &mut Conn<'_>) {
    conn.add_status(Status::EOF);
    conn.notify(Ready::EOF | Ready::READABLE);
    match conn.hot.state {
        State::SynReceived | State::Established => conn.hot.state = State::CloseWait,
        // Our FIN is not acknowledged, or this would be FIN_WAIT_2.
        State::FinWait1 => conn.hot.state = State::Closing,
        State::FinWait2 => conn.finish(State::TimeWait),
        _ => {}
    }
}
