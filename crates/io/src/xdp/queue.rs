//! One queue of an interface: its socket and its frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use wire::frame::{RxFrame, RxMeta, TxMeta};

use super::frame_rings::FrameRings;
use super::gso::GsoSocket;
use super::socket::{Kick, XskSocket};
use super::tc_ring::TcRing;
use super::tx_batch::{Submitted, TxBatch};

/// Frames that one send call takes at least in copy mode (`TX_BATCH_SIZE` of the kernel).
const KICK_FRAMES: u32 = 32;

/// Where a queue receives from.
#[derive(Debug, Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it per queue, which is looked at with each burst"
)]
pub(super) enum Rx {
    /// The rx ring of the AF_XDP socket.
    #[default]
    Socket,
    /// The ring that a program in traffic control fills.
    TrafficControl(TcRing),
}

/// Where a queue sends to.
#[derive(Debug, Default)]
pub(super) enum Tx {
    /// The tx ring of the AF_XDP socket.
    #[default]
    Socket,
    /// A batch that one system call sends. What the kernel does not take goes through the tx ring.
    Batch(TxBatch),
}

/// What a queue has besides its socket, where the link is known to allow it.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// What sends frames of several segments.
    pub(super) gso: Option<GsoSocket>,
    pub(super) tx: Tx,
    pub(super) rx: Rx,
}

/// One bound queue.
#[derive(Debug)]
pub(super) struct Queue {
    // The frame rings go first: rings are unmapped before their socket closes.
    frame_rings: FrameRings,
    socket: XskSocket,
    number: u32,
    gso: Option<GsoSocket>,
    tx: Tx,
    rx: Rx,
    /// True while frames that the kernel did not take of a batch are in the tx ring: later frames
    /// go behind them.
    is_behind: bool,
    /// Frames that were lost with batches that are no more, or that found no place in the tx ring.
    lost: u64,
}

/// What is left of a queue of an interface that is gone.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) number: u32,
    /// The memory of a program in traffic control outlives the interface.
    pub(super) rx: Rx,
}

impl Queue {
    /// Puts together a bound socket, the frame rings it registered, and what there is besides.
    pub(super) fn new(
        number: u32,
        (socket, frame_rings): (XskSocket, FrameRings),
        extras: Extras,
    ) -> Self {
        let Extras { gso, tx, mut rx } = extras;
        if let Rx::TrafficControl(ring) = &mut rx {
            ring.open();
        }
        Self {
            frame_rings,
            socket,
            number,
            gso,
            tx,
            rx,
            is_behind: false,
            lost: 0,
        }
    }

    /// What is left of it when its interface is gone.
    pub(super) fn into_lost(self) -> Lost {
        Lost {
            number: self.number,
            rx: self.rx,
        }
    }

    /// Number of the queue.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The socket.
    pub(super) fn socket(&self) -> &XskSocket {
        &self.socket
    }

    /// As [`FrameRings::finishes_checksums`].
    pub(super) fn finishes_checksums(&self) -> bool {
        self.frame_rings.finishes_checksums()
    }

    /// Whether a frame has been received and not lent yet.
    pub(super) fn has_received(&mut self) -> bool {
        match &self.rx {
            Rx::Socket => self.frame_rings.has_received(),
            Rx::TrafficControl(ring) => ring.has_received(),
        }
    }

    /// Lends the next burst to `each`, what `meta` says about each frame along with it.
    pub(super) fn receive(
        &mut self,
        meta: impl Fn(&[u8]) -> RxMeta,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        match &mut self.rx {
            Rx::Socket => self.frame_rings.receive(meta, each),
            Rx::TrafficControl(ring) => ring.receive(meta, each),
        }
    }

    /// Arms the wake-up: [`Queue::doorbell`] becomes readable with the next frame. Returns false,
    /// with nothing armed, if a frame is already waiting.
    pub(super) fn arm(&mut self) -> bool {
        match &mut self.rx {
            Rx::Socket => !self.frame_rings.has_received(),
            Rx::TrafficControl(ring) => ring.arm(),
        }
    }

    /// Disarms the wake-up.
    pub(super) fn disarm(&mut self) {
        if let Rx::TrafficControl(ring) = &mut self.rx {
            ring.disarm();
        }
    }

