//! The flag word of a connection, and the typed mask through which each part sees its own bits.

use std::marker::PhantomData;

use bitflags::bitflags;
use ring::whole::store;

bitflags! {
    /// One-bit facts about a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    #[derive(serde::Serialize, serde::Deserialize)]
    pub(crate) struct Flags: u32 {
        /// Both sides offered timestamps (RFC 7323 §3.2).
        const TIMESTAMPS = 1 << 0;
        /// Both sides offered SACK (RFC 2018 §2).
        const SACK = 1 << 1;
        /// No Nagle.
        const NODELAY = 1 << 2;
        /// Our SYN (or SYN-ACK) wants to be sent.
        const SYN_DUE = 1 << 3;
        /// Our SYN was sent more than once.
        const SYN_RETRANSMITTED = 1 << 4;
        /// `fin_seq` is fixed: the application shut its side down.
        const FIN_QUEUED = 1 << 5;
        /// An ACK wants to be sent in the next `transmit`.
        const ACK_NOW = 1 << 6;
        /// An ACK wants to be sent at `ack_at`.
        const ACK_DELAYED = 1 << 7;
        /// A keepalive probe wants to be sent.
        const KEEPALIVE_DUE = 1 << 8;
        /// A zero-window probe wants to be sent.
        const PROBE_DUE = 1 << 9;
        /// `rtx_at` is the time of the next window probe, not of a retransmission.
        const PERSIST = 1 << 10;
        /// `rtt_seq` is being timed.
        const TIMING = 1 << 11;
        /// In fast recovery.
        const RECOVERY = 1 << 12;
        /// Recovering from a time-out (go-back).
        const LOSS = 1 << 13;
        /// The next retransmission goes out whatever `cwnd` says.
        const FORCE_RETRANSMIT = 1 << 14;
        /// Ranges are held out of order; `Cold::held` names them.
        const HOLES = 1 << 15;
        /// The peer holds ranges out of order; `loss::Cold::sacked` has them.
        const SACKED = 1 << 16;
        /// The sequence number of the peer's FIN is known, and not reached.
        const PEER_FIN = 1 << 17;
        /// `Close` was called: nobody will read or write any more.
        const APP_CLOSED = 1 << 18;
        /// TCP is done with it: no flow, no timers, no output. The slot waits for the application.
        const DETACHED = 1 << 19;
        /// `Event::Accepted` has not been polled.
        const UNANNOUNCED = 1 << 20;
        /// In its listener's backlog: `Command::Accept` has not come.
        const BACKLOG = 1 << 21;
        /// The neighbour's reachability can be confirmed.
        const PROGRESS = 1 << 22;
        /// `Cold` holds deadlines (keepalive, idle, user time-out, FIN_WAIT_2).
        const COLD_TIMERS = 1 << 23;
        /// On the control list of its port.
        const ON_CONTROL = 1 << 24;
        /// On the data list of its port.
        const ON_DATA = 1 << 25;
        /// Waits for its neighbour to be resolved.
        const PARKED = 1 << 26;
        /// A tail loss probe wants to be sent (RFC 8985 §7.3).
        const TAIL_PROBE_DUE = 1 << 27;
        /// Both sides offered window scaling (RFC 7323 §2.2).
        const SCALING = 1 << 28;
        /// What is in flight was sent at more than one time; `loss::Cold::sent` names the log.
        const SENT_LOG = 1 << 29;
        /// `early_at` is RACK's reordering timer, not the probe time-out.
        const REORDER_TIMER = 1 << 30;
        /// The next ACK reports `Cold::duplicate` (RFC 2883).
        const DUPLICATE = 1 << 31;
    }
}

impl Flags {
    /// Sets `flags` in the word at `word`. Most steps look at several flags at once, shortly after
    /// one was changed, so the word is always written as a whole.
    #[inline]
    pub fn raise(word: &mut Self, flags: Self) {
        let flags = *word | flags;
        store(word, flags);
    }

    /// Clears `flags` in the word at `word`.
    #[inline]
    pub fn lower(word: &mut Self, flags: Self) {
        let flags = *word - flags;
        store(word, flags);
    }

    /// Sets or clears `flags` in the word at `word`.
    #[inline]
    pub fn put(word: &mut Self, flags: Self, value: bool) {
        let with = *word | flags;
        store(word, if value { with } else { with - flags });
    }
}

/// The bits of one part of a connection, at their places in the word.
pub(crate) trait Mask: Copy {
    /// These bits as they are in the word.
    fn flags(self) -> Flags;
}

/// The flag word as one part sees it: only bits of the mask `M` can be read or written.
#[derive(Debug)]
pub(crate) struct Bits<'a, M> {
    word: &'a mut Flags,
    mask: PhantomData<M>,
}

impl<'a, M: Mask> Bits<'a, M> {
    #[inline(always)]
    pub fn new(word: &'a mut Flags) -> Self {
        let mask = PhantomData;
        Self { word, mask }
    }

