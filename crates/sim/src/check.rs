//! What must hold at any time, whatever the network does.

use mtcp_core::Usage;
use mtcp_core::command::Command;
use mtcp_core::config::Interface;
use mtcp_core::info::State;
use mtcp_core::{AppStreams, Config, ConnId, Reply, Stack, TcpInfo};
use wire::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::RxChecksum;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::TcpHeader;
use wire::time::Instant;

use crate::frame::Frame;
use crate::segment::ip_payload;

/// What a stack sends is well-formed.
pub(crate) fn frame(frame: &Frame, from: &Interface) -> Result<(), String> {
    let bad = |what: &str| {
        Err(format!(
            "sent a frame with {what}: {}",
            wire::display::FrameDisplay(&frame.bytes)
        ))
    };
    let Ok((ethernet, packet)) = EthernetHeader::parse(&frame.bytes) else {
        return bad("half an Ethernet header");
    };
    if ethernet.src != from.mac {
        return bad("a source address that is not ours");
    }
    let fits = match ethernet.ether_type {
        EtherType::ARP => packet.len() == 28,
        EtherType::IPV4 => {
            Ipv4Header::parse(packet).is_ok_and(|(ip, _)| usize::from(ip.total_len) == packet.len())
        }
        EtherType::IPV6 => Ipv6Header::parse(packet)
            .is_ok_and(|(_, payload)| payload.len() + Ipv6Header::LEN == packet.len()),
        _ => false,
    };
    if !fits {
        return bad("a bad header or length");
    }
    let Some((src, dst, Protocol::TCP, segment)) = ip_payload(&frame.bytes) else {
        return Ok(());
    };
    if from.addresses.iter().all(|ours| ours.addr != src) {
        return bad("a source that is not ours");
    }
    if TcpHeader::parse(segment).is_err() {
        return bad("a bad TCP header");
    }
    let trusted = frame.checksum == RxChecksum::Trusted;
    if !trusted && !checksum::verify_transport(src, dst, Protocol::TCP, segment) {
        return bad("a wrong TCP checksum");
    }
    Ok(())
}

/// No table holds more than it may, and they agree with each other.
pub(crate) fn usage(usage: &Usage, config: &Config) -> Result<(), String> {
    let bounds = [
        ("connections", usage.connections, config.max_connections),
        ("half-open records", usage.half_open, config.max_half_open),
        ("TIME_WAIT records", usage.time_wait, config.max_time_wait),
        ("listeners", usage.listeners, config.max_listeners),
        (
            "flows",
            usage.flows,
            usage.connections + usage.half_open + usage.time_wait,
        ),
        ("range sets", usage.range_sets, 2 * usage.connections),
        ("logs of flights", usage.sent_logs, usage.connections),
        ("timers", usage.timers, usage.connections + usage.half_open),
        ("events", usage.events, usage.connections),
    ];
    for (name, is, most) in bounds {
        if is > most {
            return Err(format!("{is} {name} of at most {most}: {usage:?}"));
        }
    }
    if usage.flows < usage.half_open + usage.time_wait {
        return Err(format!("records without a flow: {usage:?}"));
    }
    if usage.recv_bytes > config.recv_pool {
        return Err(format!(
            "{} bytes received of at most {}",
            usage.recv_bytes, config.recv_pool
        ));
    }
    Ok(())
}

/// A link that answers SYNs knows of all flows there are, and of some that have ended.
pub(crate) fn known_flows(usage: &Usage, known: u32) -> Result<(), String> {
    if known >= usage.flows {
        return Ok(());
    }
    Err(format!("the link knows {known} flows: {usage:?}"))
}

/// What applications can read, and what they wrote and the peers have not acknowledged, lies in
/// memory that is accounted for.
pub(crate) fn accounts(usage: &Usage, streams: &AppStreams, open: &[ConnId]) -> Result<(), String> {
    let sum = |of: fn(&AppStreams, u32) -> u32| -> usize {
        open.iter().map(|id| of(streams, id.slot) as usize).sum()
    };
    let (unread, received) = (sum(AppStreams::readable), usage.recv_bytes);
    let (unsent, sent) = (sum(AppStreams::unsent), streams.send_bytes_in_use());
    if unread > received || unsent > sent {
        return Err(format!(
            "{unread} bytes to be read in buffers of {received}, {unsent} to be sent in buffers of {sent}"
        ));
    }
    Ok(())
}

/// What a stack says of a connection makes sense.
pub(crate) fn connection(
    now: Instant,
    stack: &mut Stack,
    streams: &AppStreams,
    config: &Config,
    id: ConnId,
) -> Result<(), String> {
    let info = match stack.execute(now, Command::Info(id)) {
        Ok(Reply::Info(info)) => info,
        other => return Err(format!("{id:?} is open, but Info says {other:?}")),
    };
    let unread = streams.readable(id.slot);
    if info.state == State::Listen {
        return Err(format!("{id:?} listens"));
    }
    if info.state != State::Closed && info.unread != unread {
        return Err(format!("{id:?}: {unread} bytes are unread, but {info:?}"));
    }
    numbers(&info, config).map_err(|what| format!("{id:?}: {what}: {info:?}"))
}

fn numbers(info: &TcpInfo, config: &Config) -> Result<(), &'static str> {
    if info.state <= State::SynReceived || info.state == State::TimeWait {
        return Ok(());
    }
    if info.rto > config.rto_max || info.rto < config.rto_min.min(config.rto_initial) {
        return Err("the RTO is out of its bounds");
    }
    // Less than a segment, for a moment, when the socket's MSS was raised.
    if info.snd_mss == 0 || info.cwnd == 0 {
        return Err("nothing may be sent");
    }
    if info.rcv_wnd > config.max_buffer {
        return Err("more is offered than any buffer holds");
    }
    // SYN and FIN are in flight but not in the buffer.
    if info.flight > info.unacked.saturating_add(2) {
        return Err("more is in flight than is unacknowledged");
    }
    Ok(())
}
