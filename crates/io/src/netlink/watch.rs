//! What the kernel tells of its network as it changes, and what it is asked meanwhile.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NLM_F_CREATE, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily as Family, RecvFlags, SocketFlags, SocketType};
use rustix::net::{bind, connect, recv, socket_with};
use wire::frame::MacAddr;

use super::network::Network;
use super::request::{Asker, ROUTE, messages};

/// Bytes of one datagram: a message about a route with many next hops is the longest that the
/// kernel sends unasked. One that is longer counts as lost.
const DATAGRAM_MAX: usize = 16 << 10;
/// Datagrams that are read at a time.
const AT_ONCE: usize = 256;
/// `RTNLGRP_IPV6_RULE`, as a bit of `nl_groups`.
const IPV6_RULE: u32 = 1 << 18;
/// Links, addresses, routes and rules of both families, and neighbours.
const GROUPS: u32 = (libc::RTMGRP_LINK
    | libc::RTMGRP_NEIGH
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV4_RULE
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV6_ROUTE)
    .cast_unsigned()
    | IPV6_RULE;

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It is there.
    At {
        /// Its hardware address.
        mac: MacAddr,
        /// It answered lately, or the administrator set it.
        reachable: bool,
    },
    /// It does not answer.
    Failed,
    /// The kernel does not know it, or not any more.
    Unknown,
}

/// Something that the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Of a neighbour on the interface.
    Neighbour(IpAddr, Whereabouts),
    /// Links, addresses, routes or rules have changed: they are to be read anew.
    Network,
    /// There was more than room for it: all is to be read anew.
    Lost,
}

/// A socket to which the kernel tells what changes, and one for questions. Only the kernel can send
/// to them. Never blocks.
#[derive(Debug)]
pub struct Watcher {
    events: OwnedFd,
    asker: Asker,
    /// Of the interface whose neighbours it tells of.
    interface: u32,
    datagram: Box<[u8; DATAGRAM_MAX]>,
    news: VecDeque<News>,
}

impl Watcher {
    /// For the interface of this index. What changes from now on is told.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn new(interface: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let events = socket_with(Family::NETLINK, SocketType::RAW, flags, ROUTE)?;
        bind(&events, &SocketAddrNetlink::new(0, GROUPS))?;
        connect(&events, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self {
            events,
            asker: Asker::new(ROUTE)?,
            interface,
            datagram: Box::new([0; DATAGRAM_MAX]),
            news: VecDeque::new(),
        })
    }

    /// What becomes readable when the kernel tells something.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// The next that was told. `None`: there is no more, or there was so much that others should
    /// have their turn.
    pub fn next_news(&mut self) -> Option<News> {
        if self.news.is_empty() {
            self.read();
        }
        self.news.pop_front()
    }

    fn read(&mut self) {
        for _ in 0..AT_ONCE {
            let datagram = &mut self.datagram[..];
            match retry_on_intr(|| recv(&self.events, &mut *datagram, RecvFlags::TRUNC)) {
                Ok((read, whole)) if whole > read => self.news.push_back(News::Lost),
                Ok((read, _)) => {
                    let datagram = self.datagram.get(..read).unwrap_or_default();
                    let told = messages(datagram).filter_map(|bytes| news(bytes, self.interface));
                    for news in told {
                        // Once is enough.
                        if self.news.back() != Some(&news) {
                            self.news.push_back(news);
                        }
                    }
                }
                // netlink(7): more was told than there was room for.
                Err(Errno::NOBUFS) => self.news.push_back(News::Lost),
                Err(_) => return,
            }
        }
    }

    /// Has the kernel find a neighbour, if it does not know it yet, and keep it for a while, as one
    /// that is in use; and says what it knows now. What it finds is told later.
    ///
    /// # Errors
    /// As the kernel says: the interface is gone, or its table of neighbours is full.
    pub fn ask(&mut self, neighbour: IpAddr) -> io::Result<Whereabouts> {
        let mut message = NeighbourMessage::default();
        message.header.family = match neighbour {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.header.ifindex = self.interface;
        message.attributes = vec![NeighbourAttribute::Destination(match neighbour {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        })];
        let question = RouteNetlinkMessage::GetNeighbour(message.clone());
        message.header.flags = NeighbourFlags::Use;
        let using = RouteNetlinkMessage::NewNeighbour(message);
        self.asker.tell(using, NLM_F_CREATE)?;
        Ok(match self.asker.one(question)? {
            RouteNetlinkMessage::NewNeighbour(known) => whereabouts(&known),
            _ => Whereabouts::Unknown,
        })
    }

    /// All neighbours on the interface, of which it is known where they are, or that they do not
    /// answer.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn neighbours(&mut self) -> io::Result<Vec<(IpAddr, Whereabouts)>> {
        let question = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.asker.dump(question)?.into_iter();
        let here = answers.filter_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message)
                if message.header.ifindex == self.interface =>
            {
                Some((destination(&message)?, whereabouts(&message)))
            }
            _ => None,
        });
        Ok(here
            .filter(|(_, whereabouts)| *whereabouts != Whereabouts::Unknown)
            .collect())
    }

    /// Links, addresses, routes and rules.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn network(&mut self) -> io::Result<Network> {
        Network::read(&mut self.asker)
    }

    /// From now on tells of the neighbours of the interface of this index.
    pub fn move_to(&mut self, interface: u32) {
        self.interface = interface;
    }
}

