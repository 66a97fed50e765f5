//! Whether a packet of the stack is the one that a line expects.

use wire::tcp::{TcpFlags, TcpHeader};

use super::dialect::Leniency;
use super::flows::{Cookies, Flow};
use super::observe::{Seen, in_script};
use super::script::{
    BodySpec, Direction, EcnSpec, IcmpSpec, IpSpec, PacketSpec, TcpOption, TcpSpec,
};

/// The actual packet, and the names of the fields that are not as expected.
#[derive(Debug)]
pub(super) struct Verdict {
    pub actual: PacketSpec,
    pub wrong: Vec<&'static str>,
}

/// How timestamps are judged: microseconds that a step of the script's stands for, and the
/// tolerance.
pub(super) type Tick = Option<(u32, i64)>;

/// Compares a segment. `len` is the payload's length, over several segments if the line stands for
/// several.
pub(super) fn tcp(
    (flow, cookies): (&mut Flow, &mut Cookies),
    seen: &Seen,
    (header, options, len): (&TcpHeader, &[TcpOption], u16),
    (ip, spec): (&IpSpec, &TcpSpec),
    (tick, lenient): (Tick, Leniency),
) -> Verdict {
    if header.flags.contains(TcpFlags::SYN) && spec.flags.contains(TcpFlags::SYN) {
        flow.see_syn(spec.seq, header.seq.0);
    }
    let stamps_fit = check_stamps(flow, options, spec, tick);
    let cookies_fit = check_cookies(cookies, options, spec);
    let mut actual = in_script(flow, header, options, len);
    translate_cookies(cookies, &mut actual);
    let mut wrong = Vec::new();
    let mut check = |fits: bool, name: &'static str| {
        if !fits {
            wrong.push(name);
        }
    };
    let push = if lenient.push {
        TcpFlags::PSH
    } else {
        TcpFlags::empty()
    };
    check(actual.flags - push == spec.flags - push, "flags");
    check(actual.seq == spec.seq, "sequence number");
    check(actual.len == spec.len, "length");
    // Without ACK the field means nothing.
    let acked = |tcp: &TcpSpec| tcp.ack.unwrap_or(0);
    let both = actual.flags.contains(TcpFlags::ACK) && spec.flags.contains(TcpFlags::ACK);
    check(
        !both || acked(&actual) == acked(spec),
        "acknowledgment number",
    );
    check(
        lenient.window || spec.window.is_none() || actual.window == spec.window,
        "window",
    );
    check(actual.urgent == spec.urgent, "urgent pointer");
    check(
        spec.options.is_none() || same_options(&actual, spec, lenient.options),
        "options",
    );
    check(stamps_fit, "TS val");
    check(cookies_fit, "Fast Open cookie");
    check_ip(&mut wrong, &seen.ip, ip);
    if spec.options.is_none() {
        actual.options = actual.options.filter(|options| !options.is_empty());
    }
    Verdict {
        actual: packet(ip, &seen.ip, BodySpec::Tcp(actual)),
        wrong,
    }
}

/// An ACK that brings nothing else.
pub(super) fn is_bare_ack(tcp: &TcpSpec) -> bool {
    tcp.flags == TcpFlags::ACK && tcp.len == 0
}

/// An ACK that brings nothing else, and is not the one that the line expects.
pub(super) fn is_spare(actual: &TcpSpec, spec: &TcpSpec) -> bool {
    let expected = is_bare_ack(spec)
        && (actual.seq, actual.ack) == (spec.seq, spec.ack)
        && same_options(actual, spec, true);
    is_bare_ack(actual) && !expected
}

/// Timestamps are compared by themselves.
fn same_options(actual: &TcpSpec, spec: &TcpSpec, lenient: bool) -> bool {
    if lenient {
        let (ours, theirs) = (essential(actual), essential(spec));
        return theirs.iter().all(|option| ours.contains(option));
    }
    let blank = |tcp: &TcpSpec| -> Vec<TcpOption> {
        let options = tcp.options.iter().flatten();
        options
            .map(|option| match option {
                TcpOption::Timestamps { ecr, .. } => TcpOption::Timestamps { val: 0, ecr: *ecr },
                other => other.clone(),
            })
            .collect()
    };
    blank(actual) == blank(spec)
}

/// The options that mean the same to every stack.
fn essential(tcp: &TcpSpec) -> Vec<&TcpOption> {
    let options = tcp.options.iter().flatten();
    let chosen = options.filter(|option| {
        matches!(
            option,
            TcpOption::Mss(_)
                | TcpOption::SackPermitted
                | TcpOption::Sack(_)
                | TcpOption::FastOpen(_)
        )
    });
    chosen.collect()
}

