//! Packets: `< [ect0] 8080>7070 P. 1:1001(1000) ack 1 win 257 <nop,nop,TS val 100 ecr 5>`.

use wire::tcp::TcpFlags;

use super::cursor::{Cursor, Result};
use crate::script::{
    BodySpec, Counter, Direction, EcnSpec, IcmpSpec, IpSpec, PacketSpec, TcpOption, TcpSpec,
};

pub(super) fn packet(at: &mut Cursor<'_>) -> Result<PacketSpec> {
    let direction = if at.accept("<") {
        Direction::Inbound
    } else {
        at.expect(">")?;
        Direction::Outbound
    };
    let ip = ip(at)?;
    let body = if at.accept_word("icmp") {
        BodySpec::Icmp(icmp(at)?)
    } else if at.accept_word("udp") {
        udp(at)?
    } else {
        BodySpec::Tcp(tcp(at, direction)?)
    };
    Ok(PacketSpec {
        direction,
        ip,
        body,
    })
}

/// `[ect0]`, `(tos 0x10)`, `[ce, flowlabel 0x3]`, `[ttl 1]`.
fn ip(at: &mut Cursor<'_>) -> Result<IpSpec> {
    let mut ip = IpSpec::default();
    let close = if at.accept("[") {
        "]"
    } else if at.accept("(") {
        ")"
    } else {
        return Ok(ip);
    };
    loop {
        let word = at.word()?;
        match word.as_str() {
            "noecn" => ip.ecn = Some(EcnSpec::Bits(0)),
            "ect1" => ip.ecn = Some(EcnSpec::Bits(1)),
            "ect0" => ip.ecn = Some(EcnSpec::Bits(2)),
            "ce" => ip.ecn = Some(EcnSpec::Bits(3)),
            "ect01" => ip.ecn = Some(EcnSpec::Ect01),
            "tos" | "class" => ip.tos = Some(at.small("tos")?),
            "ttl" | "hlim" => ip.ttl = Some(at.small("ttl")?),
            "flowlabel" => ip.flow_label = Some(at.small("flowlabel")?),
            _ => return Err(at.error(&format!("unknown IP annotation '{word}'"))),
        }
        if at.accept(close) {
            return Ok(ip);
        }
        at.expect(",")?;
    }
}

fn tcp(at: &mut Cursor<'_>, direction: Direction) -> Result<TcpSpec> {
    let ports = ports(at)?;
    let flags = flags(at)?;
    let (seq, len) = seq(at)?;
    let ack = at.accept_word("ack").then(|| at.small("ack")).transpose()?;
    let window = at.accept_word("win").then(|| at.small("win")).transpose()?;
    let urgent = at.accept_word("urg").then(|| at.small("urg")).transpose()?;
    let inbound = direction == Direction::Inbound;
    if inbound && window.is_none() {
        return Err(at.error("a packet for the stack needs its window: win N"));
    }
    let options = options(at)?;
    if inbound && options.is_none() {
        return Err(at.error("a packet for the stack needs its options"));
    }
    Ok(TcpSpec {
        ports,
        flags,
        seq,
        len,
        ack,
        window,
        urgent,
        options,
    })
}

/// `8080>7070`, if it is next.
fn ports(at: &mut Cursor<'_>) -> Result<Option<(u16, u16)>> {
    at.skip();
    if !at.looking_at_digit() {
        return Ok(None);
    }
    let from = at.small("port")?;
    at.expect(">")?;
    Ok(Some((from, at.small("port")?)))
}