/// What a message says.
fn news(message: &[u8], interface: u32) -> Option<News> {
    let message = match NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) {
        Ok(message) => message,
        // Whatever it is about has changed.
        Err(_) => return Some(News::Network),
    };
    let NetlinkPayload::InnerMessage(message) = message.payload else {
        return None;
    };
    match message {
        RouteNetlinkMessage::NewNeighbour(of) if of.header.ifindex == interface => {
            let known = whereabouts(&of);
            // It is being asked, or not yet.
            let is_news = known != Whereabouts::Unknown;
            is_news.then_some(News::Neighbour(destination(&of)?, known))
        }
        RouteNetlinkMessage::DelNeighbour(of) if of.header.ifindex == interface => {
            Some(News::Neighbour(destination(&of)?, Whereabouts::Unknown))
        }
        RouteNetlinkMessage::NewNeighbour(_) | RouteNetlinkMessage::DelNeighbour(_) => None,
        _ => Some(News::Network),
    }
}

fn destination(message: &NeighbourMessage) -> Option<IpAddr> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => Some((*v4).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => Some((*v6).into()),
            _ => None,
        })
}

fn whereabouts(message: &NeighbourMessage) -> Whereabouts {
    let mac = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                Some(MacAddr(bytes.as_slice().try_into().ok()?))
            }
            _ => None,
        });
    match (message.header.state, mac) {
        (NeighbourState::Failed, _) => Whereabouts::Failed,
        (NeighbourState::Incomplete | NeighbourState::None, _) | (_, None) => Whereabouts::Unknown,
        (state, Some(mac)) => Whereabouts::At {
            mac,
            reachable: matches!(
                state,
                NeighbourState::Reachable | NeighbourState::Permanent | NeighbourState::Noarp
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use netlink_packet_core::NetlinkHeader;
    use proptest::prelude::*;

    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn told(state: NeighbourState, has_mac: bool, is_gone: bool) -> Vec<u8> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        (message.header.ifindex, message.header.state) = (7, state);
        let destination = NeighbourAddress::Inet(NEIGHBOUR);
        let mac = NeighbourAttribute::LinkLayerAddress(MAC.to_vec());
        message.attributes = vec![NeighbourAttribute::Destination(destination)];
        message.attributes.extend(has_mac.then_some(mac));
        let message = match is_gone {
            true => RouteNetlinkMessage::DelNeighbour(message),
            false => RouteNetlinkMessage::NewNeighbour(message),
        };
        let payload = NetlinkPayload::InnerMessage(message);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    /// The states of RFC 4861 §7.3.2, as `linux/neighbour.h` has them.
    #[test]
    fn a_neighbour_can_be_sent_to_in_all_states_but_those_of_one_that_is_sought() {
        let known = |state| news(&told(state, true, false), 7);
        let at = |reachable| {
            let mac = MacAddr(MAC);
            Some(News::Neighbour(
                NEIGHBOUR.into(),
                Whereabouts::At { mac, reachable },
            ))
        };
        for state in [NeighbourState::Reachable, NeighbourState::Permanent] {
            assert_eq!(known(state), at(true), "{state:?}");
        }
        for state in [
            NeighbourState::Stale,
            NeighbourState::Delay,
            NeighbourState::Probe,
        ] {
            assert_eq!(known(state), at(false), "{state:?}");
        }
        let failed = News::Neighbour(NEIGHBOUR.into(), Whereabouts::Failed);
        assert_eq!(known(NeighbourState::Failed), Some(failed));
        assert_eq!(
            news(&told(NeighbourState::Incomplete, false, false), 7),
            None
        );
        let gone = News::Neighbour(NEIGHBOUR.into(), Whereabouts::Unknown);
        assert_eq!(
            news(&told(NeighbourState::Stale, true, true), 7),
            Some(gone)
        );
        assert_eq!(
            news(&told(NeighbourState::Reachable, true, false), 8),
            None,
            "elsewhere"
        );
    }

    proptest! {
        /// Whatever is in a datagram, it is read to its end and no further.
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for message in messages(&bytes) {
                prop_assert!(message.len() >= 16);
                let _ = news(message, 7);
            }
        }

        /// The same of messages of which some bytes are others, or the end is missing.
        #[test]
        fn damaged_messages_are_read(
            kind in 16u16..120, at in 0usize..56, byte in any::<u8>(), length in 16usize..56,
        ) {
            let mut bytes = told(NeighbourState::Reachable, true, false);
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(length);
            for message in messages(&bytes) {
                let _ = news(message, 7);
            }
            let _ = news(&bytes, 7);
        }
    }
}
