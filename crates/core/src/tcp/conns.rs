//! All connections: their slots, and where their control blocks are.

use std::io;

use ring::region::Plot;
use wire::time::Instant;

use crate::arena::Slots;
use crate::config::Config;
use crate::flow::{FlowHash, FlowKey};
use crate::id::ConnId;
use crate::tcp::blocks::Blocks;
use crate::tcp::blocks::saved::SavedBlock;
use crate::tcp::conn::Conn;
use crate::tcp::queues::Queues;
use crate::tcp::shared::Shared;
use crate::tcp::tcb::{Cold, Hot};

/// See the module.
#[derive(Debug)]
pub(crate) struct Conns {
    pub slots: Slots,
    blocks: Blocks,
}

impl Conns {
    pub fn new(config: &Config, plot: Option<&mut Plot>) -> io::Result<Self> {
        Ok(Self {
            slots: Slots::new(config.max_connections)?,
            blocks: Blocks::new(config, plot)?,
        })
    }

    /// The place of a slot that was just allocated, where what the connection before left is
    /// written over, by the functions of `open`: a control block made elsewhere would be copied.
    pub fn place(
        &mut self,
        slot: u32,
        key: &FlowKey,
        hash: FlowHash,
        queues: &mut Queues,
    ) -> Option<(&mut Hot, &mut Cold)> {
        self.blocks.put(slot, key, hash, queues)
    }

    /// Gives a slot back, filled in or not.
    pub fn free(&mut self, slot: u32) {
        self.blocks.free(slot);
        self.slots.free(slot);
    }

    /// Packs those that idle, a few at a time.
    pub fn rest(&mut self, now: Instant, sh: &mut Shared) {
        self.blocks.rest(now, sh);
    }

    /// When [`Self::rest`] wants to be called, though nothing else is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.blocks.next_deadline()
    }

    /// The connection in `slot` on its way to another process.
    pub fn save(&self, slot: u32, sh: &Shared) -> Option<SavedBlock> {
        self.blocks.save(slot, sh)
    }

    /// The place of one that came from another process, in whose slot nothing is yet. False: there
    /// is none.
    pub fn restore(&mut self, saved: &SavedBlock, hash: FlowHash, queues: &mut Queues) -> bool {
        self.blocks.restore(saved, hash, queues)
    }

    /// Nothing is in any slot that was given out, but what is [restored](Self::restore).
    pub fn leave_empty(&mut self) {
        for slot in 0..self.slots.high_water() {
            self.blocks.leave_empty(slot);
        }
    }

    /// The slot of the connection whose control block is at `place`.
    pub fn slot_at(&self, place: u32) -> Option<u32> {
        self.blocks.slot_at(place)
    }

    /// How many have their state at hand, and how many are packed.
    pub fn counts(&self) -> (u32, u32) {
        self.blocks.counts()
    }

    /// Those that have their state at hand, with their slots.
    pub fn at_hand(&self) -> impl Iterator<Item = (u32, &Hot)> {
        self.blocks.at_hand()
    }

    /// The state of the connection `id`, if it is there and at hand.
    pub fn hot_of(&self, id: ConnId) -> Option<&Hot> {
        let is_live = self.slots.is_live(id.slot, id.generation);
        is_live.then(|| self.blocks.hot_of(id.slot)).flatten()
    }

    /// The state of the connection in `slot`; `None`: it is packed.
    pub fn hot_in(&self, slot: u32) -> Option<&Hot> {
        self.blocks.hot_of(slot)
    }

    /// Whether a time-out has passed without an answer to the one at `place`.
    pub fn is_unanswered(&self, place: u32) -> bool {
        let hot = self.blocks.hot(place);
        hot.is_some_and(|hot| hot.retries > 0 || hot.loss.backoff > 0)
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.blocks.places()
    }

    /// The slot in the byte streams of the connection in `slot`.
    pub fn stream(&self, slot: u32) -> u32 {
        self.blocks.stream(slot)
    }

    /// It is not `slot`, but this, until it is set to `slot` again: the streams are another
    /// process's.
    pub fn set_stream(&mut self, slot: u32, stream: u32) {
        self.blocks.set_stream(slot, stream);
    }

    pub fn key(&self, slot: u32) -> FlowKey {
        self.blocks.key(slot)
    }

    pub fn has_key(&self, slot: u32, key: &FlowKey) -> bool {
        self.blocks.has_key(slot, key)
    }

    /// The id of a live slot.
    pub fn id_of(&self, slot: u32) -> ConnId {
        id_of(&self.slots, slot)
    }

    pub fn prefetch(&self, slot: u32) {
        self.blocks.prefetch(slot);
    }

    pub fn prefetch_rest(&self, slot: u32) {
        self.blocks.prefetch_rest(slot);
    }

    /// The connection `id`, if it is there.
    pub fn live<'a>(&'a mut self, id: ConnId, sh: &'a mut Shared) -> Option<Conn<'a>> {
        if !self.slots.is_live(id.slot, id.generation) {
            return None;
        }
        self.view(id.slot, sh)
    }

    /// The connection in `slot`, which was given out once.
    pub fn view<'a>(&'a mut self, slot: u32, sh: &'a mut Shared) -> Option<Conn<'a>> {
        let conn = self.blocks.view(slot, sh)?;
        conn.sh.streams.turn_to(conn.stream);
        Some(conn)
    }

    /// The connection whose control block is at `place`.
    pub fn at<'a>(&'a mut self, place: u32, sh: &'a mut Shared) -> Option<Conn<'a>> {
        let conn = self.blocks.at(place, sh)?;
        conn.sh.streams.turn_to(conn.stream);
        Some(conn)
    }

    /// The same, and its id; whoever looks at its streams turns to them.
    pub fn named_at<'a>(
        &'a mut self,
        place: u32,
        sh: &'a mut Shared,
    ) -> Option<(ConnId, Conn<'a>)> {
        let slot = self.blocks.slot_at(place)?;
        Some((id_of(&self.slots, slot), self.blocks.at(place, sh)?))
    }
}

fn id_of(slots: &Slots, slot: u32) -> ConnId {
    ConnId {
        slot,
        generation: slots.generation(slot),
    }
}
