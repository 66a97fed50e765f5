//! A segment of a synchronized connection: the steps of RFC 9293 §3.10.7.4, and the checks that
//! come before it is believed (first to fourth, RFC 7323 §5, RFC 5961).

use wire::ip::Ecn;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::tcp::ack::{
    begin_rate_sample, finish_rate_sample, on_ack_advance, on_ack_of_tail_probe, process_ack,
    receive_marks, update_window,
};
use crate::tcp::conn::Conn;
use crate::tcp::data::{note_arrival, process_data, process_fin, process_urgent, take_text};
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

/// RFC 9293 §3.10.7.4, "Otherwise". (Security, third, has no effect: nobody uses it.)
pub(crate) fn on_segment(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    conn.cold.statistics.on_arrival(seg);
    if conn.hot.is_predicted(seg) {
        return take_predicted(conn, now, seg);
    }
    check_timestamp(conn, now, seg)?;
    check_sequence(conn, now, seg)?;
    check_rst(conn, now, seg)?;
    check_syn(conn, now, seg)?;
    process_ack(conn, now, seg)?;
    process_urgent(conn, now, seg);
    process_data(conn, now, seg)?;
    process_fin(conn, now, seg)
}

/// Takes a predicted segment: everything that this does the steps do as well.
fn take_predicted(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    conn.sh.counters.fast_path += 1;
    conn.hot.update_ts_recent(seg);
    note_arrival(conn, now);
    if seg.ecn != Ecn::NotEct {
        receive_marks(conn, now, seg);
    }
    if seg.ack > conn.hot.snd.una {
        let before = begin_rate_sample(conn);
        if conn.loss_view().resolves_tail_probe(seg.ack) {
            on_ack_of_tail_probe(conn, now, seg);
        }
        on_ack_advance(conn, now, seg);
        finish_rate_sample(conn, now, before);
    }
    update_window(conn, now, seg);
    if seg.payload.is_empty() {
        return Ok(());
    }
    take_text(conn, now, seg.seq, seg.payload)
}

/// PAWS (RFC 7323 §5.3 R1).
fn check_timestamp(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    if !conn.hot.is_old(now, seg) {
        return Ok(());
    }
    conn.acknowledge_unacceptable(now, seg);
    Err(DropReason::TcpPaws.into())
}

/// First, check the sequence number.
/// RFC 7323 §5.3-2, §5.3-4.
fn check_sequence(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    if conn.hot.rcv.is_acceptable(seg) {
        return Ok(());
    }
    if !seg.payload.is_empty() && seg.data_seq() + seg.payload_len() <= conn.hot.rcv.nxt {
        let end = seg.data_seq() + seg.payload_len();
        conn.receive().note_duplicate(seg.data_seq(), end);
    }
    // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
    // (unless the RST bit is set)".
    if !seg.has(TcpFlags::RST) {
        conn.acknowledge_unacceptable(now, seg);
        report_repeated_syn_ack(conn, seg);
    }
    Err(DropReason::TcpWindow.into())
}

/// Second, check the RST bit, as RFC 5961 §3.2 has it.
/// RFC 9293 MUST-66; RFC 5961 §3.2-1, §3.2-2, §3.2-3, §3.2-4; RFC 7323 §5.2-4.
fn check_rst(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    if !seg.has(TcpFlags::RST) {
        return Ok(());
    }
    if seg.seq != conn.hot.rcv.nxt {
        conn.challenge(now);
        return Err(DropReason::TcpReset.into());
    }
    // RFC 9293 SHLD-2.
    conn.sh.counters.resets_in += 1;
    match conn.hot.state {
        State::SynReceived if !conn.cold.open.may_send_early(conn.hot.state) => {
            conn.fail(Error::Refused)
        }
        // What was sent has arrived, or else the application must know.
        State::Closing | State::LastAck if conn.hot.snd.una >= conn.hot.snd.fin_seq => {
            conn.finish(State::Closed);
        }
        _ => conn.fail(Error::Reset),
    }
    Err(Stop::Done)
}

/// Fourth, check the SYN bit: never believed on a synchronised connection (RFC 5961 §4.2).
/// RFC 5961 §4.2-1, §4.2-2.
fn check_syn(conn: &mut Conn<'_>, now: Instant, seg: &Segment<'_>) -> Step {
    if !seg.has(TcpFlags::SYN) {
        return Ok(());
    }
    conn.challenge(now);
    Err(DropReason::TcpSyn.into())
}

/// The peer has not seen the ACK of its SYN-ACK: the ACK that is due now is that one again, and
/// says again how the SYN-ACK arrived. Once more has been sent or has come the peer takes the
/// bits for a counter. RFC 9768 §3.2.2.1-3.
fn report_repeated_syn_ack(conn: &mut Conn<'_>, seg: &Segment<'_>) {
    let is_syn_ack = seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK);
    let repeats = is_syn_ack && seg.seq == conn.cold.irs;
    let is_new = conn.hot.snd.nxt == conn.cold.iss + 1 && conn.hot.rcv.nxt == seg.seq + 1;
    if repeats && is_new && conn.has(Flags::ACK_NOW) {
        conn.cold.ecn.answer_again(seg.ecn);
    }
}
