//! A link to ourselves, for programs whose both ends are in one process: a frame that we send to
//! our own address comes back. All others, which would ask on a real link who else is there, are
//! gone.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use wire::ethernet::EthernetHeader;
use wire::frame::{
    BURST, Capabilities, FrameSink, LINK_HEADERS, MacAddr, RxChecksum, RxFrame, RxMeta, TxMeta,
};
use wire::time::Instant;

use crate::Port;
use crate::poll;

/// Largest IP packet, in bytes: that of large frames, which memory for 1024 of them is not too much
/// for.
const MTU: u16 = 9000;
/// Frames on their way, at most.
const SLOTS: usize = 1024;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0]);

/// One frame.
#[derive(Debug)]
struct Parcel {
    bytes: Box<[u8]>,
    len: usize,
}

/// The link.
#[derive(Debug, Default)]
pub struct LoopPort {
    frames: VecDeque<Parcel>,
    spare: Vec<Parcel>,
    /// The burst being lent.
    lent: Vec<Parcel>,
    lost: u64,
    /// When the turn began.
    now: Instant,
}

impl LoopPort {
    /// With nothing on its way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is on its way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// What it can do.
    pub const CAPABILITIES: Capabilities = Capabilities {
        mtu: MTU,
        queues: 1,
        tx_checksum: true,
        tx_gso: 0,
        loops: true,
    };

    /// Our hardware address on it.
    pub const MAC: MacAddr = MAC;

    fn free_frame(&mut self) -> Option<Parcel> {
        if self.frames.len() >= SLOTS {
            return None;
        }
        let new = || Parcel {
            bytes: vec![0; usize::from(MTU) + LINK_HEADERS].into_boxed_slice(),
            len: 0,
        };
        Some(self.spare.pop().unwrap_or_else(new))
    }
}

fn is_for_us(frame: &[u8]) -> bool {
    EthernetHeader::parse(frame).is_ok_and(|(header, _)| header.dst == MAC)
}

impl FrameSink for LoopPort {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(mut parcel) = self.free_frame() else {
            return false;
        };
        parcel.len = fill(&mut parcel.bytes).len;
        if parcel.bytes.get(..parcel.len).is_some_and(is_for_us) {
            self.frames.push_back(parcel);
        } else {
            self.lost += 1;
            self.spare.push(parcel);
        }
        true
    }
}

impl Port for LoopPort {
    fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let n = self.frames.len().min(BURST);
        self.lent.extend(self.frames.drain(..n));
        if n == 0 {
            return 0;
        }
        // It never leaves our memory.
        let meta = RxMeta {
            checksum: RxChecksum::Trusted,
            ..RxMeta::default()
        };
        let mut frames = [RxFrame { bytes: &[], meta }; BURST];
        for (frame, parcel) in frames.iter_mut().zip(&self.lent) {
            frame.bytes = parcel.bytes.get(..parcel.len).unwrap_or_default();
        }
        each(frames.get(..n).unwrap_or_default());
        self.spare.append(&mut self.lent);
        n
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if !self.frames.is_empty() {
            return Ok(());
        }
        poll::woken(wake, timeout)
    }

    fn prepare_wait(&mut self, _: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        Ok((!self.frames.is_empty()).then_some(Duration::ZERO))
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.frames.is_empty()).then_some(self.now)
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn mac(&self) -> MacAddr {
        MAC
    }

    fn losses(&self) -> (u64, u64) {
        (0, self.lost)
    }
}

#[cfg(test)]
mod tests {
    use wire::frame::TxChecksum;

    use super::*;

    fn send(port: &mut LoopPort, to: MacAddr, mark: u8) -> bool {
        port.send(|frame| {
            frame[..6].copy_from_slice(&to.0);
            frame[6..12].copy_from_slice(&MAC.0);
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14] = mark;
            TxMeta {
                len: 60,
                checksum: TxChecksum::Complete,
                segment: 0,
            }
        })
    }

    fn receive(port: &mut LoopPort) -> Vec<u8> {
        let mut marks = Vec::new();
        port.receive(|frames| marks.extend(frames.iter().map(|frame| frame.bytes[14])));
        marks
    }

    #[test]
    fn what_is_for_us_comes_back_in_order() {
        let mut port = LoopPort::new();
        assert!(send(&mut port, MAC, 1));
        assert!(send(&mut port, MacAddr([0xff; 6]), 2));
        assert!(send(&mut port, MAC, 3));
        assert_eq!(receive(&mut port), [1, 3]);
        assert!(receive(&mut port).is_empty());
        assert_eq!(port.losses(), (0, 1));
    }

    #[test]
    fn there_is_room_for_so_many_and_again_later() {
        let mut port = LoopPort::new();
        let sent = (0..2 * SLOTS).filter(|_| send(&mut port, MAC, 0)).count();
        assert_eq!(sent, SLOTS);
        assert_eq!(receive(&mut port).len(), BURST);
        assert!(send(&mut port, MAC, 0));
    }

    #[test]
    fn nobody_sleeps_on_frames() {
        let mut port = LoopPort::new();
        assert_eq!(port.prepare_wait(&mut Vec::new()).unwrap(), None);
        send(&mut port, MAC, 0);
        let most = port.prepare_wait(&mut Vec::new()).unwrap();
        assert_eq!(most, Some(Duration::ZERO));
        assert!(port.next_deadline().is_some());
        port.wait(None, None).unwrap();
    }
}
