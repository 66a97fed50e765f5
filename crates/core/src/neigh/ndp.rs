//! Neighbor Discovery (RFC 4861), and Duplicate Address Detection (RFC 4862) that does not wait.

use std::net::{IpAddr, Ipv6Addr};

use wire::frame::MacAddr;
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv6::Ipv6Header;
use wire::ndp::{
    NdpMessage, NeighborAdvertisement, NeighborSolicitation, RouterAdvertisement, multicast_mac,
    solicited_node,
};
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;
use crate::ip::packet::Arrival;
use crate::ip::{Class, Envelope, Links, To, is_host_address};
use crate::neigh::cache::Advertisement;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// RFC 4861 §7.1: proves that no router passed it on.
const HOP_LIMIT: u8 = 255;

impl Links {
    /// RFC 4861 §7.1-1.
    pub(crate) fn ndp(
        &mut self,
        at: &Arrival,
        hop_limit: u8,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &NdpMessage,
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        counters.ndp_in += 1;
        if hop_limit != HOP_LIMIT {
            return Err(DropReason::NdpInvalid);
        }
        match message {
            NdpMessage::NeighborSolicitation(message) => {
                self.on_solicitation(at, src, dst, message, counters)
            }
            NdpMessage::NeighborAdvertisement(message) => {
                self.on_advertisement(at, src, dst, message, counters)
            }
            NdpMessage::RouterAdvertisement(message) => {
                self.on_router_advertisement(at, src, message, counters)
            }
            // Routes are configured: nobody on the link can change them.
            NdpMessage::RouterSolicitation(_) | NdpMessage::Redirect(_) => {
                Err(DropReason::NdpRouter)
            }
        }
    }

    /// RFC 4861 §7.1.1, §7.2.3, §7.2.4.
    /// RFC 4861 §7.2.4-1.
    fn on_solicitation(
        &mut self,
        at: &Arrival,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &NeighborSolicitation,
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        let &NeighborSolicitation {
            target,
            source_lladdr,
            nonce: _,
        } = message;
        let is_probe = src.is_unspecified();
        let bad_probe = is_probe && (source_lladdr.is_some() || dst != solicited_node(target));
        if bad_probe
            || source_lladdr.is_some_and(MacAddr::is_multicast)
            || !(is_probe || is_host_address(src.into()))
        {
            return Err(DropReason::NdpInvalid);
        }
        if !self
            .addresses()
            .link(at.port)
            .is_some_and(|link| link.has(target.into()))
        {
            return Err(DropReason::NdpIgnored);
        }
        if is_probe {
            if self.claims.is_tentative(at.port, target.into()) {
                // RFC 4862 §5.4.3: both of us are about to take it.
                self.conflict(at, target.into(), counters);
            }
            self.advertise(
                at.now,
                at.port,
                target,
                ALL_NODES,
                To::Mac(multicast_mac(ALL_NODES)),
                counters,
            );
            return Ok(());
        }
        if let Some(mac) = source_lladdr {
            self.meet(at, src.into(), mac, counters);
        }
        let to = source_lladdr.map_or(To::NextHop(src.into()), To::Mac);
        self.advertise(at.now, at.port, target, src, to, counters);
        Ok(())
    }

    /// RFC 4861 §6.1.2, §6.3.4: it says where a router is, which may have moved. Routes are
    /// configured: nobody on the link can change them.
    fn on_router_advertisement(
        &mut self,
        at: &Arrival,
        src: Ipv6Addr,
        message: &RouterAdvertisement,
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        if !src.is_unicast_link_local() || message.source_lladdr.is_some_and(MacAddr::is_multicast)
        {
            return Err(DropReason::NdpInvalid);
        }
        let Some(mac) = message
            .source_lladdr
            .filter(|_| !self.routing.is_local(src.into()))
        else {
            return Err(DropReason::NdpRouter);
        };
        let advertisement = Advertisement {
            mac: Some(mac),
            solicited: false,
            override_flag: true,
        };
        let known = self
            .neighbours
            .advertise(at.now, at.port, src.into(), advertisement);
        self.settle(counters);
        if known {
            Ok(())
        } else {
            Err(DropReason::NdpRouter)
        }
    }

    /// RFC 4861 §7.1.2, §7.2.5; RFC 4862 §5.4.4.
    fn on_advertisement(
        &mut self,
        at: &Arrival,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &NeighborAdvertisement,
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        let &NeighborAdvertisement {
            router: _,
            solicited,
            override_flag,
            target,
            target_lladdr,
        } = message;
        let bad_lladdr = target_lladdr.is_some_and(MacAddr::is_multicast);
        if bad_lladdr
            || solicited && dst.is_multicast()
            || !is_host_address(src.into())
            || !is_host_address(target.into())
        {
            return Err(DropReason::NdpInvalid);
        }
        if self.routing.is_local(target.into()) {
            self.conflict(at, target.into(), counters);
            return Err(DropReason::NdpIgnored);
        }
        let advertisement = Advertisement {
            mac: target_lladdr,
            solicited,
            override_flag,
        };
        let known = self
            .neighbours
            .advertise(at.now, at.port, target.into(), advertisement);
        self.settle(counters);
        if known {
            Ok(())
        } else {
            Err(DropReason::NdpIgnored)
        }
    }

