//! The set-up part as its behaviour sees it: borrowed for one step.

use crate::command::Options;
use crate::flow::FlowTable;
use crate::tcp::setup::half_open::HalfOpen;
use crate::tcp::setup::state::SetupState;
use crate::tcp::shared::Shared;

/// State of the set-up part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct SetupPart<'a> {
    pub state: &'a mut SetupState,
    pub flows: &'a mut FlowTable,
    pub sh: &'a mut Shared,
}

impl SetupPart<'_> {
    /// The options of the listener that `record` is of.
    pub(super) fn options(&self, record: &HalfOpen) -> Option<&Options> {
        let listener = self.state.listeners.at(u32::from(record.listener));
        listener.map(|listener| &listener.options)
    }
}
