//! TCP segments in words.

use std::fmt;

use super::transport::{Transport, endpoints};
use crate::tcp::{RawOption, RawOptions, TcpFlags, TcpHeader, TcpOptions};

/// `Flags [P.], seq 1:101, ack 1, win 502, options [..], length 100`.
pub(super) fn segment(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    endpoints(f, transport)?;
    let Ok((header, _)) = TcpHeader::parse(transport.bytes) else {
        return f.write_str("[|tcp]");
    };
    let header_len = transport
        .bytes
        .get(12)
        .map_or(0, |byte| usize::from(byte >> 4) * 4);
    let payload_len = transport.claimed.saturating_sub(header_len);
    write!(f, "Flags [{}]", header.flags)?;
    sequence(f, &header, payload_len)?;
    if header.flags.contains(TcpFlags::ACK) {
        write!(f, ", ack {}", header.ack)?;
    }
    write!(f, ", win {}", header.window)?;
    if header.flags.contains(TcpFlags::URG) {
        write!(f, ", urg {}", header.urgent)?;
    }
    let options = transport
        .bytes
        .get(TcpHeader::MIN_LEN..header_len)
        .unwrap_or_default();
    if !options.is_empty() {
        option_list(f, options)?;
    }
    write!(f, ", length {payload_len}")
}

/// The sequence numbers, unless the segment takes none.
fn sequence(f: &mut fmt::Formatter<'_>, header: &TcpHeader, payload_len: usize) -> fmt::Result {
    let seq = header.seq;
    let counts = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
    match payload_len {
        0 if header.flags.intersects(counts) => write!(f, ", seq {seq}"),
        0 => Ok(()),
        len => write!(f, ", seq {seq}:{}", seq + len as u32),
    }
}

fn option_list(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str(", options [")?;
    for (index, option) in RawOptions::new(bytes).enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        match option {
            RawOption::Nop => f.write_str("nop")?,
            RawOption::Malformed(kind) => write!(f, "bad length of option {kind}")?,
            RawOption::Other { kind, value } => known_option(f, kind, value)?,
        }
    }
    f.write_str("]")
}

fn known_option(f: &mut fmt::Formatter<'_>, kind: u8, value: &[u8]) -> fmt::Result {
    let options = TcpOptions::from_one(kind, value);
    if options.malformed {
        return write!(f, "bad length of option {kind}");
    }
    if let Some(mss) = options.mss {
        write!(f, "mss {mss}")
    } else if let Some(shift) = options.window_scale {
        write!(f, "wscale {shift}")
    } else if options.sack_permitted {
        f.write_str("sackOK")
    } else if let Some(stamps) = options.timestamps {
        write!(f, "TS val {} ecr {}", stamps.tsval, stamps.tsecr)
    } else if !options.sack.is_empty() {
        write!(f, "sack {} ", options.sack.len())?;
        options
            .sack
            .iter()
            .try_for_each(|(left, right)| write!(f, "{{{left}:{right}}}"))
    } else if let Some(cookie) = options.fast_open {
        match cookie.is_request() {
            true => f.write_str("tfo cookiereq"),
            false => hex(f, "tfo cookie ", cookie.as_bytes()),
        }
    } else if let Some(counters) = options.ecn_bytes {
        f.write_str("accecn")?;
        let counters = [
            ("e0b", counters.ect0()),
            ("ceb", counters.ce()),
            ("e1b", counters.ect1()),
        ];
        let known = counters
            .iter()
            .filter_map(|(name, count)| Some((name, (*count)?)));
        known
            .into_iter()
            .try_for_each(|(name, count)| write!(f, " {name} {count}"))
    } else {
        write!(f, "unknown-{kind}")?;
        hex(f, " 0x", value)
    }
}

fn hex(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8]) -> fmt::Result {
    if !bytes.is_empty() {
        f.write_str(prefix)?;
    }
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
