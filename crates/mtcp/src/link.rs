//! Opening the configured link.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ::io::fault::FaultSpec;
use ::io::loopback::LoopPort;
use ::io::netlink::{self, ReceiveHash};
use ::io::pcap::PcapFile;
use ::io::shm::{Exchange, ShmConfig, ShmPort, ShmRole};
use ::io::tap::{TapConfig, TapPort, refuse_taken};
use ::io::xdp::{XdpConfig, XdpPort, XdpPrepared};
use ::io::{AnyLink, AnyPort};
use mtcp_core::Arrivals;

use crate::config::{Config, IoSpec};

/// Most queues of a shared-memory or TAP link.
const MAX_QUEUES: usize = 64;

/// The queues of a link, and what is worth knowing of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) ports: Vec<AnyPort>,
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Which of the processes that share the link this is.
    pub(crate) share: u32,
    /// By port, which frames come to it, if there are other ports and it is known.
    pub(crate) arrivals: Vec<Option<Arrivals>>,
}

/// What of a link is there before it is open.
#[derive(Debug)]
pub(crate) enum Prepared {
    Xdp(Box<XdpPrepared>),
    /// Links that take nothing before.
    Other,
}

impl Prepared {
    /// Whether another process can open it when this one is gone, and peers do not notice.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Self::Xdp(_))
    }

    /// What joins the stacks of the processes that share the link; `None`: it has one process.
    pub(crate) fn exchange(&self) -> io::Result<Option<Arc<Exchange>>> {
        match self {
            Self::Xdp(xdp) if xdp.processes() > 1 => {
                let mtu = u16::try_from(xdp.link().mtu).unwrap_or(u16::MAX);
                let seats = usize::from(xdp.processes()) * usize::from(xdp.ports());
                match u8::try_from(seats) {
                    Ok(processes) if xdp.ports() == 1 => Exchange::for_processes(processes, mtu),
                    _ => exchange(seats, mtu),
                }
                .map(Some)
            }
            Self::Xdp(_) | Self::Other => Ok(None),
        }
    }
}

impl Prepared {
    /// Has the processes that share it receive what comes to queues that none of them has.
    pub(crate) fn join(&mut self, exchange: Option<&Arc<Exchange>>) {
        if let (Self::Xdp(xdp), Some(exchange)) = (self, exchange) {
            xdp.join(exchange);
        }
    }
}

/// What joins so many stacks.
pub(crate) fn exchange(seats: usize, mtu: u16) -> io::Result<Arc<Exchange>> {
    Exchange::new(u8::try_from(seats).unwrap_or(u8::MAX), mtu)
}

/// Prepares the link of a checked configuration; if `fresh`, no process had our addresses on it before.
pub(crate) fn prepare(
    config: &Config,
    spec: &IoSpec,
    processors: usize,
    fresh: bool,
) -> io::Result<Prepared> {
    match spec {
        IoSpec::Afxdp(name) => {
            let mut xdp = xdp_config(config, name, processors)?;
            xdp.probe = fresh && !config.force_address;
            let prepared = XdpPrepared::new(&xdp)?;
            Ok(Prepared::Xdp(Box::new(prepared)))
        }
        IoSpec::Shm(_) | IoSpec::Tap(_) | IoSpec::Loop(_) => Ok(Prepared::Other),
    }
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
}

impl Links {
    fn of<P: Into<AnyLink>>(ports: Vec<P>) -> Self {
        Self {
            links: ports.into_iter().map(Into::into).collect(),
            facts: Vec::new(),
            share: 0,
            arrivals: Vec::new(),
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
            if !config.force_address {
                let ours: Vec<_> = config.addresses.iter().map(|cidr| cidr.addr).collect();
                refuse_taken(&mut ports, &ours)?;
            }
            Ok(Links::of(ports))
        }
        // One context: others would each be alone.
        IoSpec::Loop(_) => Ok(Links::of(vec![LoopPort::new()])),
        IoSpec::Afxdp(_) => match prepared {
            Prepared::Xdp(prepared) => xdp(prepared),
            Prepared::Other => Err(io::ErrorKind::InvalidInput.into()),
        },
    }
}

/// One per context; a link that can have any number has one unless more are asked for.
fn queues(config: &Config) -> u16 {
    u16::try_from(config.cores.clamp(1, MAX_QUEUES)).unwrap_or(1)
}

fn xdp_config(config: &Config, name: &str, processors: usize) -> io::Result<XdpConfig> {
    let mut addresses: Vec<IpAddr> = config.addresses.iter().map(|cidr| cidr.addr).collect();
    // The stack gives itself one, where it has others of IPv6.
    let mac = config
        .mac
        .map_or_else(|| Ok(netlink::link(name)?.mac), Ok::<_, io::Error>)?;
    addresses.extend(mtcp_core::link_local(mac, &addresses).map(IpAddr::V6));
    let mut xdp = XdpConfig::new(name, addresses);
    let wanted = match config.cores {
        // As many contexts as both processors and queues allow; an interface that cannot say has one.
        0 => netlink::ethtool::queues(name)
            .map_or(1, |queues| (queues.rx as usize).clamp(1, processors)),
        cores => cores,
    };
    xdp.ports = u16::try_from(wanted).ok();
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
