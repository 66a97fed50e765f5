//! Packets in the script's notation.

use std::fmt;

use wire::tcp::TcpFlags;

use super::script::{
    BodySpec, Counter, Direction, EcnSpec, IcmpSpec, IpSpec, PacketSpec, TcpOption, TcpSpec,
};

impl fmt::Display for PacketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.direction {
            Direction::Inbound => "<",
            Direction::Outbound => ">",
        })?;
        write!(f, "{} ", self.ip)?;
        match &self.body {
            BodySpec::Tcp(tcp) => tcp.fmt(f),
            BodySpec::Icmp(icmp) => icmp.fmt(f),
            BodySpec::Udp { ports, len } => {
                f.write_str("udp ")?;
                show_ports(f, *ports)?;
                write!(f, "({len})")
            }
        }
    }
}

fn show_ports(f: &mut fmt::Formatter<'_>, ports: Option<(u16, u16)>) -> fmt::Result {
    match ports {
        Some((from, to)) => write!(f, "{from}>{to} "),
        None => Ok(()),
    }
}

impl fmt::Display for IpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(ecn) = self.ecn {
            parts.push(
                match ecn {
                    EcnSpec::Bits(0) => "noecn",
                    EcnSpec::Bits(1) => "ect1",
                    EcnSpec::Bits(2) => "ect0",
                    EcnSpec::Bits(_) => "ce",
                    EcnSpec::Ect01 => "ect01",
                }
                .to_owned(),
            );
        }
        parts.extend(self.tos.map(|tos| format!("tos {tos:#x}")));
        parts.extend(self.ttl.map(|ttl| format!("ttl {ttl}")));
        parts.extend(self.flow_label.map(|label| format!("flowlabel {label:#x}")));
        if parts.is_empty() {
            return Ok(());
        }
        write!(f, " [{}]", parts.join(","))
    }
}

/// In the order in which scripts write them.
pub(super) fn show_flags(flags: TcpFlags) -> String {
    let symbols = [
        (TcpFlags::FIN, 'F'),
        (TcpFlags::SYN, 'S'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::AE, 'A'),
        (TcpFlags::ACK, '.'),
    ];
    let set = symbols.iter().filter(|(flag, _)| flags.contains(*flag));
    let text: String = set.map(|(_, letter)| *letter).collect();
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

impl fmt::Display for TcpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_ports(f, self.ports)?;
        let end = self.seq.wrapping_add(self.len.into());
        let flags = show_flags(self.flags);
        write!(f, "{flags} {}:{end}({})", self.seq, self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(urgent) = self.urgent {
            write!(f, " urg {urgent}")?;
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(options) if options.is_empty() => Ok(()),
            Some(options) => write!(f, " <{}>", show_options(options)),
        }
    }
}

fn show_options(options: &[TcpOption]) -> String {
    let shown: Vec<String> = options.iter().map(TcpOption::to_string).collect();
    shown.join(",")
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nop => f.write_str("nop"),
            Self::End => f.write_str("eol"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks
                    .iter()
                    .try_for_each(|(left, right)| write!(f, " {left}:{right}"))
            }
            Self::Timestamps { val, ecr } => write!(f, "TS val {val} ecr {ecr}"),
            Self::FastOpen(cookie) => write!(f, "FO {}", hex(cookie)),
            Self::FastOpenExperimental(cookie) => write!(f, "FOEXP {}", hex(cookie)),
            Self::AccEcn(counters) => {
                f.write_str("ECN")?;
                counters.iter().try_for_each(|(counter, value)| {
                    let name = match counter {
                        Counter::Ect0 => "e0b",
                        Counter::Ce => "ceb",
                        Counter::Ect1 => "e1b",
                    };
                    write!(f, " {name} {value}")
                })
            }
            Self::Other(kind, value) => write!(f, "opt {kind} {}", hex(value)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for IcmpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icmp {}", self.kind)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, " mtu {mtu}")?;
        }
        if let Some(id) = self.id {
            write!(f, " id {id}")?;
        }
        if let Some((seq, len)) = self.quoted {
            let end = seq.wrapping_add(len.into());
            write!(f, " [{seq}:{end}({len})]")?;
        }
        Ok(())
    }
}
