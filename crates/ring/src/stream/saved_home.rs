//! Streams of another process, as the stack knows them, on their way to a stack in a third one.
//!
//! The bytes stay where they are, in the memory that the other process has as well. It may go on
//! reading and writing meanwhile: what it says next is heard when the new stack turns to a slot.

use std::io;

use crate::pool::Block;
use crate::sync::Ordering::Relaxed;

use super::guest::{Guest, capacity};
use super::guests::{slot_in_home, slot_of};
use super::homes::Homes;
use super::plan::{HomeMemory, HomePlan};
use super::record::Record;

/// What the stack knows of a home, but for its memory.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct SavedHome {
    home: u32,
    plan: HomePlan,
    /// By slot, all that were ever used.
    slots: Vec<SavedSlot>,
    free: Vec<u32>,
    owners: Vec<u32>,
    disorder: Option<u32>,
    is_gone: bool,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct SavedSlot {
    words: [u32; 14],
    bytes: [u8; 8],
    mark: [u32; 7],
    /// Where the reader has to be until outgrown receive buffers are free, and which those are.
    outgrown: (u32, Vec<u32>),
}

impl SavedHome {
    /// Its number.
    pub fn home(&self) -> u32 {
        self.home
    }

    /// What its memory was made with.
    pub fn plan(&self) -> HomePlan {
        self.plan
    }
}

fn damaged(what: &str) -> io::Error {
    let text = format!("the snapshot contradicts itself in the {what} of a program: take another");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Homes<'_> {
    /// Copies what is known of each home.
    pub fn save(&mut self) -> Vec<SavedHome> {
        self.0.show();
        let numbers = self.0.guests.numbers();
        numbers.filter_map(|home| self.save_one(home)).collect()
    }

    fn save_one(&mut self, home: u32) -> Option<SavedHome> {
        let shared = &self.0.shared;
        let guest = self.0.guests.home(home)?;
        let slot = |slot: u32| {
            let own = shared.records.record(slot_of(home, slot))?;
            let mark = shared.marks.at(slot_of(home, slot))?;
            Some(SavedSlot {
                words: own.words().map(|word| word.load(Relaxed)),
                bytes: own.bytes().map(|byte| byte.load(Relaxed)),
                mark: mark.words(),
                outgrown: guest.recv.outgrown(own),
            })
        };
        let is_free = |slot: &u32| {
            let own = shared.records.record(slot_of(home, *slot));
            own.is_some_and(|own| !own.is_open())
        };
        Some(SavedHome {
            home,
            plan: guest.plan,
            slots: (0..guest.used).filter_map(slot).collect(),
            free: guest.free.iter().copied().filter(is_free).collect(),
            owners: guest.owners.clone(),
            disorder: guest.disorder,
            is_gone: guest.is_gone,
        })
    }

    /// Goes on with a home that another stack had, under its number; `memory` is that of its
    /// streams.
    ///
    /// # Errors
    /// `InvalidData`: it contradicts itself, the memory is another, or the number is in use; as
    /// [`Self::add`].
    pub fn restore(&mut self, saved: &SavedHome, memory: &HomeMemory) -> io::Result<()> {
        let is_its_own = saved.plan == memory.plan();
        let is_sound = saved.slots.len() <= memory.plan().slots as usize && saved.owners_fit();
        if !is_its_own || !is_sound {
            return Err(damaged("memory"));
        }
        self.0.guests.add_as(saved.home, memory)?;
        let restored = self.restore_slots(saved);
        if restored.is_none() {
            if let Some(guest) = self.0.guests.home(saved.home) {
                guest.open = 0;
            }
            self.remove(saved.home);
        }
        restored.ok_or_else(|| damaged("streams"))
    }

    fn restore_slots(&mut self, saved: &SavedHome) -> Option<()> {
        let shared = &self.0.shared;
        let guest = self.0.guests.home(saved.home)?;
        guest.used = saved.slots.len() as u32;
        guest.free.clone_from(&saved.free);
        guest.owners.clone_from(&saved.owners);
        (guest.disorder, guest.is_gone) = (saved.disorder, saved.is_gone);
        for (slot, its) in (0..).zip(&saved.slots) {
            let own = shared.records.record(slot_of(saved.home, slot))?;
            let mark = shared.marks.at(slot_of(saved.home, slot))?;
            for (word, &value) in own.words().into_iter().zip(&its.words) {
                word.store(value, Relaxed);
            }
            for (byte, &value) in own.bytes().into_iter().zip(&its.bytes) {
                byte.store(value, Relaxed);
            }
            mark.set_words(&its.mark);
            guest.open += u32::from(own.is_open());
            let is_sound = guest.can_have(own) && guest.recv.claim(slot, own, &its.outgrown);
            is_sound.then_some(())?;
        }
        let is_free = |slot: &u32| {
            let own = shared.records.record(slot_of(saved.home, *slot));
            own.is_some_and(|own| !own.is_open())
        };
        saved.free.iter().all(is_free).then_some(())
    }

    /// Whether the stream in `slot`, of any home, is open, and that of the connection in `owner`.
    pub fn is_of(&mut self, slot: u32, owner: u32) -> bool {
        let record = self.0.shared.records.record(slot);
        let is_open = record.is_some_and(Record::is_open);
        is_open && self.0.owner_of(slot) == owner
    }
}

impl SavedHome {
    /// Every free slot is one that was used, and is free once.
    fn owners_fit(&self) -> bool {
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        let is_used =
            |slot: &u32| *slot == slot_in_home(*slot) && (*slot as usize) < self.slots.len();
        free.len() == self.free.len()
            && free.iter().all(is_used)
            && self.owners.len() <= self.slots.len()
    }
}

impl Guest {
    /// Whether the words of a record are such that nothing outside of a buffer is read or written.
    fn can_have(&self, own: &Record) -> bool {
        let received = own.recv_unread().checked_add(own.stack.recv.placed());
        let recv = own.stack.recv.buffer.load(Relaxed);
        let room = capacity(recv, &self.recv_memory);
        let send = capacity(own.app.send.buffer.load(Relaxed), &self.send_memory);
        let is_here = own.is_open_here();
        received.is_some_and(|bytes| bytes <= room) && own.send_len() <= send && !is_here
    }
}

impl super::side::Side {
    /// The outgrown buffers of a slot, and until when they are needed.
    fn outgrown(&self, own: &Record) -> (u32, Vec<u32>) {
        let block = Block::from_descriptor(self.direction.producer(own).buffer.load(Relaxed));
        block.map_or_else(Default::default, |block| self.retired(&block))
    }

    /// The buffers of a slot are in use. False: one of them is none, or another's.
    fn claim(&mut self, slot: u32, own: &Record, outgrown: &(u32, Vec<u32>)) -> bool {
        let (switch, retired) = outgrown;
        let block = Block::from_descriptor(self.direction.producer(own).buffer.load(Relaxed));
        let Some(block) = block else {
            return retired.is_empty();
        };
        let claimed = self.ledger.claim(&block);
        if claimed {
            self.attach(slot);
        }
        claimed && self.claim_retired(&block, *switch, retired)
    }
}
