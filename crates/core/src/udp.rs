//! UDP: nothing listens here, and whoever sends is told so (RFC 1122 §4.1.3.1).

use wire::frame::RxChecksum;
use wire::udp::{UdpHeader, verify_checksum};

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::icmp::Unreachable;
use crate::ip::Net;
use crate::ip::packet::{Arrival, Packet};

impl Net {
    /// Answers a datagram with "port unreachable". Returns why it was dropped.
    /// RFC 1122 §4.1.3.1-1.
    pub(crate) fn udp(
        &mut self,
        at: &Arrival,
        packet: &Packet<'_>,
        counters: &mut Counters,
    ) -> DropReason {
        let is_valid = match at.checksum {
            RxChecksum::Trusted => UdpHeader::parse(&packet.payload).is_ok(),
            RxChecksum::Unverified => {
                verify_checksum(packet.src, packet.dst, &packet.payload).is_ok()
            }
        };
        if !is_valid {
            return DropReason::UdpMalformed;
        }
        if packet.is_unicast() {
            self.errors(at.now, counters)
                .unreachable(packet, Unreachable::Port);
        }
        DropReason::UdpNoPort
    }
}
