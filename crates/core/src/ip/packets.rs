//! Frames that the stack itself answers with: a bounded pool, allocated once, touched as it is
//! used.

use std::io;

use wire::frame::MacAddr;

use crate::id::PortId;
use crate::list::{Link, List};

/// Frames in the pool.
const COUNT: u32 = 512;
/// Kept for neighbour resolution, without which nothing else can be sent.
const RESERVED: u32 = 64;
/// Most frames that wait for resolution at a time, over all neighbours.
const MAX_WAITING: u32 = 192;
/// Most frames that wait for one neighbour (RFC 1122 §2.3.2.2 wants at least the latest one).
const MAX_WAITING_EACH: u32 = 3;
/// Room for one frame, in bytes.
pub const FRAME_LEN: usize = 2048;

/// Who asks for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Neighbour resolution: may use the whole pool.
    Resolution,
    /// Everything else.
    Reply,
}

/// The pool, a queue of frames ready to be sent for each port, and one of waiting frames for each
/// neighbour.
pub struct Packets {
    bytes: Vec<u8>,
    len: Vec<u16>,
    links: Vec<Link>,
    free: List,
    ready: Vec<List>,
    /// By slot of the neighbour cache.
    waiting: Vec<List>,
    waiting_total: u32,
}

impl std::fmt::Debug for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packets")
            .field("free", &self.free.len())
            .field("waiting", &self.waiting_total)
            .finish_non_exhaustive()
    }
}