    /// What becomes readable with the next frame after [`Queue::arm`].
    pub(super) fn doorbell(&self) -> BorrowedFd<'_> {
        match &self.rx {
            Rx::Socket => self.socket.as_fd(),
            Rx::TrafficControl(ring) => ring.as_fd(),
        }
    }

    /// As [`FrameRings::send`].
    #[inline]
    pub(super) fn send(&mut self, room: u32, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let bytes = room as usize;
        match &self.tx {
            Tx::Batch(batch) if !batch.has_room(bytes) => self.submit(),
            _ => {}
        }
        match &mut self.tx {
            Tx::Batch(batch) if !self.is_behind => batch.add(bytes, write),
            _ => self.frame_rings.send(room, write),
        }
    }

    /// Submits the batch, if frames are in one. What the kernel does not take of it goes into the
    /// tx ring, and so do later frames until that is empty.
    fn submit(&mut self) {
        let Tx::Batch(batch) = &mut self.tx else {
            return;
        };
        if !batch.waits() {
            return;
        }
        let submitted = batch.submit();
        let taken = match &submitted {
            Submitted::All => return batch.clear(),
            Submitted::Part(taken) => *taken,
            Submitted::Never(_) => 0,
        };
        for frame in batch.frames().skip(taken) {
            let sent = self.frame_rings.send(frame.len() as u32, |room| {
                room.copy_from_slice(frame);
                TxMeta {
                    len: frame.len(),
                    ..TxMeta::default()
                }
            });
            self.lost += u64::from(!sent);
        }
        batch.clear();
        self.is_behind = true;
        if let Submitted::Never(why) = submitted {
            log::info!("queue {}: no transmit batches any more: {why}", self.number);
            self.lost += batch.lost();
            self.tx = Tx::Socket;
        }
    }

    /// Whether there is what takes frames of several segments.
    pub(super) fn has_gso(&self) -> bool {
        self.gso.is_some()
    }

    /// As [`GsoSocket::send`], behind the frames that were sent before.
    pub(super) fn send_gso(&mut self, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.submit();
        // The next flush says what is wrong with the link.
        self.frame_rings.tx.publish();
        if self.frame_rings.tx.unread() > 0 && self.kick().is_err() {
            return false;
        }
        self.gso.as_mut().is_some_and(|socket| socket.send(write))
    }

    /// Frames that came and were lost, and frames of ours that were.
    pub(super) fn losses(&self) -> (u64, u64) {
        let (dropped, invalid) = self.socket.losses().unwrap_or_default();
        let unread = match &self.rx {
            Rx::Socket => 0,
            Rx::TrafficControl(ring) => ring.lost(),
        };
        let longer = self.frame_rings.lost();
        (dropped + unread + longer, invalid + self.unsent())
    }

    /// Frames of batches, and of several segments, that were lost.
    fn unsent(&self) -> u64 {
        let gso = self.gso.as_ref().map_or(0, GsoSocket::lost);
        let batch = match &self.tx {
            Tx::Socket => 0,
            Tx::Batch(batch) => batch.lost(),
        };
        gso + batch + self.lost
    }

    /// Publishes what was sent and wakes the kernel if it asks for it, at most once for either
    /// ring.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.submit();
        self.frame_rings.tx.publish();
        if self.frame_rings.tx.unread() > 0 && self.frame_rings.tx.needs_wakeup() {
            self.kick()?;
        }
        self.is_behind = self.is_behind && self.frame_rings.tx.unread() > 0;
        if self.frame_rings.fill.needs_wakeup() {
            self.socket.kick_fill()?;
        }
        if let Some(socket) = &mut self.gso {
            socket.flush();
        }
        self.frame_rings.reap();
        Ok(())
    }

    /// Whether published frames wait for another kick.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.frame_rings.tx.unread() > 0 && self.frame_rings.tx.needs_wakeup()
            || self.gso.as_ref().is_some_and(GsoSocket::waits)
    }

    /// Makes the kernel take the tx ring. In copy mode a call takes a limited number of frames and
    /// says EAGAIN when there are more, but also when there is no room for the next one: it is
    /// asked again only while that gets on.
    fn kick(&mut self) -> io::Result<()> {
        let mut unread = self.frame_rings.tx.unread();
        for _ in 0..unread / KICK_FRAMES + 2 {
            if self.socket.kick_tx()? != Kick::Again {
                break;
            }
            let left = self.frame_rings.tx.unread();
            if left == 0 || left == unread {
                break;
            }
            unread = left;
        }
        Ok(())
    }
}