fn stamp(options: &[TcpOption]) -> Option<u32> {
    options.iter().find_map(|option| match option {
        TcpOption::Timestamps { val, .. } => Some(*val),
        _ => None,
    })
}

fn check_stamps(flow: &mut Flow, options: &[TcpOption], spec: &TcpSpec, tick: Tick) -> bool {
    let expected = spec.options.as_deref().and_then(stamp);
    match (expected, stamp(options)) {
        (Some(script), Some(wire)) => flow.see_stamp(script, wire, tick),
        _ => true,
    }
}

fn cookie(options: &[TcpOption]) -> Option<&Vec<u8>> {
    options.iter().find_map(|option| match option {
        TcpOption::FastOpen(cookie) | TcpOption::FastOpenExperimental(cookie) => Some(cookie),
        _ => None,
    })
}

/// The script cannot know a cookie: its first word for one stands for it from then on.
fn check_cookies(cookies: &mut Cookies, options: &[TcpOption], spec: &TcpSpec) -> bool {
    let expected = spec.options.as_deref().and_then(cookie);
    let (Some(script), Some(wire)) = (expected, cookie(options)) else {
        return true;
    };
    if script.is_empty() || wire.is_empty() {
        return script == wire;
    }
    let known = cookies
        .entry(script.clone())
        .or_insert_with(|| wire.clone());
    known == wire
}

/// A cookie that the peer hands us is what it says.
pub(super) fn learn_cookie(cookies: &mut Cookies, spec: &TcpSpec) {
    if let Some(bytes) = spec.options.as_deref().and_then(cookie) {
        cookies
            .entry(bytes.clone())
            .or_insert_with(|| bytes.clone());
    }
}

fn translate_cookies(cookies: &Cookies, actual: &mut TcpSpec) {
    for option in actual.options.iter_mut().flatten() {
        if let TcpOption::FastOpen(cookie) | TcpOption::FastOpenExperimental(cookie) = option {
            let known = cookies.iter().find(|(_, wire)| *wire == cookie);
            if let Some((script, _)) = known {
                *cookie = script.clone();
            }
        }
    }
}

/// Compares an ICMP message.
pub(super) fn icmp(seen: &Seen, actual: &IcmpSpec, (ip, spec): (&IpSpec, &IcmpSpec)) -> Verdict {
    let mut wrong = Vec::new();
    if actual.kind != spec.kind {
        wrong.push("ICMP type");
    }
    if spec.code.is_some() && actual.code != spec.code {
        wrong.push("ICMP code");
    }
    if spec.mtu.is_some() && actual.mtu != spec.mtu {
        wrong.push("MTU");
    }
    if spec.id.is_some() && actual.id != spec.id {
        wrong.push("identifier");
    }
    check_ip(&mut wrong, &seen.ip, ip);
    Verdict {
        actual: packet(ip, &seen.ip, BodySpec::Icmp(actual.clone())),
        wrong,
    }
}

fn check_ip(wrong: &mut Vec<&'static str>, actual: &IpSpec, spec: &IpSpec) {
    let bits = match actual.ecn {
        Some(EcnSpec::Bits(bits)) => bits,
        _ => 0,
    };
    let ecn = match spec.ecn {
        None => true,
        Some(EcnSpec::Bits(expected)) => bits == expected,
        Some(EcnSpec::Ect01) => bits == 1 || bits == 2,
    };
    if !ecn {
        wrong.push("ECN bits");
    }
    if spec.tos.is_some() && actual.tos != spec.tos {
        wrong.push("tos");
    }
    if spec.ttl.is_some() && actual.ttl != spec.ttl {
        wrong.push("ttl");
    }
    if spec.flow_label.is_some() && actual.flow_label != spec.flow_label {
        wrong.push("flow label");
    }
}

/// Shows of the IP header what the line speaks of.
pub(super) fn packet(ip: &IpSpec, seen: &IpSpec, body: BodySpec) -> PacketSpec {
    PacketSpec {
        direction: Direction::Outbound,
        ip: IpSpec {
            ecn: seen.ecn.filter(|_| ip.ecn.is_some()),
            tos: seen.tos.filter(|_| ip.tos.is_some()),
            ttl: seen.ttl.filter(|_| ip.ttl.is_some()),
            flow_label: seen.flow_label.filter(|_| ip.flow_label.is_some()),
        },
        body,
    }
}
