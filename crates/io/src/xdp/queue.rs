//! One queue of an interface: its socket and its frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use wire::frame::{RxFrame, RxMeta, TxMeta};

use super::bundles::Bundles;
use super::lanes::Lanes;
use super::letters::Letters;
use super::socket::{Kick, XskSocket};
use super::volley::{Fired, Volley};

/// Frames that one send call takes at least in copy mode (`TX_BATCH_SIZE` of the kernel).
const KICK_FRAMES: u32 = 32;

/// What a queue has besides its socket, where the link is known to allow it.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// What frames of several segments are sent by.
    pub(super) bundles: Option<Bundles>,
    /// What takes the frames to send instead of the tx ring, while it can.
    pub(super) volley: Option<Volley>,
    /// What frames are received from instead of the rx ring.
    pub(super) letters: Option<Letters>,
}

/// One bound queue.
#[derive(Debug)]
pub(super) struct Queue {
    // The lanes go first: rings are unmapped before their socket closes.
    lanes: Lanes,
    socket: XskSocket,
    number: u32,
    bundles: Option<Bundles>,
    volley: Option<Volley>,
    letters: Option<Letters>,
    /// What the kernel did not take of a volley is still in the tx ring.
    rests: bool,
    /// Frames of volleys that are no more, or had no place in the tx ring, that were lost.
    lost: u64,
}

/// What is left of a queue of an interface that is gone.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) number: u32,
    /// Memory of the program, which stays.
    pub(super) letters: Option<Letters>,
}

impl Queue {
    /// Puts together a bound socket, the lanes it registered, and what there is besides.
    pub(super) fn new(number: u32, (socket, lanes): (XskSocket, Lanes), extras: Extras) -> Self {
        let Extras {
            bundles,
            volley,
            mut letters,
        } = extras;
        if let Some(letters) = &mut letters {
            letters.open();
        }
        Self {
            lanes,
            socket,
            number,
            bundles,
            volley,
            letters,
            rests: false,
            lost: 0,
        }
    }

    /// What is left of it when its interface is gone.
    pub(super) fn into_lost(self) -> Lost {
        Lost {
            number: self.number,
            letters: self.letters,
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

    /// As [`Lanes::finishes_checksums`].
    pub(super) fn finishes_checksums(&self) -> bool {
        self.lanes.finishes_checksums()
    }

    /// Whether a frame has been received and not lent yet.
    pub(super) fn has_received(&mut self) -> bool {
        match &self.letters {
            Some(letters) => letters.has_received(),
            None => self.lanes.has_received(),
        }
    }

    /// Lends the next burst to `each`, what `meta` says about each frame along with it.
    pub(super) fn receive(
        &mut self,
        meta: impl Fn(&[u8]) -> RxMeta,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        match &mut self.letters {
            Some(letters) => letters.receive(meta, each),
            None => self.lanes.receive(meta, each),
        }
    }

    /// Says that we sleep until what [`Queue::bell`] lends is readable. Returns false, and does not say it, when a frame is there.
    pub(super) fn lie_down(&mut self) -> bool {
        match &mut self.letters {
            Some(letters) => letters.lie_down(),
            None => !self.lanes.has_received(),
        }
    }

    /// Ends a sleep.
    pub(super) fn get_up(&mut self) {
        if let Some(letters) = &mut self.letters {
            letters.get_up();
        }
    }

    /// What becomes readable when a frame came after [`Queue::lie_down`].
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        match &self.letters {
            Some(letters) => letters.as_fd(),
            None => self.socket.as_fd(),
        }
    }

    /// As [`Lanes::send`].
    #[inline]
    pub(super) fn send(&mut self, room: u32, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let bytes = room as usize;
        match &self.volley {
            Some(volley) if !volley.has_room(bytes) => self.fire(),
            _ => {}
        }
        match &mut self.volley {
            Some(volley) if !self.rests => volley.add(bytes, write),
            _ => self.lanes.send(room, write),
        }
    }

    /// Sends the volley. What the kernel does not take of it goes into the tx ring, and so do the frames behind it, until that is empty.
    fn fire(&mut self) {
        let Some(volley) = self.volley.as_mut().filter(|volley| volley.waits()) else {
            return;
        };
        let fired = volley.fire();
        let taken = match &fired {
            Fired::All => return volley.clear(),
            Fired::Part(taken) => *taken,
            Fired::Never(_) => 0,
        };
        for frame in volley.frames().skip(taken) {
            let sent = self.lanes.send(frame.len() as u32, |room| {
                room.copy_from_slice(frame);
                TxMeta {
                    len: frame.len(),
                    ..TxMeta::default()
                }
            });
            self.lost += u64::from(!sent);
        }
        volley.clear();
        self.rests = true;
        if let Fired::Never(why) = fired {
            log::info!("queue {}: no volleys any more: {why}", self.number);
            self.lost += volley.lost();
            self.volley = None;
        }
    }

    /// Whether there is what takes frames of several segments.
    pub(super) fn has_bundles(&self) -> bool {
        self.bundles.is_some()
    }

    /// As [`Bundles::send`], behind the frames that were sent before.
    pub(super) fn send_bundle(&mut self, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.fire();
        // What is wrong with the link the next flush says.
        self.lanes.tx.publish();
        if self.lanes.tx.unread() > 0 && self.kick().is_err() {
            return false;
        }
        self.bundles
            .as_mut()
            .is_some_and(|bundles| bundles.send(write))
    }

    /// Frames that came and were lost, and frames of ours that were.
    pub(super) fn losses(&self) -> (u64, u64) {
        let (dropped, invalid) = self.socket.losses().unwrap_or_default();
        let letters = self.letters.as_ref().map_or(0, Letters::lost);
        let longer = self.lanes.lost();
        (dropped + letters + longer, invalid + self.unsent())
    }

    /// Frames of volleys, and of several segments, that were lost.
    fn unsent(&self) -> u64 {
        let bundles = self.bundles.as_ref().map_or(0, Bundles::lost);
        bundles + self.volley.as_ref().map_or(0, Volley::lost) + self.lost
    }

    /// Publishes what was sent and wakes the kernel if it asks for it, at most once for either ring.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.fire();
        self.lanes.tx.publish();
        if self.lanes.tx.unread() > 0 && self.lanes.tx.needs_wakeup() {
            self.kick()?;
        }
        self.rests = self.rests && self.lanes.tx.unread() > 0;
        if self.lanes.fill.needs_wakeup() {
            self.socket.kick_fill()?;
        }
        if let Some(bundles) = &mut self.bundles {
            bundles.flush();
        }
        self.lanes.reap();
        Ok(())
    }

    /// Whether published frames wait for another kick.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.lanes.tx.unread() > 0 && self.lanes.tx.needs_wakeup()
            || self.bundles.as_ref().is_some_and(Bundles::waits)
    }

    /// Makes the kernel take the tx ring. In copy mode a call takes a limited number of frames and says EAGAIN when there are
    /// more, but also when there is no room for the next one: it is asked again only while that gets on.
    fn kick(&mut self) -> io::Result<()> {
        let mut unread = self.lanes.tx.unread();
        for _ in 0..unread / KICK_FRAMES + 2 {
            if self.socket.kick_tx()? != Kick::Again {
                break;
            }
            let left = self.lanes.tx.unread();
            if left == 0 || left == unread {
                break;
            }
            unread = left;
        }
        Ok(())
    }
}
