//! What opening an interface takes privileges for, done before: its sockets are there and receive
//! nothing yet.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt,
};

use super::behind_tap::{BehindTap, tell_missing};
use super::common::Common;
use super::filter;
use super::port::PacketPort;
use super::ring::{self, Ring, Shape};
use crate::claim::in_use;
use crate::context::{self, invalid};
use crate::netlink::{self, Link, OperState};
use crate::overhear::Probe;
use crate::{packet_socket, sys};

/// Most ports of an interface: members of a fanout group.
const MAX_PORTS: u16 = 256;
/// Bytes that the kernel may hold of frames that a port sent.
const SEND_BUFFER: usize = 4 << 20;

/// How to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Name of the interface.
    pub interface: String,
    /// Our addresses: frames for them are ours.
    pub addresses: Vec<IpAddr>,
    /// Ports, 1 to 256. The kernel spreads flows over them.
    pub ports: u16,
    /// Ask first whether another host has one of the addresses.
    pub probe: bool,
}

/// An interface whose sockets are made and receive nothing. A child that is forked has them, too;
/// one process opens it.
#[derive(Debug)]
pub struct PacketPrepared {
    link: Link,
    addresses: Vec<IpAddr>,
    shape: Shape,
    /// The name of who receives begins with this.
    key: String,
    sockets: Vec<OwnedFd>,
    common: Arc<Common>,
}

impl PacketPrepared {
    /// Makes the sockets.
    ///
    /// # Errors
    /// Each says what failed, on which interface, and what to do: no such interface, no Ethernet
    /// headers, it is down, another process has an address of ours there, no right to
    /// (CAP_NET_RAW), no memory.
    pub fn new(config: &PacketConfig) -> io::Result<Self> {
        let PacketConfig {
            interface: name,
            addresses,
            ports,
            probe,
        } = config;
        if !(1..=MAX_PORTS).contains(ports) || addresses.is_empty() {
            return Err(invalid(format_args!(
                "AF_PACKET on {name}: {ports} queues and {} addresses: give 1 to {MAX_PORTS} queues, and an address",
                addresses.len()
            )));
        }
        let link = netlink::link(name)?;
        check(&link)?;
        let probe = (*probe && link.state != OperState::Down)
            .then(|| Probe::start(link.index, link.mac, addresses))
            .transpose()
            .map_err(|error| explain(name, "ask who has our addresses", error))?;
        let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
        let shape = Shape::new(mtu, *ports);
        let claims = addresses.iter().map(|address| claim(&link, *address));
        let claims = claims.collect::<io::Result<Vec<_>>>()?;
        let mut sockets = Vec::with_capacity(usize::from(*ports));
        let mut group = None;
        for _ in 0..*ports {
            let (socket, holds_long) = socket(&link)?;
            if !holds_long && sockets.is_empty() {
                tell_few_long(name);
            }
            if *ports > 1 {
                let joined = join(&socket, group);
                group = Some(joined.map_err(|error| explain(name, "spread its flows", error))?);
            }
            sockets.push(socket);
        }
        let behind_tap = BehindTap::attach(name, addresses)
            .inspect_err(|error| tell_missing(name, addresses, &**error));
        let holder = probe.map(Probe::finish).transpose()?.flatten();
        if let Some(holder) = holder {
            return Err(in_use(holder, name));
        }
        Ok(Self {
            common: Arc::new(Common {
                claims,
                behind_tap: behind_tap.ok(),
                groups: packet_socket::groups(name, link.index, addresses),
            }),
            key: key(
                &link,
                addresses.first().copied().unwrap_or(IpAddr::from([0; 4])),
            ),
            link,
            addresses: addresses.clone(),
            shape,
            sockets,
        })
    }

    /// The interface.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Has the sockets receive.
    ///
    /// # Errors
    /// The interface is gone; no memory; of the kind `ResourceBusy` when another process that has
    /// them, too, receives.
    pub fn open(&mut self) -> io::Result<Vec<PacketPort>> {
        let name = self.link.name.as_str();
        let reader = Arc::new(self.read()?);
        let count = u16::try_from(self.sockets.len()).unwrap_or(u16::MAX);
        let filter = filter::ours(&self.addresses);
        let mut ports = Vec::with_capacity(self.sockets.len());
        for socket in &self.sockets {
            let socket = socket.try_clone()?;
            ring::set_up(socket.as_fd(), self.shape)
                .map_err(|error| explain(name, "make a receive ring", error))?;
            let ring = Ring::map(socket.as_fd(), self.shape)
                .map_err(|error| explain(name, "map its ring", error))?;
            sys::attach_filter(socket.as_fd(), &filter)
                .map_err(|error| explain(name, "choose frames", error))?;
            let common = [Arc::clone(&self.common), Arc::clone(&reader)];
            ports.push(PacketPort::new(socket, ring, (&self.link, count), common));
        }
        Ok(ports)
    }

