//! The packets of a script: those that come from it, and those that the stack is to send.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::tcp::TcpFlags;

use super::check::{self, Verdict};
use super::flows::Flows;
use super::host::Sent;
use super::mode::Mode;
use super::observe::{Seen, SeenBody, in_script, look};
use super::script::{BodySpec, IpSpec, PacketSpec, TcpSpec};
use super::settings::Settings;
use super::{compose, cookie};

type Result<T> = std::result::Result<T, String>;

#[derive(Debug)]
pub(super) struct Packets {
    settings: Arc<Settings>,
    mode: Mode,
    pub flows: Flows,
    /// What the stack sent and no line took.
    inbox: VecDeque<Seen>,
    /// The last packet of the peer brought data, or completed our handshake, and nothing else.
    ack_is_due: bool,
}

impl Packets {
    /// `has_cookie`: the script speaks of a Fast Open cookie that is good.
    pub fn new(settings: Arc<Settings>, mode: Mode, has_cookie: bool) -> Self {
        let mut flows = Flows::default();
        if has_cookie && let Some(cookie) = cookie::valid(&settings) {
            flows.cookies.insert(cookie::VALID.into(), cookie);
        }
        Self {
            settings,
            mode,
            flows,
            inbox: VecDeque::new(),
            ack_is_due: false,
        }
    }

    /// The stack sent a frame.
    pub fn note(&mut self, sent: &Sent) -> Result<()> {
        self.inbox.extend(look(sent.at, &sent.frame)?);
        Ok(())
    }

    /// The frame of a packet of the peer.
    pub fn frame(&mut self, packet: &PacketSpec) -> Result<Vec<u8>> {
        let PacketSpec { ip, body, .. } = packet;
        self.ack_is_due = matches!(body, BodySpec::Tcp(tcp) if brings_data(tcp) || opens(tcp));
        let listening = self.settings.bind_port;
        Ok(match body {
            BodySpec::Tcp(tcp) => {
                let syn = tcp.flags.contains(TcpFlags::SYN);
                let ports = self.flows.inbound(tcp.ports, listening, syn);
                let (flow, cookies) = self.flows.with_cookies(ports);
                if syn {
                    flow.see_peer_syn(tcp.seq);
                }
                check::learn_cookie(cookies, tcp);
                compose::tcp(&self.settings, ports, (flow, cookies), ip, tcp)?
            }
            BodySpec::Icmp(icmp) => {
                let ports = self.flows.inbound(None, listening, false);
                let flow = self.flows.flow(ports);
                compose::icmp(&self.settings, ports, flow, ip, icmp)?
            }
            BodySpec::Udp { ports, len } => {
                let (remote, local) = ports.unwrap_or((40_000, listening));
                compose::udp(&self.settings, (local, remote), ip, *len)
            }
        })
    }

    /// What the stack sent next, without ACKs that may be spare.
    pub fn next(&mut self, packet: &PacketSpec) -> Option<Seen> {
        loop {
            let seen = self.inbox.pop_front()?;
            if !self.is_spare(packet, &seen) {
                return Some(seen);
            }
        }
    }

    /// What was sent and no line speaks of, if anything.
    pub fn left(&mut self) -> Option<(Seen, PacketSpec)> {
        let seen = self.inbox.pop_front()?;
        let shown = self.show(&seen);
        Some((seen, shown))
    }

    fn is_spare(&mut self, packet: &PacketSpec, seen: &Seen) -> bool {
        let (BodySpec::Tcp(spec), SeenBody::Tcp(header, options, payload)) =
            (&packet.body, &seen.body)
        else {
            return false;
        };
        let lenient = self.mode.dialect.leniency();
        let ports = (header.src_port, header.dst_port);
        if spec.flags == TcpFlags::SYN && !header.flags.contains(TcpFlags::SYN) {
            return lenient.others;
        }
        if !(lenient.spare_acks && self.ack_is_due && payload.is_empty()) {
            return false;
        }
        let flow = self.flows.flow(ports);
        check::is_spare(&in_script(flow, header, options, 0), spec)
    }

