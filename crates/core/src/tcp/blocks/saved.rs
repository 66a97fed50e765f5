//! Control blocks on their way to another process, packed ones unpacked.

use super::{Blocks, NOWHERE, PACKED, set, wheel_at};
use crate::flow::{FlowHash, FlowKey};
use crate::tcp::queues::Queues;
use crate::tcp::shared::Shared;
use crate::tcp::tcb::{Cold, Hot};

/// The control block of one connection, and how it is named. What it has in side pools is not in
/// it.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedBlock {
    pub slot: u32,
    /// Its slot in the byte streams.
    pub stream: u32,
    pub key: FlowKey,
    pub hot: Hot,
    pub cold: Cold,
}

/// The largest shift of a window (RFC 7323 §2.3).
const MAX_SHIFT: u8 = 14;

impl SavedBlock {
    /// Whether the numbers are such that nothing divides by zero or shifts too far. What else is
    /// wrong harms this connection alone.
    pub fn is_sound(&self) -> bool {
        let Self { hot, cold, .. } = self;
        let shifts = [hot.snd_wscale, hot.rcv_wscale, cold.open.wscale];
        let sizes = [hot.loss.mss, hot.rcv.mss, cold.peer_mss, cold.local_mss];
        shifts.iter().all(|&shift| shift <= MAX_SHIFT) && sizes.iter().all(|&size| size > 0)
    }
}

impl Blocks {
    /// That of the connection in `slot`.
    pub fn save(&self, slot: u32, sh: &Shared) -> Option<SavedBlock> {
        let place = *self.places.get(slot as usize)?;
        let (key, hot, cold) = if place & PACKED == 0 {
            let index = place as usize;
            let key = self.names.get(index)?.key;
            (key, *self.hot.get(index)?, *self.cold.get(index)?)
        } else {
            let record = self.packed.at(place ^ PACKED)?;
            let key = self.keys.key(record.key);
            let mut hot = record.hot();
            hot.wheel_at = wheel_at(sh, slot);
            let cold = self.cold_of(self.looked_at, record, &hot, &key, sh);
            (key, hot, cold)
        };
        let stream = self.stream(slot);
        Some(SavedBlock {
            slot,
            stream,
            key,
            hot,
            cold,
        })
    }

    /// Puts it into a place of this process. False: there is none.
    pub fn restore(&mut self, saved: &SavedBlock, hash: FlowHash, queues: &mut Queues) -> bool {
        let Some((hot, cold)) = self.put(saved.slot, &saved.key, hash, queues) else {
            return false;
        };
        (*hot, *cold) = (saved.hot, saved.cold);
        self.set_stream(saved.slot, saved.stream);
        true
    }

    /// No connection is in `slot`, which was given out once.
    pub fn leave_empty(&mut self, slot: u32) {
        set(&mut self.places, slot, &NOWHERE);
    }
}