    /// Keeps other processes that have the sockets from receiving.
    fn read(&self) -> io::Result<Common> {
        let name = &self.link.name;
        let claim = unique(&format!("{}/reader", self.key))
            .map_err(|error| explain(name, "become the reader of it", error))?
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("AF_PACKET on {name}: another process of this program has it"),
                )
            })?;
        Ok(Common {
            claims: vec![claim],
            behind_tap: None,
            groups: None,
        })
    }
}

/// Whether frames of the interface are such as the stack has.
fn check(link: &Link) -> io::Result<()> {
    let name = &link.name;
    link.check_frames("AF_PACKET")?;
    if !link.admin_up {
        return Err(io::Error::new(
            io::ErrorKind::NetworkDown,
            format!("AF_PACKET on {name}: the interface is down; `ip link set {name} up`"),
        ));
    }
    if link.state == OperState::Down {
        log::warn!(
            "AF_PACKET on {name}: no carrier: nothing comes or goes until the cable or the peer is there (`ip link show {name}`)"
        );
    }
    Ok(())
}

/// The name of an address on this interface.
fn key(link: &Link, address: IpAddr) -> String {
    format!("mtcp/packet/{}/{address}", link.index)
}

/// Keeps other processes of this network namespace from an address on this interface: two stacks
/// with one address would reset each other's connections.
fn claim(link: &Link, address: IpAddr) -> io::Result<OwnedFd> {
    let name = &link.name;
    let claimed = unique(&key(link, address))
        .map_err(|error| explain(name, "claim an address on it", error))?;
    claimed.ok_or_else(|| {
        if is_link_local(address) {
            // Of those that stacks give themselves each takes another.
            return in_use((address, link.mac), name);
        }
        io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "AF_PACKET on {name}: another program has {address} there: end it, or choose another address"
            ),
        )
    })
}

/// A name that only one socket of this network namespace can have, while that lives. `None`: one
/// has it.
fn unique(key: &str) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let name = SocketAddrUnix::new_abstract_name(key.as_bytes())?;
    match bind(&socket, &name) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::ADDRINUSE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Says what comes of joined frames for which the kernel has little room.
fn tell_few_long(name: &str) {
    log::warn!(
        "AF_PACKET on {name}: without CAP_NET_ADMIN the kernel holds few of the frames that it joined, and bulk data is slow: add cap_net_admin, \
         or `sysctl net.core.rmem_max=4194304`, or `ethtool -K {name} gro off`"
    );
}

/// One that receives nothing until it has a ring and its filter, and whether the kernel holds
/// enough of what it joins.
fn socket(link: &Link) -> io::Result<(OwnedFd, bool)> {
    let name = &link.name;
    let socket =
        packet_socket::open().map_err(|error| explain(name, "make a packet socket", error))?;
    sys::attach_filter(socket.as_fd(), &filter::NOTHING)
        .map_err(|error| explain(name, "choose frames", error))?;
    let holds_long =
        ring::prepare(socket.as_fd()).map_err(|error| explain(name, "set its options", error))?;
    if let Err(error) = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER) {
        log::debug!("SO_SNDBUFFORCE of a packet socket: {error}");
    }
    packet_socket::bind(socket.as_fd(), link.index, packet_socket::ALL)
        .map_err(|error| explain(name, "bind to it", error))?;
    Ok((socket, holds_long))
}

/// Makes a socket a member of a fanout group, by flow; of a new one if there is none yet. Returns
/// the group.
fn join(socket: &OwnedFd, group: Option<u16>) -> io::Result<u16> {
    let unique = match group {
        Some(_) => 0,
        None => libc::PACKET_FANOUT_FLAG_UNIQUEID,
    };
    let kind = libc::PACKET_FANOUT_HASH | unique;
    let argument = u32::from(group.unwrap_or(0)) | kind << 16;
    packet_socket::set(socket.as_fd(), libc::PACKET_FANOUT, &argument)?;
    if let Some(group) = group {
        return Ok(group);
    }
    let mut joined: u32 = 0;
    let fanout = (libc::SOL_PACKET, libc::PACKET_FANOUT);
    // SAFETY: any bytes are a number.
    unsafe { sys::option(socket.as_fd(), fanout, &mut joined) }?;
    // The low half is the group.
    Ok(joined as u16)
}

/// `cause` while doing `what`, with a remedy where one is known.
fn explain(interface: &str, what: impl Display, cause: impl Into<io::Error>) -> io::Error {
    let cause = cause.into();
    let remedy = match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (it needs CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep PROGRAM`)"
        }
        Some(libc::ENOMEM | libc::ENOBUFS) => " (raise the cgroup's memory)",
        Some(libc::EMFILE) => " (raise the limit of open files: `ulimit -n 1024`)",
        Some(libc::EAFNOSUPPORT) => " (this kernel is built without CONFIG_PACKET)",
        Some(libc::ENODEV | libc::ENXIO) => " (the interface is gone: see `ip link`)",
        _ => "",
    };
    context::error(
        format_args!("AF_PACKET on {interface}: cannot {what}{remedy}"),
        cause,
    )
}
