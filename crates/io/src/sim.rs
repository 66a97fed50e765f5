//! An in-process pair of ports for tests: what one sends, the other receives, in order, losing
//! nothing until it is full.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use wire::frame::{
    BURST, Capabilities, FrameSink, LINK_HEADERS, MacAddr, RxChecksum, RxFrame, RxMeta, TxChecksum,
    TxMeta,
};

use crate::{Port, poll};

/// What a simulated link is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Frames on their way in each direction, at most. When they are reached `send` answers false.
    pub slots: usize,
    /// Whether the stack may leave checksums to the link. A frame sent with [`TxChecksum::Partial`]
    /// arrives as [`RxChecksum::Trusted`], every other as unverified.
    pub tx_checksum: bool,
    /// Whether `wait` sleeps. Set to false when one thread drives both ends on virtual time: `wait`
    /// then returns at once.
    pub blocking: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            slots: 1024,
            tx_checksum: true,
            blocking: true,
        }
    }
}

/// One frame on its way.
#[derive(Debug, Default)]
struct Parcel {
    bytes: Vec<u8>,
    len: usize,
    checksum: RxChecksum,
}

#[derive(Debug, Default)]
struct Lane {
    frames: VecDeque<Parcel>,
    /// Used buffers on their way back to the sender.
    spare: Vec<Parcel>,
    receiver_sleeps: bool,
    sender_sleeps: bool,
    closed: bool,
}

/// One end's doorbell: what wakes it.
#[derive(Debug)]
struct End {
    lane_in: Mutex<Lane>,
    doorbell: OwnedFd,
}