impl Packets {
    /// For `ports` ports and the slots `0..neighbours` of the neighbour cache.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(ports: usize, neighbours: u32) -> io::Result<Self> {
        let mut waiting = Vec::new();
        waiting.try_reserve_exact(neighbours as usize)?;
        waiting.resize(neighbours as usize, List::new());
        let mut links = vec![Link::NEW; COUNT as usize];
        let mut free = List::new();
        for id in 0..COUNT {
            free.push_back(&mut links, id);
        }
        Ok(Self {
            bytes: vec![0; COUNT as usize * FRAME_LEN],
            len: vec![0; COUNT as usize],
            links,
            free,
            ready: vec![List::new(); ports],
            waiting,
            waiting_total: 0,
        })
    }

    /// Takes a frame from the pool and lets `fill` write it, which returns its length or 0 to give
    /// up. The result is to be given to [`send`](Self::send), [`wait`](Self::wait) or
    /// [`free`](Self::free). `None` if the pool is used up or `fill` gave up.
    pub fn compose(&mut self, class: Class, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<u32> {
        if class == Class::Reply && self.free.len() <= RESERVED {
            return None;
        }
        let id = self.free.pop_front(&mut self.links)?;
        let len = fill(self.bytes_mut(id));
        if len == 0 || len > FRAME_LEN {
            self.free(id);
            return None;
        }
        self.len[id as usize] = len as u16;
        Some(id)
    }

    /// All room of a frame.
    pub fn bytes_mut(&mut self, id: u32) -> &mut [u8] {
        let start = id as usize * FRAME_LEN;
        self.bytes
            .get_mut(start..start + FRAME_LEN)
            .unwrap_or_default()
    }

    /// The frame as it was filled in.
    pub fn frame(&self, id: u32) -> &[u8] {
        let start = id as usize * FRAME_LEN;
        let len = self.len.get(id as usize).copied().unwrap_or_default();
        self.bytes
            .get(start..start + usize::from(len))
            .unwrap_or_default()
    }

    /// Puts a frame back into the pool.
    pub fn free(&mut self, id: u32) {
        // To the front: its memory is warm, and memory never needed is never touched.
        self.free.push_front(&mut self.links, id);
    }

    /// Queues a complete frame on `port`.
    pub fn send(&mut self, port: PortId, id: u32) {
        match self.ready.get_mut(usize::from(port.0)) {
            Some(ready) => {
                ready.push_back(&mut self.links, id);
            }
            None => self.free(id),
        }
    }

    /// The same, once it is known where it goes: writes its destination.
    pub fn send_to(&mut self, port: PortId, mac: MacAddr, id: u32) {
        if let Some(dst) = self.bytes_mut(id).first_chunk_mut::<6>() {
            *dst = mac.0;
        }
        self.send(port, id);
    }

    /// The next frame to be sent on `port`; it stays queued until [`sent`](Self::sent).
    pub fn next_ready(&self, port: PortId) -> Option<u32> {
        self.ready.get(usize::from(port.0))?.front()
    }

    /// Frees the frame that [`next_ready`](Self::next_ready) returned.
    pub fn sent(&mut self, port: PortId) {
        if let Some(id) = self
            .ready
            .get_mut(usize::from(port.0))
            .and_then(|ready| ready.pop_front(&mut self.links))
        {
            self.free(id);
        }
    }

    /// Lets a frame wait for the neighbour in `slot`. Returns how many frames had to be dropped for
    /// it: the oldest one of this neighbour, or `id` itself if too many wait elsewhere.
    pub fn wait(&mut self, slot: u32, id: u32) -> u32 {
        let Some(queue) = self.waiting.get_mut(slot as usize) else {
            self.free(id);
            return 1;
        };
        let dropped = if queue.len() >= MAX_WAITING_EACH {
            queue.pop_front(&mut self.links)
        } else {
            None
        };
        if dropped.is_none() && self.waiting_total >= MAX_WAITING {
            self.free(id);
            return 1;
        }
        queue.push_back(&mut self.links, id);
        match dropped {
            Some(oldest) => {
                self.free(oldest);
                1
            }
            None => {
                self.waiting_total += 1;
                0
            }
        }
    }

    /// Takes a frame that waits for the neighbour in `slot`.
    pub fn pop_waiting(&mut self, slot: u32) -> Option<u32> {
        let id = self
            .waiting
            .get_mut(slot as usize)?
            .pop_front(&mut self.links)?;
        self.waiting_total = self.waiting_total.saturating_sub(1);
        Some(id)
    }

    /// Whether every frame is in the pool.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.free.len() == COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(packets: &mut Packets, byte: u8) -> Option<u32> {
        packets.compose(Class::Reply, |frame| {
            frame[0] = byte;
            1
        })
    }

    #[test]
    fn replies_leave_room_for_resolution() {
        let mut packets = Packets::new(1, 1).unwrap();
        let mut replies = 0;
        while let Some(id) = one(&mut packets, 0) {
            packets.send(PortId(0), id);
            replies += 1;
        }
        assert_eq!(replies, COUNT - RESERVED);
        assert!(packets.compose(Class::Resolution, |_| 60).is_some());
    }

    #[test]
    fn frames_leave_in_order_and_come_back() {
        let mut packets = Packets::new(1, 1).unwrap();
        for byte in 0..3 {
            let id = one(&mut packets, byte).unwrap();
            packets.send(PortId(0), id);
        }
        for byte in 0..3 {
            let id = packets.next_ready(PortId(0)).unwrap();
            assert_eq!(packets.frame(id), [byte]);
            packets.sent(PortId(0));
        }
        assert!(packets.next_ready(PortId(0)).is_none() && packets.is_idle());
    }

    #[test]
    fn what_cannot_be_sent_is_freed() {
        let mut packets = Packets::new(1, 1).unwrap();
        assert_eq!(packets.compose(Class::Reply, |_| 0), None);
        assert_eq!(packets.compose(Class::Reply, |_| FRAME_LEN + 1), None);
        let id = one(&mut packets, 0).unwrap();
        packets.send(PortId(1), id);
        let id = one(&mut packets, 0).unwrap();
        assert_eq!(packets.wait(1, id), 1);
        assert!(packets.is_idle());
    }

    #[test]
    fn the_oldest_waiting_frame_makes_room() {
        let mut packets = Packets::new(1, 100).unwrap();
        for byte in 0..5 {
            let id = one(&mut packets, byte).unwrap();
            assert_eq!(packets.wait(0, id), u32::from(byte >= 3));
        }
        let id = packets.pop_waiting(0).unwrap();
        assert_eq!(packets.frame(id), [2]);
        packets.free(id);
        let mut dropped = 0;
        for slot in 1..100 {
            for _ in 0..3 {
                let id = one(&mut packets, 0).unwrap();
                dropped += packets.wait(slot, id);
            }
        }
        assert_eq!(dropped, 99 * 3 - (MAX_WAITING - 2));
        for slot in 0..100 {
            while let Some(id) = packets.pop_waiting(slot) {
                packets.free(id);
            }
        }
        assert!(packets.is_idle() && packets.waiting_total == 0);
    }
}