    /// A packet came from an address of ours. If it is an advertisement of that address, another
    /// host has it (RFC 4862 §5.4.4). All else about such packets is none of our business.
    pub(crate) fn ndp_from_our_address(
        &mut self,
        at: &Arrival,
        header: &Ipv6Header,
        payload: &[u8],
        counters: &mut Counters,
    ) {
        if header.next_header != Protocol::ICMPV6 || header.hop_limit != HOP_LIMIT {
            return;
        }
        let message = Icmpv6Message::parse(header.src, header.dst, payload);
        if let Ok(Icmpv6Message::Ndp(NdpMessage::NeighborAdvertisement(message))) = message
            && self.routing.is_local(message.target.into())
        {
            self.conflict(at, message.target.into(), counters);
        }
    }

    /// Answers a solicitation: to the one who asked, or to all if that one has no address yet
    /// (RFC 4861 §7.2.4).
    fn advertise(
        &mut self,
        now: Instant,
        port: PortId,
        target: Ipv6Addr,
        dst: Ipv6Addr,
        to: To,
        counters: &mut Counters,
    ) {
        let Some(mac) = self.addresses().link(port).map(|link| link.mac) else {
            return;
        };
        let message = NeighborAdvertisement {
            router: false,
            solicited: !dst.is_multicast(),
            // RFC 4429 §3.3: an optimistic address must not replace anybody's.
            override_flag: !self.claims.is_tentative(port, target.into()),
            target,
            target_lladdr: Some(mac),
        };
        let route = Route {
            port,
            to,
            src: target,
            dst,
        };
        self.send_ndp(
            now,
            route,
            NdpMessage::NeighborAdvertisement(message),
            counters,
        );
    }

    /// Asks for the hardware address of a neighbour: all who might have the address, or (to confirm
    /// it) the one who had it (§7.2.2, §7.3.3).
    pub(super) fn solicit_ndp(
        &mut self,
        now: Instant,
        port: PortId,
        target: Ipv6Addr,
        to: Option<MacAddr>,
        counters: &mut Counters,
    ) {
        let Some(IpAddr::V6(src)) = self.addresses().source_for(port, target.into()) else {
            return;
        };
        let group = solicited_node(target);
        let (dst, mac) = to.map_or((group, multicast_mac(group)), |mac| (target, mac));
        // An address is the operator's word, assigned at once as RFC 4862 §5.1 allows. Linux does
        // not answer a question asked of a group without a hardware address (RFC 4429 §3.2), so the
        // first second would be lost. A conflict is noticed all the same.
        let source_lladdr = self.addresses().link(port).map(|link| link.mac);
        let message = NeighborSolicitation {
            target,
            source_lladdr,
            nonce: None,
        };
        let route = Route {
            port,
            to: To::Mac(mac),
            src,
            dst,
        };
        self.send_ndp(
            now,
            route,
            NdpMessage::NeighborSolicitation(message),
            counters,
        );
    }

    /// RFC 4862 §5.4.2.
    pub(super) fn probe_ndp(
        &mut self,
        now: Instant,
        port: PortId,
        addr: Ipv6Addr,
        counters: &mut Counters,
    ) {
        let message = NeighborSolicitation {
            target: addr,
            source_lladdr: None,
            nonce: None,
        };
        let dst = solicited_node(addr);
        let route = Route {
            port,
            to: To::Mac(multicast_mac(dst)),
            src: Ipv6Addr::UNSPECIFIED,
            dst,
        };
        self.send_ndp(
            now,
            route,
            NdpMessage::NeighborSolicitation(message),
            counters,
        );
    }

    /// RFC 4861 §7.2.6: neighbours that knew the address elsewhere learn it anew.
    pub(super) fn claim_ndp(
        &mut self,
        now: Instant,
        port: PortId,
        addr: Ipv6Addr,
        counters: &mut Counters,
    ) {
        self.advertise(
            now,
            port,
            addr,
            ALL_NODES,
            To::Mac(multicast_mac(ALL_NODES)),
            counters,
        );
    }

    fn send_ndp(
        &mut self,
        now: Instant,
        route: Route,
        message: NdpMessage,
        counters: &mut Counters,
    ) {
        let Route { port, to, src, dst } = route;
        let envelope = Envelope {
            port,
            to,
            src: src.into(),
            dst: dst.into(),
            protocol: Protocol::ICMPV6,
            hop_limit: HOP_LIMIT,
        };
        let message = Icmpv6Message::Ndp(message);
        let sent = self.send_filled(
            now,
            &envelope,
            Class::Resolution,
            message.len(),
            counters,
            |body| {
                message.emit(src, dst, body);
            },
        );
        counters.ndp_out += u64::from(sent);
    }
}

/// How a message travels.
struct Route {
    port: PortId,
    to: To,
    src: Ipv6Addr,
    dst: Ipv6Addr,
}
