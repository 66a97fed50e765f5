//! The loss part of a connection as its behaviour sees it: borrowed for one step.

use wire::seq::SeqNumber;

use crate::counters::Counters;
use crate::tcp::flags::{Bits, LossFlags};
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::ranges::RangePool;
use crate::tcp::statistics::Statistics;

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
