//! Whose connections are.

use mtcp_core::ConnId;

/// Names a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelId(pub(super) u32);

impl ChannelId {
    /// That of no program.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// A connection of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) channel: ChannelId,
    /// Its slot in the streams of the program.
    pub(super) slot: u32,
}

/// By the slots of the stack's connections.
#[derive(Debug, Default)]
pub(super) struct Owners(Vec<Option<(u32, Owner)>>);

impl Owners {
    pub(super) fn set(&mut self, conn: ConnId, owner: Owner) {
        let at = conn.slot as usize;
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), None);
        }
        if let Some(place) = self.0.get_mut(at) {
            *place = Some((conn.generation, owner));
        }
    }

    /// Whose `conn` is.
    #[inline]
    pub(super) fn of(&self, conn: ConnId) -> Option<Owner> {
        let (generation, owner) = (*self.0.get(conn.slot as usize)?)?;
        (generation == conn.generation).then_some(owner)
    }

    /// It is nobody's any more.
    pub(super) fn clear(&mut self, conn: ConnId) {
        if self.of(conn).is_some()
            && let Some(place) = self.0.get_mut(conn.slot as usize)
        {
            *place = None;
        }
    }
}
