//! Opening the configured link.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ::io::fault::FaultSpec;
use ::io::loopback::LoopPort;
use ::io::netlink::{self, ReceiveHash};
use ::io::packet::{PacketConfig, PacketPrepared};
use ::io::pcap::PcapFile;
use ::io::shm::{Exchange, ShmConfig, ShmPort, ShmRole};
use ::io::tap::{TapConfig, TapPort, refuse_taken};
use ::io::xdp::{XdpConfig, XdpPort, XdpPrepared};
use ::io::{AnyLink, AnyPort, Port as _};
use mtcp_core::Arrivals;
use wire::frame::MacAddr;

use crate::config::{Config, IoSpec};

/// Most queues of a shared-memory, TAP or AF_PACKET link.
const MAX_QUEUES: usize = 64;
/// RFC 7217 §7: how often the stack gives itself another link-local address.
const IDGEN_RETRIES: u8 = 3;

/// The queues of a link, and what is worth knowing of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) ports: Vec<AnyPort>,
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Which of the processes that share the link this is.
    pub(crate) share: u32,
    /// By port, which frames come to it, if there are other ports and it is known.
    pub(crate) arrivals: Vec<Option<Arrivals>>,
    /// The link-local address that the stack gives itself, where others were asked for it.
    pub(crate) link_local: Option<Ipv6Addr>,
}

/// What of a link is there before it is open.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// With the link-local address that the stack gives itself on it.
    Xdp(Box<XdpPrepared>, Option<Ipv6Addr>),
    /// The same, of packet sockets.
    Packet(Box<PacketPrepared>, Option<Ipv6Addr>),
    /// Links that take nothing before.
    Other,
}

impl Prepared {
    /// Whether another process can open it when this one is gone, and peers do not notice.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Self::Xdp(xdp, _) if !xdp.shares_addresses())
    }

    /// What joins the stacks of the processes that share the link; `None`: it has one process.
    pub(crate) fn exchange(&self) -> io::Result<Option<Arc<Exchange>>> {
        match self {
            Self::Xdp(xdp, _) if xdp.processes() > 1 => {
                let mtu = u16::try_from(xdp.link().mtu).unwrap_or(u16::MAX);
                let seats = usize::from(xdp.processes()) * usize::from(xdp.ports());
                match u8::try_from(seats) {
                    Ok(processes) if xdp.ports() == 1 => Exchange::for_processes(processes, mtu),
                    _ => exchange(seats, mtu),
                }
                .map(Some)
            }
            Self::Xdp(..) | Self::Packet(..) | Self::Other => Ok(None),
        }
    }
}

impl Prepared {
    /// Has the processes that share it receive what comes to queues that none of them has.
    pub(crate) fn join(&mut self, exchange: Option<&Arc<Exchange>>) {
        if let (Self::Xdp(xdp, _), Some(exchange)) = (self, exchange) {
            xdp.join(exchange);
        }
    }
}

/// What joins so many stacks.
pub(crate) fn exchange(seats: usize, mtu: u16) -> io::Result<Arc<Exchange>> {
    Exchange::new(u8::try_from(seats).unwrap_or(u8::MAX), mtu)
}

/// Prepares the link of a checked configuration; if `fresh`, no process had our addresses on it
/// before.
pub(crate) fn prepare(
    config: &Config,
    spec: &IoSpec,
    processors: usize,
    fresh: bool,
) -> io::Result<Prepared> {
    match spec {
        IoSpec::Afxdp(name) => {
            let mut xdp = xdp_config(config, name, processors)?;
            if config.host {
                return Ok(Prepared::Xdp(Box::new(XdpPrepared::new(&xdp)?), None));
            }
            xdp.probe = fresh && !config.force_address;
            let mac = match config.mac {
                Some(mac) => mac,
                None => netlink::link(name)?.mac,
            };
            let (prepared, link_local) = with_link_local(mac, &addresses(config), |addresses| {
                xdp.addresses = addresses.to_vec();
                XdpPrepared::new(&xdp)
            })?;
            Ok(Prepared::Xdp(Box::new(prepared), link_local))
        }
        IoSpec::Packet(name) => {
            let mac = netlink::link(name)?.mac;
            let (prepared, link_local) = with_link_local(mac, &addresses(config), |addresses| {
                PacketPrepared::new(&PacketConfig {
                    interface: name.clone(),
                    addresses: addresses.to_vec(),
                    ports: queues(config),
                    probe: fresh && !config.force_address,
                })
            })?;
            Ok(Prepared::Packet(Box::new(prepared), link_local))
        }
        IoSpec::Shm(_) | IoSpec::Tap(_) | IoSpec::Loop(_) | IoSpec::Daemon(_) => {
            Ok(Prepared::Other)
        }
    }
}

