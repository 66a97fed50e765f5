//! Headers and options of segments that a connection sends.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::ecn::Outgoing;
use crate::tcp::flags::Flags;
use crate::tcp::options::add_syn_options;
use crate::tcp::send::{Kind, Plan};

/// What a planned segment is as far as ECN makes a difference, with SND.NXT at `nxt`.
#[inline(always)]
pub(crate) fn outgoing(plan: &Plan, nxt: SeqNumber) -> Outgoing {
    match plan.kind {
        Kind::Ack => Outgoing::PureAck,
        Kind::New | Kind::TailProbe if plan.len > 0 && plan.seq == nxt => Outgoing::NewData,
        _ => Outgoing::Other,
    }
}

/// RFC 2018 §3: with timestamps three blocks fit.
fn max_sack_blocks(flags: Flags) -> usize {
    if flags.contains(Flags::TIMESTAMPS) {
        3
    } else {
        4
    }
}

/// The header of a planned segment, to a place that is as it is by default: it is too large to
/// be moved around. From here on the window in it is on offer.
#[inline(always)]
pub(crate) fn fill_header(conn: &mut Conn<'_>, now: Instant, plan: &Plan, header: &mut TcpHeader) {
    let is_syn = plan.kind == Kind::Syn;
    let window = if is_syn {
        // The window in a SYN is never scaled (RFC 7323 §2.2).
        // RFC 7323 §2.2-4.
        conn.hot.rcv_wnd().min(u32::from(u16::MAX)) as u16
    } else {
        conn.receive().take_window()
    };
    let has_ack = plan.flags.contains(TcpFlags::ACK);
    header.src_port = conn.key.local().port();
    header.dst_port = conn.key.remote().port();
    header.seq = plan.seq;
    if has_ack {
        header.ack = conn.hot.rcv.nxt;
    }
    header.flags = plan.flags | ecn_bits(conn, plan);
    header.window = window;
    if is_syn {
        fill_syn_options(conn, now, has_ack, &mut header.options);
    } else {
        add_options(conn, now, &mut header.options);
    }
}

/// The ECN bits of a planned segment.
#[inline(always)]
pub(crate) fn ecn_bits(conn: &Conn<'_>, plan: &Plan) -> TcpFlags {
    let ecn = conn.ecn_view();
    if plan.kind == Kind::Syn {
        ecn.syn_flags()
    } else {
        ecn.flags(|| outgoing(plan, conn.hot.snd.nxt))
    }
}

/// Those of a SYN, to where there are none yet.
/// RFC 7323 §3.2-2.
pub(crate) fn fill_syn_options(
    conn: &Conn<'_>,
    now: Instant,
    is_reply: bool,
    options: &mut TcpOptions,
) {
    let tsval = conn.hot.tsval(now);
    let (config, cold) = (&conn.sh.config, &*conn.cold);
    add_syn_options(config, cold.local_mss, cold.open.wscale, tsval, options);
    options.fast_open = conn.open_view().fast_open_option(now);
    if is_reply {
        // Simultaneous open: answer what the peer's SYN offered. A cookie here would be one for
        // the peer (RFC 7413 §4.1.2), and ours is from it.
        options.fast_open = options
            .fast_open
            .filter(|_| !conn.cold.open.fast_open.is_client());
        options.sack_permitted = conn.has(Flags::SACK);
        options.window_scale = options.window_scale.filter(|_| conn.has(Flags::SCALING));
        options.timestamps = conn.has(Flags::TIMESTAMPS).then_some(Timestamps {
            tsval,
            tsecr: conn.hot.ts_recent,
        });
    }
}

/// The options of a segment that is no SYN, to where there are none yet: what is large and
/// written piece by piece is not to be copied. RFC 9293 MUST-65; RFC 2018 §2-1, §4-2;
/// RFC 7323 §3.2-1, §3.2-5, §4.3-2.
#[inline]
pub(crate) fn add_options(conn: &Conn<'_>, now: Instant, options: &mut TcpOptions) {
    // RFC 7323 §3.2: once agreed on, in every segment but RST.
    if conn.has(Flags::TIMESTAMPS) {
        options.timestamps = Some(Timestamps {
            tsval: conn.hot.tsval(now),
            tsecr: conn.hot.ts_recent,
        });
    }
    if conn.has(Flags::HOLES | Flags::DUPLICATE) {
        options.sack = conn.receive_view().sack_blocks();
        options.sack.truncate(max_sack_blocks(conn.hot.flags));
    }
    options.ecn_bytes = conn.cold.ecn.option();
}

/// Most payload that the next segment can carry: SACK blocks and counters take room (RFC 6691:
/// variable options come off at send time).
#[inline]
pub(crate) fn segment_room(conn: &Conn<'_>) -> u32 {
    let mss = u32::from(conn.hot.loss.mss);
    if conn.has(Flags::HOLES | Flags::DUPLICATE) || conn.cold.ecn.option().is_some() {
        room_beside_options(conn, mss)
    } else {
        mss
    }
}

#[cold]
fn room_beside_options(conn: &Conn<'_>, mss: u32) -> u32 {
    // The time makes no difference to the length.
    let mut options = TcpOptions::default();
    add_options(conn, Instant::ZERO, &mut options);
    options.timestamps = None;
    mss.saturating_sub(options.emitted_len() as u32).max(1)
}

/// Bytes of data that go with the SYN.
#[inline]
pub(crate) fn syn_data_len(conn: &Conn<'_>, now: Instant) -> u32 {
    let open = conn.open_view();
    if !open.sends_data() {
        return 0;
    }
    let mut options = TcpOptions::default();
    fill_syn_options(conn, now, false, &mut options);
    let room = open.room_beside_syn(conn.cold.path.mtu, options.emitted_len() as u32);
    conn.sh.streams.send_len(conn.stream).min(room)
}
