//! ICMP errors about our segments (RFC 9293 §3.9.2.2, RFC 5927): believed only if they quote
//! something that is in flight.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::info::State;
use crate::ip::{ErrorKind, TransportError};
use crate::tcp::conn::Conn;
use crate::tcp::path::PathActions;

/// The smallest path MTU that is believed over IPv4: below, an attacker would have us send tiny
/// segments. Every link of today carries it. (IPv6 has no smaller one than 1280.) RFC 5927 §7.2-1.
const MIN_MTU_V4: u16 = 552;

/// The segment at `seq` was too big for a link of `mtu` bytes.
fn on_too_big(conn: &mut Conn<'_>, now: Instant, mtu: u16, seq: SeqNumber) {
    let actions = conn.path().on_too_big(now, mtu, seq);
    let has_data = conn.hot.state.may_transmit() && conn.hot.flight() > 0;
    if actions.contains(PathActions::GO_BACK) && has_data {
        conn.go_back(now);
    }
}

pub(crate) fn on_transport_error(conn: &mut Conn<'_>, now: Instant, error: &TransportError) {
    match error.kind {
        ErrorKind::TooBig => {
            if let Some(mtu) = error.mtu {
                on_too_big(conn, now, mtu.max(MIN_MTU_V4), error.quoted.seq);
            }
        }
        // RFC 5461 §4.1: hard errors end attempts to connect, not connections.
        // RFC 5927 §5.2-1.
        ErrorKind::Hard(error) if conn.hot.state == State::SynSent => conn.fail(error),
        // RFC 9293 MUST-47, MUST-56, SHLD-25.
        ErrorKind::Hard(error) | ErrorKind::Soft(error) => {
            conn.cold.soft_error = Some(error);
        }
    }
}