/// Whether an interface could be opened that another process has, as far as that one does not
/// notice.
pub(crate) fn check_held(config: &Config, name: &str, processors: usize) -> io::Result<()> {
    XdpPrepared::check(&xdp_config(config, name, processors)?)
}

/// Opens a link with as many queues as contexts are wanted, wrapped as the configuration says.
pub(crate) fn open(
    config: &Config,
    spec: &IoSpec,
    prepared: &mut Prepared,
) -> Result<Opened, LinkError> {
    let fault = parse_fault(config)?;
    let capture = match &config.pcap {
        Some(path) => Some(
            PcapFile::create(path)
                .map_err(|error| format!("{error}: give another file as pcap"))?,
        ),
        None => None,
    };
    let Links {
        links,
        mut facts,
        share,
        arrivals,
        link_local,
    } = links(config, spec, prepared)?;
    if let Some(spec) = &fault {
        facts.push(("fault", spec.to_string()));
    }
    let name = spec.name();
    let wrap = |(stream, link): (u64, AnyLink)| {
        let fault = fault.as_ref().map(|spec| (spec, stream));
        AnyPort::new(
            link,
            fault,
            capture.as_ref().map(|file| (file, name.as_str())),
        )
    };
    Ok(Opened {
        ports: (0..).zip(links).map(wrap).collect(),
        facts,
        share,
        arrivals,
        link_local,
    })
}

/// Why a link was not opened.
#[derive(Debug)]
pub(crate) struct LinkError {
    pub(crate) text: String,
    /// Other processes have all of it.
    pub(crate) busy: bool,
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self {
            text: error.to_string(),
            busy: error.kind() == io::ErrorKind::ResourceBusy,
        }
    }
}

impl From<String> for LinkError {
    fn from(text: String) -> Self {
        Self { text, busy: false }
    }
}

fn parse_fault(config: &Config) -> Result<Option<FaultSpec>, String> {
    let Some(text) = &config.fault else {
        return Ok(None);
    };
    let spec = text
        .parse()
        .map_err(|error| format!("fault '{text}': {error}"))?;
    Ok(Some(spec))
}

