//! A link with a peer: the memory, the socket that dies with the peer, the doorbells; and one queue
//! of it, with the rules of sleeping.

use std::hint;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use ring::region::Shared;
use rustix::net::Shutdown;
use wire::frame::{RxFrame, TxMeta};

use super::config::{ShmConfig, Side};
use super::doorbells::notify;
use super::ring::{Corrupt, Place, RxRing, TxRing};
use super::socket;
use crate::context;

/// How often to look for the frames that a peer announced: 25 us on processors that pause for 140
/// cycles each time.
const AWAITS: u32 = 500;

/// The doorbells of one side, one of each kind per queue.
#[derive(Debug)]
pub(super) struct Doorbells {
    /// What the peer notifies.
    pub(super) own: Vec<OwnedFd>,
    /// What we notify.
    pub(super) peer: Vec<OwnedFd>,
}

/// One peer, from handshake to hang-up.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) config: ShmConfig,
    side: Side,
    memory: Arc<Shared>,
    socket: OwnedFd,
    doorbells: Doorbells,
    /// Which queues have been handed out.
    taken: Vec<AtomicBool>,
    lost: AtomicBool,
}

impl Connection {
    pub(super) fn new(
        config: ShmConfig,
        side: Side,
        memory: Arc<Shared>,
        socket: OwnedFd,
        doorbells: Doorbells,
    ) -> Self {
        Self {
            taken: (0..config.queues).map(|_| AtomicBool::new(false)).collect(),
            config,
            side,
            memory,
            socket,
            doorbells,
            lost: AtomicBool::new(false),
        }
    }

    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether the peer has hung up. A system call, unless somebody has noticed before.
    pub(super) fn is_lost(&self) -> bool {
        if !self.lost.load(Ordering::Relaxed) && socket::has_hung_up(&self.socket) {
            self.lost.store(true, Ordering::Relaxed);
        }
        self.lost.load(Ordering::Relaxed)
    }

    /// Hangs up.
    pub(super) fn close(&self) {
        self.lost.store(true, Ordering::Relaxed);
        // Fails if the peer was quicker.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Queue `index`, which can be taken once.
    pub(super) fn take_queue(self: &Arc<Self>, index: u16) -> io::Result<Queue> {
        let taken = self.taken.get(usize::from(index));
        if taken.is_none_or(|taken| taken.swap(true, Ordering::AcqRel)) {
            return Err(context::invalid(format_args!(
                "shm link: no queue {index}, or it is in use"
            )));
        }
        let place = |direction| Place {
            memory: &self.memory,
            config: &self.config,
            queue: index,
            direction,
        };
        // SAFETY: `taken` lets this happen once per queue of a connection, and a connection's
        // memory is fresh: made for it, or just received. The two connections of a pair in one
        // process have different sides, hence different outgoing rings.
        let tx = unsafe { TxRing::new(place(self.side.outgoing())) }?;
        // SAFETY: likewise, incoming rings.
        let rx = unsafe { RxRing::new(place(self.side.incoming())) }?;
        Ok(Queue {
            tx,
            rx,
            index: usize::from(index),
            released: false,
            blocked: false,
            connection: Arc::clone(self),
        })
    }
}

/// A ring in each direction.
#[derive(Debug)]
pub(super) struct Queue {
    tx: TxRing,
    rx: RxRing,
    index: usize,
    /// Slots were given back since the last flush.
    released: bool,
    /// A frame did not fit since the last sleep.
    blocked: bool,
    pub(super) connection: Arc<Connection>,
}

impl Queue {
    pub(super) fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> Result<usize, Corrupt> {
        let n = self.rx.lend(each)?;
        self.released |= n > 0;
        Ok(n)
    }

    pub(super) fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let fits = self.tx.push(fill);
        self.blocked |= !fits;
        fits
    }

    pub(super) fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let fits = self.tx.push_gso(len, fill);
        self.blocked |= !fits;
        if self.tx.has_long() {
            self.show();
        }
        fits
    }

    /// Publishes in the middle of a turn, and wakes the peer if it sleeps for frames: it reads
    /// these while we write the next.
    fn show(&mut self) {
        if self.tx.publish() {
            // Pairs with the fence in `arm`, as in `flush`.
            fence(Ordering::SeqCst);
            self.wake_peer();
        }
    }

    /// Wakes the peer if it sleeps for frames, which it gets in a moment.
    pub(super) fn wake_peer(&self) {
        if self.tx.take_armed() {
            self.notify_peer();
        }
    }

    fn notify_peer(&self) {
        if let Some(doorbell) = self.connection.doorbells.peer.get(self.index) {
            notify(doorbell);
        }
    }

    /// What becomes readable when the peer notifies us.
    pub(super) fn doorbell(&self) -> Option<&OwnedFd> {
        self.connection.doorbells.own.get(self.index)
    }

    /// Publishes and wakes the peer if it sleeps for what changed: at most one system call.
    pub(super) fn flush(&mut self) -> Result<(), Corrupt> {
        let sent = self.tx.publish();
        let released = std::mem::take(&mut self.released);
        if sent || released {
            // Pairs with the fence in `arm`: either we see the flag, or the sleeper sees the index.
            fence(Ordering::SeqCst);
            let data = sent && self.tx.take_armed();
            let room = released && self.rx.take_armed();
            if data || room {
                self.notify_peer();
            }
        }
        self.tx.check()?;
        self.rx.check()
    }

    pub(super) fn has_frames(&mut self) -> bool {
        self.rx.has_frames()
    }

    /// As [`Self::has_frames`], for who receives them next.
    pub(super) fn expect_frames(&mut self) -> bool {
        self.rx.expect_frames()
    }

    /// Arms the wake-up: the peer notifies us of what comes next. Returns false, with nothing
    /// armed, if there is work already.
    pub(super) fn arm(&mut self) -> bool {
        self.rx.set_armed(true);
        if self.blocked {
            self.tx.set_armed(true);
        }
        // Pairs with the fence in `flush`.
        fence(Ordering::SeqCst);
        let work = self.rx.has_frames() || (self.blocked && self.tx.has_room());
        if work {
            self.disarm();
        }
        !work
    }

    /// Ends a sleep that the peer ended: its frames may still be in the making. Waits for them, but
    /// not for long.
    pub(super) fn await_frames(&mut self) {
        let for_room = self.blocked;
        self.disarm();
        if for_room {
            return;
        }
        for _ in 0..AWAITS {
            if self.expect_frames() {
                return;
            }
            hint::spin_loop();
        }
    }

    pub(super) fn disarm(&mut self) {
        self.rx.set_armed(false);
        if std::mem::take(&mut self.blocked) {
            self.tx.set_armed(false);
        }
    }
}
