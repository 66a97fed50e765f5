//! Which socket has the stream of each slot.

use mtcp_core::{ConnId, Event};
use ring::prefetch::prefetch;

use super::SocketId;
use super::table::NONE;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    by_slot: Vec<u32>,
}

impl Owners {
    /// `id` has the stream of `conn`.
    pub(crate) fn own(&mut self, conn: ConnId, id: SocketId) {
        let slot = conn.slot as usize;
        if slot >= self.by_slot.len() {
            self.by_slot.resize(slot + 1, NONE);
        }
        if let Some(owner) = self.by_slot.get_mut(slot) {
            *owner = id.0;
        }
    }

    /// Nobody has the stream of `conn` any more.
    pub(crate) fn disown(&mut self, conn: ConnId) {
        if let Some(owner) = self.by_slot.get_mut(conn.slot as usize) {
            *owner = NONE;
        }
    }

    /// The socket that has, or had last, the stream of this slot.
    #[inline]
    pub(crate) fn of(&self, slot: u32) -> Option<SocketId> {
        self.by_slot.get(slot as usize).copied().map(SocketId)
    }

    /// Hints the processor to load what says whom the events are about. Returns the sockets.
    pub(crate) fn prefetch<'a>(
        &'a self,
        events: &'a [Event],
    ) -> impl Iterator<Item = SocketId> + Clone + use<'a> {
        let slots = events.iter().filter_map(|event| match event {
            Event::Ready { conn, .. } => Some(conn.slot),
            Event::Accepted { .. } => None,
        });
        for slot in slots.clone() {
            if let Some(owner) = self.by_slot.get(slot as usize) {
                prefetch(owner);
            }
        }
        slots.filter_map(|slot| self.of(slot))
    }
}
