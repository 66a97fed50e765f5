//! The send part of a connection as its behaviour sees it: borrowed for one step.

use ring::stream::StackStreams;

use crate::config::Config;
use crate::info::State;
use crate::tcp::flags::{Bits, SendFlags};
use crate::tcp::option_sets::{OptionSets, SetId};
use crate::tcp::send::actions::SendActions;
use crate::tcp::send::state::{Cold, Hot};
use crate::tcp::send::view::SendView;
use crate::tcp::statistics::Statistics;

/// State of the send part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct SendPart<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, SendFlags>,
    pub streams: &'a mut StackStreams,
    /// The send stream in `streams`.
    pub slot: u32,
    pub statistics: &'a mut Statistics,
    pub config: &'a Config,
    /// The options of all sockets ...
    pub options: &'a OptionSets,
    /// ... and where those of this one are.
    pub set: SetId,
    pub state: State,
    /// Eff.snd.MSS, bytes.
    pub mss: u16,
    /// What has come up so far.
    pub actions: SendActions,
}

impl SendPart<'_> {
    /// The same part, to be read.
    #[inline(always)]
    pub fn view(&self) -> SendView<'_> {
        SendView {
            hot: self.hot,
            cold: self.cold,
            flags: SendFlags::of(self.bits.word()),
            streams: self.streams,
            slot: self.slot,
            options: self.options,
            set: self.set,
            state: self.state,
        }
    }

    /// There may be more room to write.
    #[inline(always)]
    pub(super) fn offer_room(&mut self) {
        if self.streams.app_wants_space(self.slot) {
            self.actions |= SendActions::WRITABLE;
        }
    }
}
