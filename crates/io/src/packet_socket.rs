//! Packet sockets (packet(7)): how they are opened, and the groups that an interface listens to for
//! one.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::c_int;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::ethernet::EtherType;
use wire::frame::MacAddr;
use wire::ndp::{multicast_mac, solicited_node};

use crate::netlink::Link;
use crate::{ours, sys};

/// Every protocol (`ETH_P_ALL`).
pub(crate) const ALL: EtherType = EtherType(libc::ETH_P_ALL as u16);
/// None: such a socket receives nothing.
pub(crate) const NONE: EtherType = EtherType(0);

/// A packet socket that receives nothing until it is bound to a protocol: nothing comes that its
/// filter did not see.
///
/// # Errors
/// No right to (CAP_NET_RAW), or no packet sockets in this kernel.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        flags,
        None,
    )?)
}

/// Has frames of `protocol` come from the interface with this index, and others go to it.
pub(crate) fn bind(socket: BorrowedFd<'_>, interface: u32, protocol: EtherType) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.0.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    sys::bind(socket, &address)
}

/// Sets an option of the level `SOL_PACKET`.
pub(crate) fn set<T: Copy>(socket: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    sys::set_option(socket, (libc::SOL_PACKET, name), value)
}

/// What keeps the interface listening to our groups. Without it, those interfaces let questions for
/// our IPv6 addresses pass that let all multicast frames pass: a veth pair, and any that is
/// promiscuous.
pub(crate) fn groups(interface: &str, index: u32, addresses: &[IpAddr]) -> Option<OwnedFd> {
    join_groups(index, addresses).unwrap_or_else(|error| {
        log::warn!(
            "{interface}: cannot listen to neighbour solicitations: {error}: going on without: if neighbours do not find our IPv6 addresses, \
             `ip link set {interface} allmulticast on`"
        );
        None
    })
}

/// Has the device receive neighbour solicitations for our IPv6 addresses (RFC 4291 section 2.7.1,
/// RFC 2464 section 7) while the socket lives. The socket itself receives nothing.
fn join_groups(interface: u32, addresses: &[IpAddr]) -> io::Result<Option<OwnedFd>> {
    let ours: Vec<Ipv6Addr> = ours::addresses6(addresses).collect();
    if ours.is_empty() {
        return Ok(None);
    }
    let socket = open()?;
    for address in ours {
        join(&socket, interface, address)?;
    }
    Ok(Some(socket))
}

/// Has the device receive what is sent to `mac`, too, while the socket lives, which is made if
/// there is none.
pub(crate) fn listen_as(
    socket: Option<OwnedFd>,
    link: &Link,
    mac: MacAddr,
) -> io::Result<Option<OwnedFd>> {
    if link.mac == mac {
        return Ok(socket);
    }
    let socket = socket.map_or_else(open, Ok)?;
    add_membership(&socket, link.index, libc::PACKET_MR_UNICAST, mac)?;
    Ok(Some(socket))
}

fn join(socket: &OwnedFd, interface: u32, address: Ipv6Addr) -> io::Result<()> {
    let group = multicast_mac(solicited_node(address));
    add_membership(socket, interface, libc::PACKET_MR_MULTICAST, group)
}

fn add_membership(socket: &OwnedFd, interface: u32, kind: c_int, mac: MacAddr) -> io::Result<()> {
    let [a, b, c, d, e, f] = mac.0;
    let group = libc::packet_mreq {
        mr_ifindex: i32::try_from(interface)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?,
        mr_type: kind as u16,
        mr_alen: 6,
        mr_address: [a, b, c, d, e, f, 0, 0],
    };
    set(socket.as_fd(), libc::PACKET_ADD_MEMBERSHIP, &group)
}
