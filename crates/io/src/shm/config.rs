//! What a shared-memory link is like, and where things are in its memory.

use std::io;

use wire::frame::{HEADERS, LINK_HEADERS, LONGEST};

use crate::context;

/// Bytes left free before a frame in its slot: the IP header is then 8-byte aligned, and the
/// headers of a TCP segment without options end with the cache line.
pub(super) const SLOT_LEAD: usize = 10;
/// Part of a ring that a frame with several segments takes at most.
const GSO_SHARE: usize = 8;
/// Bytes of the control block of a ring: producer's index, consumer's index and sleep flags, 128
/// bytes apart, because processors prefetch lines in pairs.
const CONTROL: usize = 512;
pub(super) const TAIL: usize = 0;
pub(super) const HEAD: usize = 128;
pub(super) const CONSUMER_SLEEPS: usize = 256;
pub(super) const PRODUCER_SLEEPS: usize = 260;

pub(super) const PAGE: usize = 4096;
/// Two event descriptors per queue and the memory go over in one message, which takes 253
/// (SCM_MAX_FD).
pub(super) const MAX_QUEUES: u16 = 64;
const MAX_SLOTS: u32 = 1 << 16;
const MAX_SLOT_BYTES: u32 = 1 << 17;
const MAX_MEMORY: usize = 1 << 34;

/// Size of a shared-memory link. The listening side decides; a connecting side takes what it is
/// told, and only checks `queues`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmConfig {
    /// Queues, 1 to 64: pairs of rings, each for one thread on either side. What is sent on queue
    /// *i* arrives on queue *i*.
    pub queues: u16,
    /// Frames per ring: a power of two, at most 65536.
    pub slots: u32,
    /// Bytes per frame, a multiple of 64: MTU + 28 at least.
    pub slot_bytes: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
}

impl Default for ShmConfig {
    fn default() -> Self {
        Self {
            queues: 1,
            slots: 1024,
            // Not a power of two: the headers of all frames would meet in a few sets of the caches.
            slot_bytes: 1600,
            mtu: 1500,
        }
    }
}

impl ShmConfig {
    /// # Errors
    /// A value out of range; says which.
    pub(super) fn check(&self) -> io::Result<()> {
        let Self {
            queues,
            slots,
            slot_bytes,
            mtu,
        } = *self;
        let least = usize::from(mtu) + LINK_HEADERS + SLOT_LEAD;
        let problem = if queues == 0 || queues > MAX_QUEUES {
            format!("{queues} queues: give 1 to {MAX_QUEUES}")
        } else if !slots.is_power_of_two() || slots > MAX_SLOTS {
            format!("{slots} slots: give a power of two up to {MAX_SLOTS}")
        } else if slot_bytes % 64 != 0 || slot_bytes > MAX_SLOT_BYTES {
            format!("slots of {slot_bytes} bytes: give a multiple of 64 up to {MAX_SLOT_BYTES}")
        } else if (slot_bytes as usize) < least {
            format!(
                "slots of {slot_bytes} bytes are too small for an MTU of {mtu}: give {least} or more"
            )
        } else if Layout::new(self).len > MAX_MEMORY {
            format!("more than {} GiB of memory", MAX_MEMORY >> 30)
        } else {
            return Ok(());
        };
        Err(context::invalid(format_args!("shm link: {problem}")))
    }
}

impl ShmConfig {
    /// Most bytes of payload in one frame.
    pub(super) fn gso_max(&self) -> u32 {
        let share = self.slots as usize * self.slot_bytes as usize / GSO_SHARE;
        share.min(LONGEST).saturating_sub(HEADERS) as u32
    }
}

/// Which end of a link this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Made the memory.
    Listener,
    Connector,
}

impl Side {
    /// Index of the ring that this side produces into, among the two of a queue.
    pub(super) const fn outgoing(self) -> usize {
        match self {
            Self::Listener => 0,
            Self::Connector => 1,
        }
    }

    pub(super) const fn incoming(self) -> usize {
        1 - self.outgoing()
    }
}

/// Offsets in the shared memory: control blocks of all rings, then for each ring, on pages of their
/// own, its length words and its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    rings_at: usize,
    lengths_bytes: usize,
    ring_bytes: usize,
    /// Bytes in all.
    pub(super) len: usize,
}

impl Layout {
    /// Cannot overflow: 2^7 rings of 2^16 slots of 2^17 bytes are 2^40, and `check` bounds each
    /// factor first.
    pub(super) const fn new(config: &ShmConfig) -> Self {
        let rings = config.queues as usize * 2;
        let slots = config.slots as usize;
        let rings_at = (rings * CONTROL).next_multiple_of(PAGE);
        let lengths_bytes = (slots * size_of::<u32>()).next_multiple_of(PAGE);
        let slots_bytes = (slots * config.slot_bytes as usize).next_multiple_of(PAGE);
        let ring_bytes = lengths_bytes + slots_bytes;
        Self {
            rings_at,
            lengths_bytes,
            ring_bytes,
            len: rings_at + rings * ring_bytes,
        }
    }

    /// Where the control block of ring `direction` (0 or 1) of `queue` is.
    pub(super) const fn control(&self, queue: u16, direction: usize) -> usize {
        (queue as usize * 2 + direction) * CONTROL
    }

    /// Where the length words of ring `direction` of `queue` are.
    pub(super) const fn lengths(&self, queue: u16, direction: usize) -> usize {
        self.rings_at + (queue as usize * 2 + direction) * self.ring_bytes
    }

    /// Where the slots of ring `direction` of `queue` are.
    pub(super) const fn slots(&self, queue: u16, direction: usize) -> usize {
        self.lengths(queue, direction) + self.lengths_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        ShmConfig::default().check().unwrap();
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let ok = ShmConfig::default();
        for bad in [
            ShmConfig { queues: 0, ..ok },
            ShmConfig { queues: 65, ..ok },
            ShmConfig { slots: 0, ..ok },
            ShmConfig { slots: 1000, ..ok },
            ShmConfig {
                slots: 1 << 17,
                ..ok
            },
            ShmConfig {
                slot_bytes: 1530,
                ..ok
            },
            ShmConfig {
                slot_bytes: 1472,
                ..ok
            },
            ShmConfig {
                slot_bytes: 1 << 18,
                ..ok
            },
            ShmConfig { mtu: 9000, ..ok },
            ShmConfig {
                queues: 64,
                slots: 1 << 16,
                slot_bytes: 1 << 17,
                ..ok
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rings_do_not_overlap() {
        let config = ShmConfig {
            queues: 3,
            slots: 2,
            ..ShmConfig::default()
        };
        let layout = Layout::new(&config);
        let mut pieces = Vec::new();
        for queue in 0..3 {
            for direction in 0..2 {
                pieces.push((layout.control(queue, direction), CONTROL));
                pieces.push((layout.lengths(queue, direction), 2 * 4));
                pieces.push((layout.slots(queue, direction), 2 * 1600));
            }
        }
        pieces.sort_unstable();
        for pair in pieces.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0);
        }
        let (at, len) = *pieces.last().unwrap();
        assert!(at + len <= layout.len);
    }
}
