//! The loss part of a connection as its behaviour sees it: borrowed for one step.

use bitflags::bitflags;
use wire::seq::SeqNumber;

use crate::counters::Counters;
use crate::tcp::flags::{Bits, LossFlags};
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::ranges::RangePool;
use crate::tcp::statistics::Statistics;

bitflags! {
    /// What the connection has to do after a step of the loss part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct LossActions: u8 {
        /// Something may want to be sent: have `transmit` look.
        const OUTPUT = 1 << 0;
        /// `Hot::rtx_at` or `Hot::early_at` has changed: the wheel must fire no later.
        const TIMER = 1 << 1;
        /// A segment waits for its time to leave: the wheel must fire no later.
        const RELEASE = 1 << 2;
        /// The window was reduced, for whatever reason: the receiver is to know (RFC 3168 §6.1.2).
        const REDUCED = 1 << 3;
    }
}

/// State of the loss part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct Loss<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, LossFlags>,
    pub pools: &'a mut Pools,
    /// The ranges on scoreboards, and those of the receive part.
    pub ranges: &'a mut RangePool,
    pub counters: &'a mut Counters,
    pub statistics: &'a mut Statistics,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// Our timestamps are the millisecond clock plus this.
    pub ts_offset: u32,
    /// What has come up so far.
    pub actions: LossActions,
}