/// A link's queues without wrappers.
struct Links {
    links: Vec<AnyLink>,
    facts: Vec<(&'static str, String)>,
    share: u32,
    arrivals: Vec<Option<Arrivals>>,
    link_local: Option<Ipv6Addr>,
}

impl Links {
    fn of<P: Into<AnyLink>>(ports: Vec<P>) -> Self {
        Self {
            links: ports.into_iter().map(Into::into).collect(),
            facts: Vec::new(),
            share: 0,
            arrivals: Vec::new(),
            link_local: None,
        }
    }
}

fn links(config: &Config, spec: &IoSpec, prepared: &mut Prepared) -> io::Result<Links> {
    match spec {
        IoSpec::Shm(path) => {
            let queues = queues(config);
            let ports = ShmPort::open(
                path,
                ShmRole::Auto,
                ShmConfig {
                    queues,
                    ..ShmConfig::default()
                },
            )?;
            Ok(Links::of(ports))
        }
        IoSpec::Tap(name) => {
            let tap = TapConfig {
                queues: queues(config),
                mac: config.mac,
                ..TapConfig::new(name)
            };
            let mut ports = TapPort::open(&tap)?;
            let first = ports.first().map(TapPort::mac);
            let mac = config.mac.or(first).unwrap_or_default();
            let ((), link_local) =
                with_link_local(mac, &addresses(config), |addresses| {
                    match config.force_address {
                        true => Ok(()),
                        false => refuse_taken(&mut ports, addresses),
                    }
                })?;
            Ok(Links {
                link_local,
                ..Links::of(ports)
            })
        }
        // One context: others would each be alone.
        IoSpec::Loop(_) => Ok(Links::of(vec![LoopPort::new()])),
        // It has none.
        IoSpec::Daemon(_) => Err(io::ErrorKind::InvalidInput.into()),
        IoSpec::Afxdp(_) => match prepared {
            Prepared::Xdp(prepared, link_local) => Ok(Links {
                link_local: *link_local,
                ..xdp(prepared)?
            }),
            Prepared::Packet(..) | Prepared::Other => Err(io::ErrorKind::InvalidInput.into()),
        },
        IoSpec::Packet(_) => match prepared {
            Prepared::Packet(prepared, link_local) => Ok(Links {
                link_local: *link_local,
                ..Links::of(prepared.open()?)
            }),
            Prepared::Xdp(..) | Prepared::Other => Err(io::ErrorKind::InvalidInput.into()),
        },
    }
}

/// One per context; a link that can have any number has one unless more are asked for.
fn queues(config: &Config) -> u16 {
    u16::try_from(config.cores.clamp(1, MAX_QUEUES)).unwrap_or(1)
}

fn addresses(config: &Config) -> Vec<IpAddr> {
    config.addresses.iter().map(|cidr| cidr.addr).collect()
}

/// Has `take` take our addresses and the link-local one that the stack gives itself with them,
/// unless another host has one of ours. Another host may have that one, by accident or to keep us
/// out: then the stack gives itself another (RFC 7217 §6).
fn with_link_local<T>(
    mac: MacAddr,
    ours: &[IpAddr],
    mut take: impl FnMut(&[IpAddr]) -> io::Result<T>,
) -> io::Result<(T, Option<Ipv6Addr>)> {
    let mut dad_counter = 0;
    loop {
        let own = mtcp_core::link_local(mac, ours, dad_counter);
        let all: Vec<IpAddr> = ours.iter().copied().chain(own.map(IpAddr::V6)).collect();
        match take(&all) {
            Ok(taken) => return Ok((taken, own)),
            Err(error) if dad_counter == IDGEN_RETRIES => return Err(error),
            Err(error) => match ::io::holder(&error) {
                // Another program on the interface, which gave itself the same.
                Some((IpAddr::V6(held), holder)) if Some(held) == own && holder == mac => {}
                Some((IpAddr::V6(held), holder)) if Some(held) == own => log::warn!(
                    "{held}, which the stack gave itself, is in use by another host, {holder}: it takes another one"
                ),
                _ => return Err(error),
            },
        }
        dad_counter += 1;
    }
}

fn xdp_config(config: &Config, name: &str, processors: usize) -> io::Result<XdpConfig> {
    let mut xdp = XdpConfig::new(name, addresses(config));
    let wanted = match config.cores {
        // As many contexts as both processors and queues allow; an interface that cannot say has
        // one.
        0 => netlink::ethtool::queues(name)
            .map_or(1, |queues| (queues.rx as usize).clamp(1, processors)),
        cores => cores,
    };
    xdp.ports = u16::try_from(wanted).ok();
    xdp.flows = config.host.then(|| {
        let contexts = u32::try_from(wanted).unwrap_or(u32::MAX);
        config.flows().saturating_mul(contexts)
    });
    xdp.processes = config.processes;
    xdp.retakes = true;
    Ok(xdp)
}

fn xdp(prepared: &mut XdpPrepared) -> io::Result<Links> {
    let interface = prepared.open()?;
    let mode = interface.mode();
    let share = interface.share();
    let facts = vec![
        ("receives by", mode.attachment.to_string()),
        (
            "zero copy",
            if mode.zero_copy { "yes" } else { "no" }.to_owned(),
        ),
        (
            "kernel owns",
            interface
                .conflicts()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ];
    let hash = match prepared.processes() > 1 || prepared.ports() > 1 {
        true => netlink::receive_hash(&interface.link().name),
        false => None,
    };
    let ports = interface.ports();
    let arrivals = ports.iter().map(|port| arrivals(hash.as_ref()?, port));
    Ok(Links {
        facts,
        share,
        arrivals: arrivals.collect(),
        ..Links::of(ports)
    })
}

/// Which frames come to a port.
fn arrivals(hash: &ReceiveHash, port: &XdpPort) -> Option<Arrivals> {
    let is_here = |queue: &u32| port.queues().any(|own| own == *queue);
    Arrivals::new(&hash.key, hash.table.iter().map(is_here).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// A link on which another host has the first `held` link-local addresses that are tried: what
    /// came of it, and how often it was tried.
    fn taken(ours: &[&str], held: usize) -> (io::Result<Option<Ipv6Addr>>, usize) {
        let ours: Vec<IpAddr> = ours.iter().map(|addr| addr.parse().unwrap()).collect();
        let mut tries = 0;
        let result = with_link_local(MAC, &ours, |all| {
            tries += 1;
            assert!(all.starts_with(&ours));
            match all.last() {
                Some(last) if tries <= held => Err(::io::in_use((*last, MAC), "eth0")),
                _ => Ok(()),
            }
        });
        (result.map(|((), own)| own), tries)
    }

    /// RFC 7217 §6, §7.
    #[test]
    fn a_link_local_address_that_another_host_has_is_given_up_for_another() {
        let ours = ["fd00::1"];
        let (first, tries) = taken(&ours, 0);
        assert_eq!(tries, 1);
        let (second, tries) = taken(&ours, 1);
        assert_eq!(tries, 2);
        assert_ne!(first.unwrap().unwrap(), second.unwrap().unwrap());
        let (last, tries) = taken(&ours, 4);
        assert_eq!(
            (last.unwrap_err().kind(), tries),
            (io::ErrorKind::AddrInUse, 4)
        );
    }

    #[test]
    fn an_address_that_was_configured_is_not_given_up() {
        for ours in [["10.0.0.1"], ["fe80::1"]] {
            let (refused, tries) = taken(&ours, 1);
            assert_eq!(
                (refused.unwrap_err().kind(), tries),
                (io::ErrorKind::AddrInUse, 1)
            );
        }
    }
}
