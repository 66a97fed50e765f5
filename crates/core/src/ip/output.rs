//! From the stack to frames: headers, the stack's own packets, and the way to the port.

use std::net::IpAddr;

use wire::ethernet::EthernetHeader;
use wire::frame::{FrameSink, MacAddr, TxChecksum, TxMeta};
use wire::ip::Protocol;
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;
use crate::neigh::cache::Lookup;

use super::envelope::{Envelope, To, headers_len};
use super::links::Links;
use super::packets::{Class, FRAME_LEN};
use super::path::Path;

impl Links {
    /// Writes the Ethernet and IP header for `payload_len` bytes from the path's source to `dst`,
    /// with the ECN bits `ecn`, and returns where the payload starts; 0 if the frame is too short.
    /// RFC 9293 SHLD-22.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one header field each")]
    pub fn write_headers(
        &self,
        frame: &mut [u8],
        path: &Path,
        mac: MacAddr,
        dst: IpAddr,
        protocol: Protocol,
        payload_len: usize,
        ecn: u8,
    ) -> usize {
        let Some(link) = self.addresses().link(path.port) else {
            return 0;
        };
        let tos = path.class & !3 | ecn & 3;
        Envelope::along(path, dst, protocol).emit(frame, link.mac, mac, payload_len, tos)
    }

    /// Queues a small packet that no connection keeps (RST, challenge ACK), whose checksum is
    /// complete. It waits if the neighbour has to be asked for; it is dropped and counted if the
    /// pool is empty.
    pub fn send_packet(
        &mut self,
        now: Instant,
        path: &Path,
        dst: IpAddr,
        protocol: Protocol,
        payload: &[u8],
        counters: &mut Counters,
    ) {
        let envelope = Envelope::along(path, dst, protocol);
        self.send_filled(
            now,
            &envelope,
            Class::Reply,
            payload.len(),
            counters,
            |body| body.copy_from_slice(payload),
        );
    }

    /// Queues a packet whose payload of `len` bytes `fill` writes. True if it was queued; dropped
    /// and counted otherwise.
    pub(crate) fn send_filled(
        &mut self,
        now: Instant,
        envelope: &Envelope,
        class: Class,
        len: usize,
        counters: &mut Counters,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(link) = self.addresses().link(envelope.port) else {
            return false;
        };
        if len > self.payload_room(envelope) {
            counters.drop(DropReason::ReplyTooLong);
            return false;
        }
        let our_mac = link.mac;
        let frame = self.packets.compose(class, |frame| {
            let start = envelope.emit(frame, our_mac, MacAddr::default(), len, 0);
            match frame.get_mut(start..start + len) {
                Some(body) if start != 0 => {
                    fill(body);
                    start + len
                }
                _ => 0,
            }
        });
        match frame {
            Some(id) => self.dispatch(now, envelope.port, envelope.to, id, counters),
            None => {
                counters.drop(DropReason::ReplyQueueFull);
                false
            }
        }
    }

    /// Most payload of a packet that the stack itself sends: what its frames hold, and the link
    /// takes.
    pub(crate) fn payload_room(&self, envelope: &Envelope) -> usize {
        let mtu = self
            .addresses()
            .link(envelope.port)
            .map_or(0, |link| usize::from(link.capabilities.mtu));
        let longest = FRAME_LEN.min(mtu + EthernetHeader::LEN);
        longest.saturating_sub(headers_len(envelope.dst))
    }

    /// Queues a composed frame on its port, or at the neighbour that has to be asked for.
    /// RFC 1122 §2.3.2-3; RFC 4861 §7.2.2-1.
    fn dispatch(
        &mut self,
        now: Instant,
        port: PortId,
        to: To,
        id: u32,
        counters: &mut Counters,
    ) -> bool {
        let lookup = match to {
            To::Mac(mac) => Lookup::Ready(mac),
            To::NextHop(addr) => self.lookup(now, port, addr, counters),
        };
        match lookup {
            Lookup::Ready(mac) => {
                self.packets.send_to(port, mac, id);
                true
            }
            Lookup::Pending { slot, .. } => {
                counters.drops[DropReason::NeighbourQueueFull as usize] +=
                    u64::from(self.packets.wait(slot, id));
                true
            }
            Lookup::Failed => {
                counters.drop(DropReason::NeighbourFailed);
                self.packets.free(id);
                false
            }
        }
    }

    /// Queues a frame that `fill` writes from its Ethernet header on.
    pub(crate) fn send_frame(
        &mut self,
        port: PortId,
        counters: &mut Counters,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        match self.packets.compose(Class::Resolution, fill) {
            Some(id) => {
                self.packets.send(port, id);
                true
            }
            None => {
                counters.drop(DropReason::ReplyQueueFull);
                false
            }
        }
    }

    /// Whether packets of the stack's own wait for [`transmit`](Self::transmit).
    pub fn has_output(&self, port: PortId) -> bool {
        self.packets.next_ready(port).is_some()
    }

    /// Writes the stack's own packets for `port` into frames of `sink`, until none are left or the
    /// sink is full.
    pub fn transmit(&mut self, port: PortId, sink: &mut impl FrameSink, counters: &mut Counters) {
        while let Some(id) = self.packets.next_ready(port) {
            let packet = self.packets.frame(id);
            let sent = sink.send(|frame| match frame.get_mut(..packet.len()) {
                Some(frame) => {
                    frame.copy_from_slice(packet);
                    TxMeta {
                        len: packet.len(),
                        checksum: TxChecksum::Complete,
                        segment: 0,
                    }
                }
                // The port lends less than it promised.
                None => TxMeta::default(),
            });
            if !sent {
                return;
            }
            counters.frames_out += 1;
            counters.bytes_out += packet.len() as u64;
            self.packets.sent(port);
        }
    }
}
