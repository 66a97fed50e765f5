//! Whose connections are.

use mtcp_core::ConnId;

/// Names a channel; a later one in the same place has another serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelId(pub(super) u32);

/// By the slots of the stack's connections.
#[derive(Debug, Default)]
pub(super) struct Owners(Vec<Option<Owner>>);

#[derive(Clone, Copy, Debug)]
struct Owner {
    channel: ChannelId,
    generation: u32,
}

impl Owners {
    pub(super) fn set(&mut self, conn: ConnId, channel: ChannelId) {
        let at = conn.slot as usize;
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), None);
        }
        if let Some(owner) = self.0.get_mut(at) {
            *owner = Some(Owner {
                channel,
                generation: conn.generation,
            });
        }
    }

    /// Whose `conn` is.
    #[inline]
    pub(super) fn of(&self, conn: ConnId) -> Option<ChannelId> {
        let owner = (*self.0.get(conn.slot as usize)?)?;
        (owner.generation == conn.generation).then_some(owner.channel)
    }

    /// It is nobody's any more.
    pub(super) fn clear(&mut self, conn: ConnId) {
        if self.of(conn).is_some()
            && let Some(owner) = self.0.get_mut(conn.slot as usize)
        {
            *owner = None;
        }
    }
}
