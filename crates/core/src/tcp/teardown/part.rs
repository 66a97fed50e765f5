//! The teardown part as its behaviour sees it: borrowed for one step.

use crate::flow::FlowTable;
use crate::tcp::shared::Shared;
use crate::tcp::teardown::time_wait::TimeWaits;

/// Connections in TIME_WAIT, and what they need of everything else.
#[derive(Debug)]
pub(crate) struct TimeWaitPart<'a> {
    pub records: &'a mut TimeWaits,
    pub flows: &'a mut FlowTable,
    pub sh: &'a mut Shared,
}
