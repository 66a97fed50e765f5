//! Listeners on their way to another process.

use super::{Listener, Listeners};
use crate::arena::SavedSlots;
use crate::list::List;

/// All of them, without who waits at them.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedListeners {
    slots: SavedSlots,
    table: Vec<Listener>,
    /// The ports that have any, and the slots of those, in the order in which they are asked.
    ports: Vec<(u16, Vec<u32>)>,
    left: Vec<Listener>,
}

impl Listeners {
    pub fn save(&self) -> SavedListeners {
        let used = (0..=u16::MAX).filter(|&port| self.on_port(port).next().is_some());
        let ports = used.map(|port| (port, self.on_port(port).collect()));
        SavedListeners {
            slots: self.slots.save(),
            table: self.table.clone(),
            ports: ports.collect(),
            left: self.left.clone(),
        }
    }

    /// Takes over what another had, where there is nothing yet: nobody waits, and nothing is half
    /// open. False: it contradicts itself, or it is too much.
    pub fn restore(&mut self, saved: SavedListeners) -> bool {
        let SavedListeners {
            slots,
            table,
            ports,
            left,
        } = saved;
        if table.len() != slots.len() || !self.slots.restore(&slots) {
            return false;
        }
        self.table = table;
        self.left = left;
        for listener in &mut self.table {
            (listener.half_open, listener.waiting) = (0, List::new());
        }
        let mut unlisted: Vec<bool> = (0..self.slots.high_water())
            .map(|slot| self.slots.has(slot))
            .collect();
        let listed = ports.iter().all(|(port, slots)| {
            let mut link = |&slot: &u32| {
                let entry = unlisted.get_mut(slot as usize);
                entry.is_some_and(std::mem::take) && self.put_first(*port, slot)
            };
            slots.iter().rev().all(&mut link)
        });
        listed && !unlisted.contains(&true)
    }

    /// The listener in `slot` is the first to be asked on `port`. False: that is not its port.
    fn put_first(&mut self, port: u16, slot: u32) -> bool {
        let first = self.first.get_mut(usize::from(port));
        let listener = self.table.get_mut(slot as usize);
        let Some((first, listener)) = first.zip(listener) else {
            return false;
        };
        listener.next = std::mem::replace(first, slot + 1);
        listener.local.port() == port
    }
}