    /// The same word, borrowed for a shorter time.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Bits<'_, M> {
        Bits::new(self.word)
    }

    /// The whole word, to be masked by the reader.
    #[inline(always)]
    pub fn word(&self) -> Flags {
        *self.word
    }

    /// Whether any of `bits` is set.
    #[inline(always)]
    pub fn has(&self, bits: M) -> bool {
        self.word.intersects(bits.flags())
    }

    #[inline]
    pub fn insert(&mut self, bits: M) {
        Flags::raise(self.word, bits.flags());
    }

    #[inline]
    pub fn remove(&mut self, bits: M) {
        Flags::lower(self.word, bits.flags());
    }
}

bitflags! {
    /// The bits that the loss part sees.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct LossFlags: u32 {
        // What the handshake has agreed on. The loss part only reads it.
        const TIMESTAMPS = Flags::TIMESTAMPS.bits();
        const SACK = Flags::SACK.bits();

        // The sender's timers: which of them runs, and what is due because one has expired.
        const TIMING = Flags::TIMING.bits();
        const PERSIST = Flags::PERSIST.bits();
        const PROBE_DUE = Flags::PROBE_DUE.bits();
        const TAIL_PROBE_DUE = Flags::TAIL_PROBE_DUE.bits();
        const REORDER_TIMER = Flags::REORDER_TIMER.bits();

        // What is known of the data in flight.
        const RECOVERY = Flags::RECOVERY.bits();
        const LOSS = Flags::LOSS.bits();
        const FORCE_RETRANSMIT = Flags::FORCE_RETRANSMIT.bits();
        const SACKED = Flags::SACKED.bits();
        const SENT_LOG = Flags::SENT_LOG.bits();
    }
}

bitflags! {
    /// The bits that the path part sees. It only reads them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct PathFlags: u32 {
        // What the handshake has agreed on.
        const TIMESTAMPS = Flags::TIMESTAMPS.bits();
        const SACK = Flags::SACK.bits();

        // What is known of the data in flight.
        const RECOVERY = Flags::RECOVERY.bits();
        const LOSS = Flags::LOSS.bits();
        const SACKED = Flags::SACKED.bits();
    }
}

bitflags! {
    /// The bits that the ECN part sees. It only reads them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct EcnFlags: u32 {
        // What is known of the data in flight.
        const RECOVERY = Flags::RECOVERY.bits();
        const LOSS = Flags::LOSS.bits();
    }
}

bitflags! {
    /// The bits that the receive part sees.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ReceiveFlags: u32 {
        // What the handshake has agreed on. The receive part only reads it.
        const SACK = Flags::SACK.bits();

        // What has arrived, and what is to be said of it.
        const HOLES = Flags::HOLES.bits();
        const DUPLICATE = Flags::DUPLICATE.bits();
        const PEER_FIN = Flags::PEER_FIN.bits();

        // When an ACK is due, and whether it is withheld until the connection is accepted.
        const ACK_NOW = Flags::ACK_NOW.bits();
        const ACK_DELAYED = Flags::ACK_DELAYED.bits();
        const BACKLOG = Flags::BACKLOG.bits();
    }
}

bitflags! {
    /// The bits that the send part sees.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct SendFlags: u32 {
        // What the application has asked for. The send part only reads it.
        const NODELAY = Flags::NODELAY.bits();
        const FIN_QUEUED = Flags::FIN_QUEUED.bits();

        // What has arrived, and what is known of the data in flight. It only reads that, too.
        const HOLES = Flags::HOLES.bits();
        const DUPLICATE = Flags::DUPLICATE.bits();
        const RECOVERY = Flags::RECOVERY.bits();
        const LOSS = Flags::LOSS.bits();
        const SACKED = Flags::SACKED.bits();

        // The window is closed, and a probe is due; or something is held back.
        const PERSIST = Flags::PERSIST.bits();
        const PROBE_DUE = Flags::PROBE_DUE.bits();
        const COLD_TIMERS = Flags::COLD_TIMERS.bits();
    }
}

bitflags! {
    /// The bits that say on which lists a connection is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ListFlags: u32 {
        const ON_CONTROL = Flags::ON_CONTROL.bits();
        const ON_DATA = Flags::ON_DATA.bits();
        const PARKED = Flags::PARKED.bits();
    }
}

impl Mask for ListFlags {
    #[inline(always)]
    fn flags(self) -> Flags {
        Flags::from_bits_retain(self.bits())
    }
}

/// Ties the bits of parts to the word.
macro_rules! masks {
    ($($part:ident),*) => {$(
        impl Mask for $part {
            #[inline(always)]
            fn flags(self) -> Flags {
                Flags::from_bits_retain(self.bits())
            }
        }

        impl $part {
            /// The bits of `word` that are in the mask.
            #[inline(always)]
            pub fn of(word: Flags) -> Self {
                Self::from_bits_truncate(word.bits())
            }
        }
    )*};
}

masks!(LossFlags, PathFlags, EcnFlags, ReceiveFlags, SendFlags);
