//! Who has which endpoints: what the flow table names, compared with the keys of what it names.

use crate::flow::{self, FlowHash, FlowKey, FlowTable};
use crate::tcp::conns::Conns;
use crate::tcp::setup::{Between, HalfOpens, SetupState};
use crate::tcp::teardown::TimeWaits;

/// The flow table, and everything that has a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    flows: &'a FlowTable,
    conns: &'a Conns,
    half_open: &'a HalfOpens,
    time_wait: &'a TimeWaits,
}

impl<'a> Lookup<'a> {
    #[inline(always)]
    pub fn new(
        flows: &'a FlowTable,
        conns: &'a Conns,
        setup: &'a SetupState,
        time_wait: &'a TimeWaits,
    ) -> Self {
        Self {
            flows,
            conns,
            half_open: &setup.half_open,
            time_wait,
        }
    }

    /// What has these endpoints.
    pub fn find(self, hash: FlowHash, key: &FlowKey) -> Option<u32> {
        self.flows.find(hash, |id| self.has_key(id, key))
    }

    /// Whether what the flow table calls `id` has these endpoints. Compared where it is: a copy of
    /// what is written in pieces and read as a whole takes as long as all writes before it.
    #[inline(always)]
    pub fn has_key(self, id: u32, key: &FlowKey) -> bool {
        let slot = flow::index(id) as u32;
        match flow::tag(id) as u32 {
            flow::HALF_OPEN => self.half_open.at(slot).is_some_and(|it| it.key == *key),
            flow::TIME_WAIT => self.time_wait.at(slot).is_some_and(|it| it.key == *key),
            _ => self.conns.has_key(slot, key),
        }
    }

    /// What is between two ends.
    pub fn between(self, ends: &FlowKey) -> Between {
        let digest = self.flows.digest(ends);
        let taken = self.find(digest.hash, ends);
        Between { digest, taken }
    }
}