    pub fn may_be_early(&self, packet: &PacketSpec) -> bool {
        let bare = matches!(&packet.body, BodySpec::Tcp(tcp) if check::is_bare_ack(tcp));
        bare && self.mode.dialect.leniency().spare_acks
    }

    pub fn judge(&mut self, packet: &PacketSpec, seen: &Seen) -> Verdict {
        let tolerance_us = self.settings.tolerance / 1000;
        let tick = self.settings.ts_tick.map(|tick| (tick, tolerance_us));
        let mut verdict = match (&packet.body, &seen.body) {
            (BodySpec::Tcp(tcp), SeenBody::Tcp(header, options, payload)) => {
                let mut header = *header;
                let len = self.gather(tcp, &mut header, payload.len());
                let actual = (header.src_port, header.dst_port);
                let syn = tcp.flags.contains(TcpFlags::SYN);
                let ports = self.flows.outbound(tcp.ports, actual, syn);
                let state = self.flows.with_cookies(ports);
                let mut verdict = check::tcp(
                    state,
                    seen,
                    (&header, options, len),
                    (&packet.ip, tcp),
                    (tick, self.mode.dialect.leniency()),
                );
                if ports != actual {
                    verdict.wrong.push("ports");
                }
                if (ports != actual || tcp.ports.is_some())
                    && let BodySpec::Tcp(shown) = &mut verdict.actual.body
                {
                    shown.ports = Some(actual);
                }
                verdict
            }
            (BodySpec::Icmp(icmp), SeenBody::Icmp(actual)) => {
                check::icmp(seen, actual, (&packet.ip, icmp))
            }
            _ => Verdict {
                actual: self.show(seen),
                wrong: vec!["protocol"],
            },
        };
        let ends = (self.settings.local_ip, self.settings.remote_ip);
        if (seen.src, seen.dst) != ends {
            verdict.wrong.push("addresses");
        }
        verdict
    }

    /// A line may stand for several segments that follow each other: takes the others, and says how
    /// long they are together.
    fn gather(&mut self, tcp: &TcpSpec, header: &mut wire::tcp::TcpHeader, first: usize) -> u16 {
        let mut len = first;
        while !self.settings.strict_segments && len > 0 && len < usize::from(tcp.len) {
            let Some(next) = self.inbox.front() else {
                break;
            };
            let SeenBody::Tcp(more, _, payload) = &next.body else {
                break;
            };
            let follows = more.seq.0 == header.seq.0.wrapping_add(len as u32);
            let ports = (more.src_port, more.dst_port) == (header.src_port, header.dst_port);
            let fits = len + payload.len() <= usize::from(tcp.len);
            let middle =
                header.flags - TcpFlags::PSH == more.flags - (TcpFlags::PSH | TcpFlags::FIN);
            if !(follows && ports && fits && middle && !payload.is_empty()) {
                break;
            }
            len += payload.len();
            header.flags |= more.flags;
            self.inbox.pop_front();
        }
        u16::try_from(len).unwrap_or(u16::MAX)
    }

    /// A packet that no line speaks of.
    fn show(&mut self, seen: &Seen) -> PacketSpec {
        let body = match &seen.body {
            SeenBody::Icmp(icmp) => BodySpec::Icmp(icmp.clone()),
            SeenBody::Tcp(header, options, payload) => {
                let ports = (header.src_port, header.dst_port);
                let current = self.flows.current();
                let flow = self.flows.flow(ports);
                if header.flags.contains(TcpFlags::SYN) {
                    flow.see_syn(0, header.seq.0);
                }
                let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
                let mut tcp = in_script(flow, header, options, len);
                tcp.ports = Some(ports).filter(|_| current != Some(ports));
                BodySpec::Tcp(tcp)
            }
        };
        check::packet(&IpSpec::default(), &seen.ip, body)
    }
}

fn brings_data(tcp: &TcpSpec) -> bool {
    tcp.len > 0 && (TcpFlags::ACK | TcpFlags::PSH).contains(tcp.flags)
}

fn opens(tcp: &TcpSpec) -> bool {
    tcp.flags == TcpFlags::SYN | TcpFlags::ACK
}