impl End {
    fn new() -> io::Result<Self> {
        Ok(Self {
            lane_in: Mutex::default(),
            doorbell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// A panic elsewhere leaves a lane as it was between two statements: usable.
    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A full counter means that the doorbell rings already.
        let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        let _ = rustix::io::read(&self.doorbell, &mut [0u8; 8]);
    }
}

/// One end of a simulated link. See [`pair`].
#[derive(Debug)]
pub struct SimPort {
    config: SimConfig,
    mac: MacAddr,
    here: Arc<End>,
    there: Arc<End>,
    /// Sent, not yet flushed.
    outgoing: VecDeque<Parcel>,
    /// Empty frames.
    spare: Vec<Parcel>,
    /// The burst being lent.
    lent: Vec<Parcel>,
    /// Frames in the outgoing lane when last looked, as an upper bound.
    in_flight: usize,
}

/// Makes a link and returns its two ends. Their addresses are `02:00:00:00:00:01` and
/// `02:00:00:00:00:02`.
///
/// # Errors
/// Out of descriptors.
pub fn pair(config: SimConfig) -> io::Result<(SimPort, SimPort)> {
    let (a, b) = (Arc::new(End::new()?), Arc::new(End::new()?));
    let left = SimPort::new(config, 1, Arc::clone(&a), Arc::clone(&b));
    Ok((left, SimPort::new(config, 2, b, a)))
}

impl SimPort {
    fn new(config: SimConfig, number: u8, here: Arc<End>, there: Arc<End>) -> Self {
        Self {
            config,
            mac: MacAddr([2, 0, 0, 0, 0, number]),
            here,
            there,
            outgoing: VecDeque::new(),
            spare: Vec::new(),
            lent: Vec::with_capacity(BURST),
            in_flight: 0,
        }
    }

    /// Looks at how many frames are under way and takes used buffers back.
    fn refresh(&mut self) {
        let mut lane = self.there.lane();
        self.spare.append(&mut lane.spare);
        self.in_flight = lane.frames.len();
    }

    fn take_burst(&mut self) {
        let mut lane = self.here.lane();
        let n = lane.frames.len().min(BURST);
        self.lent.extend(lane.frames.drain(..n));
    }

    fn give_back(&mut self) {
        let mut lane = self.here.lane();
        lane.spare.append(&mut self.lent);
        if mem::take(&mut lane.sender_sleeps) {
            self.there.ring();
        }
    }

    fn free_frame(&mut self) -> Option<Parcel> {
        if self.in_flight + self.outgoing.len() >= self.config.slots {
            self.refresh();
            if self.in_flight + self.outgoing.len() >= self.config.slots {
                return None;
            }
        }
        let size = usize::from(self.config.mtu) + LINK_HEADERS;
        Some(self.spare.pop().unwrap_or_else(|| Parcel {
            bytes: vec![0; size],
            ..Parcel::default()
        }))
    }
}

impl SimPort {
    /// The first half of a sleep: says that a doorbell will be listened to. Returns false when
    /// there is no reason to sleep.
    fn announce_sleep(&mut self) -> io::Result<bool> {
        let full = self.in_flight >= self.config.slots;
        if full {
            let mut lane = self.there.lane();
            lane.sender_sleeps = lane.frames.len() >= self.config.slots;
            self.in_flight = lane.frames.len();
            if !lane.sender_sleeps {
                return Ok(false);
            }
        }
        let mut lane = self.here.lane();
        if !lane.frames.is_empty() || !self.config.blocking {
            return Ok(false);
        }
        if lane.closed {
            return Err(closed());
        }
        lane.receiver_sleeps = true;
        Ok(true)
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        // Nothing to report to: a port that goes away need not hear that the other has.
        let _ = self.flush();
        self.there.lane().closed = true;
        self.here.lane().closed = true;
        self.there.ring();
    }
}

impl FrameSink for SimPort {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(mut parcel) = self.free_frame() else {
            return false;
        };
        let meta = fill(&mut parcel.bytes);
        if meta.len == 0 || meta.len > parcel.bytes.len() {
            self.spare.push(parcel);
            return true;
        }
        parcel.len = meta.len;
        parcel.checksum = match meta.checksum {
            TxChecksum::Partial { .. } => RxChecksum::Trusted,
            TxChecksum::Complete => RxChecksum::Unverified,
        };
        self.outgoing.push_back(parcel);
        true
    }
}

impl Port for SimPort {
    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        self.take_burst();
        if self.lent.is_empty() {
            return 0;
        }
        let empty = RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        };
        let mut frames = [empty; BURST];
        let mut n = 0;
        for (frame, parcel) in frames.iter_mut().zip(&self.lent) {
            frame.bytes = parcel.bytes.get(..parcel.len).unwrap_or_default();
            frame.meta.checksum = parcel.checksum;
            n += 1;
        }
        each(frames.get(..n).unwrap_or_default());
        self.give_back();
        n
    }

    fn is_ready(&mut self) -> bool {
        let lane = self.here.lane();
        !lane.frames.is_empty() || lane.closed
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut lane = self.there.lane();
        if lane.closed {
            return Err(closed());
        }
        lane.frames.append(&mut self.outgoing);
        self.in_flight = lane.frames.len();
        if self.in_flight > 0 && mem::take(&mut lane.receiver_sleeps) {
            self.there.ring();
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if !self.announce_sleep()? {
            return Ok(());
        }
        let slept = poll::readable(self.here.doorbell.as_fd(), wake, timeout);
        self.here.lane().receiver_sleeps = false;
        self.here.silence();
        slept.map(drop)
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        fds.push(self.here.doorbell.as_raw_fd());
        let sleeps = self.announce_sleep()?;
        Ok((!sleeps).then_some(Duration::ZERO))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.config.mtu,
            queues: 1,
            tx_checksum: self.config.tx_checksum,
            tx_gso: 0,
            loops: false,
        }
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "simulated link: the other end is gone",
    )
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn send(port: &mut SimPort, bytes: &[u8], checksum: TxChecksum) -> bool {
        port.send(|frame| {
            frame[..bytes.len()].copy_from_slice(bytes);
            TxMeta {
                len: bytes.len(),
                checksum,
                ..TxMeta::default()
            }
        })
    }

    fn receive(port: &mut SimPort) -> Vec<(Vec<u8>, RxChecksum)> {
        let mut got = Vec::new();
        port.receive(|frames| {
            got.extend(frames.iter().map(|f| (f.bytes.to_vec(), f.meta.checksum)));
        });
        got
    }

    #[test]
    fn frames_arrive_in_order_with_what_is_known_of_their_checksum() {
        let (mut a, mut b) = pair(SimConfig::default()).unwrap();
        let partial = TxChecksum::Partial {
            start: 34,
            offset: 16,
        };
        assert!(send(&mut a, b"one", TxChecksum::Complete));
        assert!(send(&mut a, b"two", partial));
        assert!(receive(&mut b).is_empty());
        a.flush().unwrap();
        let got = receive(&mut b);
        assert_eq!(got[0], (b"one".to_vec(), RxChecksum::Unverified));
        assert_eq!(got[1], (b"two".to_vec(), RxChecksum::Trusted));
    }

    #[test]
    fn a_full_link_refuses_and_goes_on_when_drained() {
        let config = SimConfig {
            slots: 2,
            ..SimConfig::default()
        };
        let (mut a, mut b) = pair(config).unwrap();
        assert!(send(&mut a, b"1", TxChecksum::Complete));
        assert!(send(&mut a, b"2", TxChecksum::Complete));
        assert!(!send(&mut a, b"3", TxChecksum::Complete));
        a.flush().unwrap();
        assert!(!send(&mut a, b"3", TxChecksum::Complete));
        assert_eq!(receive(&mut b).len(), 2);
        assert!(send(&mut a, b"3", TxChecksum::Complete));
    }

    #[test]
    fn a_burst_is_at_most_64_frames() {
        let (mut a, mut b) = pair(SimConfig::default()).unwrap();
        for _ in 0..100 {
            assert!(send(&mut a, b"x", TxChecksum::Complete));
        }
        a.flush().unwrap();
        assert_eq!(receive(&mut b).len(), BURST);
        assert_eq!(receive(&mut b).len(), 100 - BURST);
    }

    #[test]
    fn a_sleeper_wakes_for_a_frame() {
        let (mut a, mut b) = pair(SimConfig::default()).unwrap();
        let sleeper = thread::spawn(move || {
            let start = Instant::now();
            while receive(&mut b).is_empty() {
                b.wait(Some(Duration::from_secs(20)), None).unwrap();
            }
            start.elapsed()
        });
        thread::sleep(Duration::from_millis(20));
        assert!(send(&mut a, b"wake", TxChecksum::Complete));
        a.flush().unwrap();
        assert!(sleeper.join().unwrap() < Duration::from_secs(10));
    }

    #[test]
    fn a_closed_end_is_an_error_after_the_last_frame() {
        let (mut a, mut b) = pair(SimConfig::default()).unwrap();
        assert!(send(&mut a, b"last", TxChecksum::Complete));
        drop(a);
        b.wait(None, None).unwrap();
        assert_eq!(receive(&mut b).len(), 1);
        assert!(b.wait(None, None).is_err());
        assert!(b.flush().is_err());
    }
}
