//! What the kernel tells of its neighbours as it learns it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libc::sock_filter;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, netlink, socket_with};

use super::tables::{Neighbour, neighbour};
use crate::sys;

/// A socket to which the kernel tells what it learns of neighbours, of which the filter takes what
/// is to be heard. Only the kernel, and who may configure the network, can send to it (netlink(7)).
pub(crate) fn socket(filter: &[sock_filter]) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::NETLINK;
    // Without a protocol it is NETLINK_ROUTE.
    let socket = socket_with(family, SocketType::RAW, flags, None)?;
    sys::attach_filter(socket.as_fd(), filter)?;
    let groups = libc::RTMGRP_NEIGH.cast_unsigned();
    bind(&socket, &netlink::SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// The neighbour that a datagram tells of, if it says where one is.
pub(crate) fn told(datagram: &[u8]) -> Option<Neighbour> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    match message.payload {
        NetlinkPayload::InnerMessage(message) => neighbour(message),
        _ => None,
    }
}