/// `S`, `SEW`, `P.`, `.`, `.5` (the ACE field of RFC 9768), `-`.
fn flags(at: &mut Cursor<'_>) -> Result<TcpFlags> {
    at.skip();
    let text = at.take_while(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let mut flags = TcpFlags::empty();
    for letter in text.chars() {
        flags |= match letter {
            'F' => TcpFlags::FIN,
            'S' => TcpFlags::SYN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            'U' => TcpFlags::URG,
            'E' => TcpFlags::ECE,
            'W' | 'C' => TcpFlags::CWR,
            'A' => TcpFlags::AE,
            '-' => TcpFlags::empty(),
            '0'..='7' => {
                let ace = letter.to_digit(8).unwrap_or(0) as u16;
                TcpFlags::from_bits_truncate(ace << 6)
            }
            _ => return Err(at.error(&format!("unknown TCP flag '{letter}' in '{text}'"))),
        };
    }
    if text.is_empty() {
        return Err(at.error("expected TCP flags"));
    }
    Ok(flags)
}

/// `1:1001(1000)`: first number and length.
fn seq(at: &mut Cursor<'_>) -> Result<(u32, u16)> {
    let start: u32 = at.small("sequence number")?;
    at.expect(":")?;
    let end: u32 = at.small("sequence number")?;
    at.expect("(")?;
    let len: u16 = at.small("length")?;
    at.expect(")")?;
    if start.wrapping_add(len.into()) != end {
        return Err(at.error(&format!(
            "inconsistent sequence numbers: {start} and {len} bytes make {}, not {end}",
            start.wrapping_add(len.into())
        )));
    }
    Ok((start, len))
}

/// Nothing is no options; `<...>` is any.
fn options(at: &mut Cursor<'_>) -> Result<Option<Vec<TcpOption>>> {
    let mut options = Vec::new();
    if !at.accept("<") {
        return Ok(Some(options));
    }
    if at.accept("...") {
        at.expect(">")?;
        return Ok(None);
    }
    if at.accept(">") {
        return Ok(Some(options));
    }
    loop {
        options.push(option(at)?);
        if at.accept(">") {
            return Ok(Some(options));
        }
        at.expect(",")?;
    }
}

fn option(at: &mut Cursor<'_>) -> Result<TcpOption> {
    let word = at.word()?;
    Ok(match word.as_str() {
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::End,
        "mss" => TcpOption::Mss(at.small("mss")?),
        "wscale" => TcpOption::WindowScale(at.small("wscale")?),
        "sackOK" => TcpOption::SackPermitted,
        "sack" => TcpOption::Sack(blocks(at)?),
        "TS" => {
            expect_word(at, "val")?;
            let val = at.small("TS val")?;
            expect_word(at, "ecr")?;
            let ecr = at.small("TS ecr")?;
            TcpOption::Timestamps { val, ecr }
        }
        "FO" => TcpOption::FastOpen(cookie(at)?),
        "FOEXP" => TcpOption::FastOpenExperimental(cookie(at)?),
        "ECN" => TcpOption::AccEcn(counters(at)?),
        // Ours: any option by number, `opt 253 f00d`.
        "opt" => {
            let kind = at.small("option kind")?;
            TcpOption::Other(kind, hex(at)?)
        }
        _ => return Err(at.error(&format!("unknown TCP option '{word}'"))),
    })
}

fn expect_word(at: &mut Cursor<'_>, word: &str) -> Result<()> {
    if at.accept_word(word) {
        return Ok(());
    }
    Err(at.error(&format!("expected '{word}'")))
}

/// `1:1001 2001:3001`.
fn blocks(at: &mut Cursor<'_>) -> Result<Vec<(u32, u32)>> {
    let mut blocks = Vec::new();
    while at.looking_at_digit() {
        let left = at.small("SACK block")?;
        at.expect(":")?;
        blocks.push((left, at.small("SACK block")?));
    }
    if blocks.is_empty() {
        return Err(at.error("expected a SACK block"));
    }
    Ok(blocks)
}

fn counters(at: &mut Cursor<'_>) -> Result<Vec<(Counter, u32)>> {
    let mut counters = Vec::new();
    loop {
        let counter = if at.accept_word("e0b") {
            Counter::Ect0
        } else if at.accept_word("ceb") {
            Counter::Ce
        } else if at.accept_word("e1b") {
            Counter::Ect1
        } else {
            return Ok(counters);
        };
        counters.push((counter, at.small("counter")?));
    }
}

/// A cookie: bytes, or a name that stands for some.
fn cookie(at: &mut Cursor<'_>) -> Result<Vec<u8>> {
    if !at.looking_at_word() {
        return hex(at);
    }
    let start = at.mark();
    let word = at.word()?;
    if word.chars().all(|c| c.is_ascii_hexdigit()) {
        at.back_to(start);
        return hex(at);
    }
    Ok(word.into_bytes())
}

/// Bytes as hexadecimal digits; none if something else follows.
fn hex(at: &mut Cursor<'_>) -> Result<Vec<u8>> {
    at.skip();
    let digits = at.take_while(|c| c.is_ascii_alphanumeric());
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| {
        let text = std::str::from_utf8(pair)
            .ok()
            .filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok())
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.ok_or_else(|| at.error(&format!("'{digits}' is not an even number of hex digits")))
}

/// `unreachable frag_needed mtu 1400 [1:1461(1460)]`.
fn icmp(at: &mut Cursor<'_>) -> Result<IcmpSpec> {
    let kind = at.word()?;
    let mut icmp = IcmpSpec {
        kind,
        code: None,
        mtu: None,
        id: None,
        quoted: None,
    };
    while at.looking_at_word() {
        let word = at.word()?;
        match word.as_str() {
            "mtu" => icmp.mtu = Some(at.small("mtu")?),
            "id" => icmp.id = Some(at.small("id")?),
            _ if icmp.code.is_none() => icmp.code = Some(word),
            _ => return Err(at.error(&format!("unexpected '{word}' in an ICMP packet"))),
        }
    }
    if at.accept("[") {
        icmp.quoted = Some(seq(at)?);
        at.expect("]")?;
    }
    Ok(icmp)
}

fn udp(at: &mut Cursor<'_>) -> Result<BodySpec> {
    let ports = ports(at)?;
    at.expect("(")?;
    let len = at.small("length")?;
    at.expect(")")?;
    Ok(BodySpec::Udp { ports, len })
}

impl PacketSpec {
    pub fn is_outbound(&self) -> bool {
        self.direction == Direction::Outbound
    }
}
