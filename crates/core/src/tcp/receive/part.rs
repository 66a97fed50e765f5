//! The receive part of a connection as its behaviour sees it: borrowed for one step.

use ring::stream::StackStreams;

use crate::config::Config;
use crate::counters::Counters;
use crate::side_pool::SidePool;
use crate::tcp::flags::{Bits, ReceiveFlags};
use crate::tcp::option_sets::{OptionSets, SetId};
use crate::tcp::ranges::RangePool;
use crate::tcp::receive::actions::ReceiveActions;
use crate::tcp::receive::held::Held;
use crate::tcp::receive::state::{Cold, Hot};
use crate::tcp::receive::view::ReceiveView;
use crate::tcp::statistics::Statistics;

/// State of the receive part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct Receive<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, ReceiveFlags>,
    pub streams: &'a mut StackStreams,
    /// The receive stream in `streams`.
    pub slot: u32,
    pub held: &'a mut SidePool<Held>,
    /// The ranges that are held, and those of the loss part.
    pub ranges: &'a mut RangePool,
    pub counters: &'a mut Counters,
    pub statistics: &'a mut Statistics,
    pub config: &'a Config,
    /// The options of all sockets ...
    pub options: &'a OptionSets,
    /// ... and where those of this one are.
    pub set: SetId,
    /// Rcv.Wind.Shift of RFC 7323 §2.3.
    pub scale: u8,
    /// MSS option that we sent: most payload of a segment of the peer, bytes.
    pub mss: u16,
    /// What has come up so far.
    pub actions: ReceiveActions,
}

impl Receive<'_> {
    /// The same part, to be read.
    #[inline(always)]
    pub fn view(&self) -> ReceiveView<'_> {
        ReceiveView {
            hot: self.hot,
            cold: self.cold,
            flags: ReceiveFlags::of(self.bits.word()),
            held: self.held,
            ranges: self.ranges,
            config: self.config,
        }
    }
}
