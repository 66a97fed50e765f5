//! Interfaces.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    LinkXdp, State, XdpAttached,
};
use wire::frame::MacAddr;

use super::request;
use crate::context::invalid;

/// Operational state of an interface (RFC 2863 `ifOperStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperState {
    /// Passes packets.
    Up,
    /// Does not: administratively, for want of a carrier, or because the interface below it does
    /// not.
    Down,
    /// The driver does not say (loopback, TAP and others): take it as up.
    Unknown,
}

/// The XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpAttachment {
    /// None.
    None,
    /// In the driver.
    Native,
    /// In the kernel's network stack, after a socket buffer was made.
    Generic,
    /// On the device.
    Offloaded,
    /// Several at once.
    Multiple,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in this namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address; all zero when it has none.
    pub mac: MacAddr,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Whether the administrator set it up (`IFF_UP`).
    pub admin_up: bool,
    /// Whether it passes packets.
    pub state: OperState,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether its frames begin with Ethernet headers.
    pub ethernet: bool,
    /// Kind of a virtual interface (`veth`, `tun`, …); none for a physical one.
    pub kind: Option<String>,
    /// Receive queues it was made with; see [`super::ethtool::queues`] for those in use.
    pub rx_queues: u32,
    /// Transmit queues it was made with.
    pub tx_queues: u32,
    /// Its XDP program.
    pub xdp: XdpAttachment,
}

impl Link {
    /// Whether frames on it are such as the stack has. `by`: what would receive them, for messages.
    ///
    /// # Errors
    /// It is the loopback interface, or frames have no Ethernet headers: says what to use.
    pub(crate) fn check_frames(&self, by: &str) -> io::Result<()> {
        let name = &self.name;
        if self.loopback {
            return Err(invalid(format_args!(
                "{by} on {name}: the loopback interface has no hardware addresses; use a veth pair"
            )));
        }
        if !self.ethernet {
            let kind = self.kind.as_deref().unwrap_or("unknown");
            return Err(invalid(format_args!(
                "{by} on {name}: frames of a device of kind '{kind}' have no Ethernet headers, which the stack needs; use the interface below \
                 it, or a TAP device"
            )));
        }
        Ok(())
    }

    /// Whether it is one end of a veth pair.
    pub fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }
}

/// The interface called `name`.
///
/// # Errors
/// `NotFound` with the name when there is none in this namespace.
pub fn link(name: &str) -> io::Result<Link> {
    // Longer names are refused by the kernel with ERANGE, which says nothing to a user (IFNAMSIZ is
    // 16 with the final zero).
    if name.is_empty() || name.len() > 15 {
        return Err(missing(name));
    }
    let mut question = LinkMessage::default();
    question
        .attributes
        .push(LinkAttribute::IfName(name.to_owned()));
    one(question).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => missing(name),
        _ => io::Error::new(error.kind(), format!("interface {name}: {error}")),
    })
}

/// The interface with this index.
///
/// # Errors
/// As the kernel says: `ENODEV` when there is none in this namespace.
pub fn link_by_index(index: u32) -> io::Result<Link> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    one(question)
}

/// All interfaces.
///
/// # Errors
/// As the kernel says.
pub fn links() -> io::Result<Vec<Link>> {
    let answers = request::dump(
        request::ROUTE,
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
    )?;
    Ok(answers.into_iter().filter_map(from_answer).collect())
}

fn missing(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "interface {name} does not exist in this network namespace (`ip link` lists those that do)"
        ),
    )
}

fn one(mut question: LinkMessage) -> io::Result<Link> {
    question.attributes.push(skip_statistics());
    let answer = request::one(RouteNetlinkMessage::GetLink(question))?;
    from_answer(answer).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "rtnetlink: the answer is no link",
        )
    })
}

/// Of a question about interfaces: without counters, which are long.
pub(super) fn skip_statistics() -> LinkAttribute {
    LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])
}

pub(super) fn from_answer(answer: RouteNetlinkMessage) -> Option<Link> {
    match answer {
        RouteNetlinkMessage::NewLink(message) => Some(from_message(message)),
        _ => None,
    }
}

fn from_message(message: LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: MacAddr::default(),
        mtu: 0,
        admin_up: message.header.flags.contains(LinkFlags::Up),
        state: OperState::Unknown,
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        kind: None,
        rx_queues: 1,
        tx_queues: 1,
        xdp: XdpAttachment::None,
    };
    for attribute in message.attributes {
        apply(&mut link, attribute);
    }
    link
}

fn apply(link: &mut Link, attribute: LinkAttribute) {
    match attribute {
        LinkAttribute::IfName(name) => link.name = name,
        LinkAttribute::Address(bytes) => link.mac = MacAddr(bytes.try_into().unwrap_or_default()),
        LinkAttribute::Mtu(mtu) => link.mtu = mtu,
        LinkAttribute::NumRxQueues(count) => link.rx_queues = count,
        LinkAttribute::NumTxQueues(count) => link.tx_queues = count,
        LinkAttribute::OperState(state) => link.state = oper_state(state),
        LinkAttribute::LinkInfo(infos) => link.kind = kind(&infos),
        LinkAttribute::Xdp(attributes) => link.xdp = attachment(&attributes),
        _ => {}
    }
}

fn oper_state(state: State) -> OperState {
    match state {
        State::Up => OperState::Up,
        State::Unknown | State::Other(_) => OperState::Unknown,
        _ => OperState::Down,
    }
}

fn kind(infos: &[LinkInfo]) -> Option<String> {
    infos.iter().find_map(|info| match info {
        LinkInfo::Kind(InfoKind::Other(name)) => Some(name.clone()),
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    })
}

fn attachment(attributes: &[LinkXdp]) -> XdpAttachment {
    let attached = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(attached) => Some(*attached),
        _ => None,
    });
    match attached {
        None | Some(XdpAttached::None) => XdpAttachment::None,
        Some(XdpAttached::SocketBuffer) => XdpAttachment::Generic,
        Some(XdpAttached::Hardware) => XdpAttachment::Offloaded,
        Some(XdpAttached::Driver) => XdpAttachment::Native,
        Some(_) => XdpAttachment::Multiple,
    }
}
