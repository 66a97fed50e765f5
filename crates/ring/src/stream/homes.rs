//! The stack's end: streams of other processes.

use std::io;

use crate::sync::Ordering::Relaxed;

use super::config::Limits;
use super::error::StreamError;
use super::guests::{NOBODY, home_of, slot_in_home, slot_of};
use super::lane::Writer;
use super::offer;
use super::plan::HomeMemory;
use super::record::{Record, held};
use super::side::AT_EASE;
use super::stack::{StackStreams, close};

/// The homes of streams besides those in this process; see [`StackStreams::homes`].
#[derive(Debug)]
pub struct Homes<'a>(pub(super) &'a mut StackStreams);

impl Homes<'_> {
    /// Adds a home: the streams of a program that has the memory, too, and nobody else. Its slots
    /// are [`slot_of`](super::slot_of) the number that this returns. The program is trusted with
    /// nothing but its own bytes.
    ///
    /// # Errors
    /// `AlreadyExists`: the memory is in use; `OutOfMemory`: there are as many homes as there can
    /// be, or the kernel has no room; `InvalidInput`: too many slots.
    pub fn add(&mut self, memory: &HomeMemory) -> io::Result<u32> {
        self.0.guests.add(memory)
    }

    /// The program of a home is gone: it has [released](super::AppStreams::release) all its slots,
    /// and nothing that is written to the memory from now on counts. What it had written can still
    /// be sent. None of its slots can be opened any more.
    pub fn app_gone(&mut self, home: u32) {
        let slots = self.0.guests.home(home).map_or(0, |guest| guest.used);
        let open = |streams: &StackStreams, slot: u32| {
            let record = streams.shared.records.record(slot_of(home, slot));
            record.is_some_and(Record::is_open)
        };
        for is_gone in [false, true] {
            if let Some(guest) = self.0.guests.home(home) {
                guest.is_gone = is_gone;
            }
            // Once more to hear what it said last, and then for it.
            for slot in (0..slots)
                .filter(|&slot| open(self.0, slot))
                .collect::<Vec<_>>()
            {
                self.0.turn_to(slot_of(home, slot));
            }
        }
        self.close_all_abandoned(home);
    }

    /// Whom the open slots of a home were reserved for.
    pub fn owners(&mut self, home: u32) -> Vec<u32> {
        let records = &self.0.shared.records;
        let is_open = |slot: u32| {
            let record = records.record(slot_of(home, slot));
            record.is_some_and(Record::is_open)
        };
        let Some(guest) = self.0.guests.home(home) else {
            return Vec::new();
        };
        let owners = (0..guest.used).zip(&guest.owners);
        let open = owners.filter(|&(slot, &owner)| owner != NOBODY && is_open(slot));
        open.map(|(_, &owner)| owner).collect()
    }

    /// Forgets a home. False, and nothing done, while one of its slots is open, or when there is no
    /// such home.
    pub fn remove(&mut self, home: u32) -> bool {
        self.0.show();
        let Some(guest) = self.0.guests.remove(home) else {
            return false;
        };
        // Who has the number next begins anew.
        for slot in 0..guest.used {
            if let Some(record) = self.0.shared.records.record(slot_of(home, slot)) {
                record.clear();
            }
        }
        true
    }

    /// Takes back the connection in a slot that a program was told of. False: the program has taken
    /// it. What it writes there against the rules concerns its own connections: it keeps one, or
    /// cannot use it.
    pub fn withdraw(&mut self, slot: u32) -> bool {
        self.0.guests.seen(slot).is_some_and(offer::withdraw)
    }

    /// A slot of a home whose program has written what cannot be, since this was last asked. The
    /// stack went on with what it knew; what is to become of the program is for who asks to say.
    pub fn take_disorder(&mut self, home: u32) -> Option<u32> {
        let slot = self.0.guests.home(home)?.disorder.take()?;
        Some(slot_of(home, slot))
    }
}

impl StackStreams {
    /// The homes, to be added and removed.
    pub fn homes(&mut self) -> Homes<'_> {
        Homes(self)
    }

    /// From here on the stack works on this slot, with what its program has written by now. Nothing
    /// is done for slots of this process. What was changed of the slot before is
    /// [shown](Self::show).
    #[inline(always)]
    pub fn turn_to(&mut self, slot: u32) {
        if slot >= self.slots {
            self.turn_elsewhere(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn turn_elsewhere(&mut self, slot: u32) {
        if let Some(before) = self
            .guests
            .turn(Some(slot))
            .filter(|&before| before != slot)
        {
            self.show_slot(before);
        }
        if let Some((guest, own)) = self
            .guests
            .at_mut(slot)
            .zip(self.shared.records.record(slot))
        {
            guest.refresh(slot_in_home(slot), own);
        }
    }

    /// What the stack has changed is there for the program to see: before it is told of it.
    #[inline(always)]
    pub fn show(&mut self) {
        if let Some(slot) = self.guests.turn(None) {
            self.show_slot(slot);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn show_slot(&self, slot: u32) {
        if let Some((guest, own)) = self.guests.at(slot).zip(self.shared.records.record(slot)) {
            guest.show(slot_in_home(slot), own);
        }
    }

    /// Reserves any free slot of a home, for what the caller calls `owner`. Who lets this choose
    /// lets it choose always.
    ///
    /// # Errors
    /// `NoSlot`: there is no such home, its program is gone, or none of its slots is free.
    pub fn reserve_in(
        &mut self,
        home: u32,
        owner: u32,
        limits: Limits,
    ) -> Result<u32, StreamError> {
        let guest = self.guests.home(home).ok_or(StreamError::NoSlot)?;
        let slot = guest.free.pop().unwrap_or(guest.used);
        let slot = slot_of(home, slot);
        self.reserve(slot, limits)?;
        if let Some(guest) = self.guests.home(home) {
            guest.set_owner(slot_in_home(slot), owner);
        }
        Ok(slot)
    }

    /// Whom a slot was reserved for; itself, if it is of this process.
    #[inline(always)]
    pub fn owner_of(&self, slot: u32) -> u32 {
        if slot < self.slots {
            slot
        } else {
            self.owner_elsewhere(slot)
        }
    }

    #[cold]
    #[inline(never)]
    fn owner_elsewhere(&self, slot: u32) -> u32 {
        let guest = self.guests.at(slot);
        let owner = guest.and_then(|guest| guest.owners.get(slot_in_home(slot) as usize));
        owner.copied().unwrap_or(slot)
    }

    /// The home that a slot is of; 0: of this process.
    pub fn home_of(&self, slot: u32) -> u32 {
        if slot < self.slots { 0 } else { home_of(slot) }
    }

    /// As [`Self::send_len`], as far as the stack knew when it last turned to the slot.
    pub fn known_send_len(&self, slot: u32) -> u32 {
        let record = self.shared.records.record(slot);
        record
            .filter(|record| record.is_open())
            .map_or(0, Record::send_len)
    }

    /// The receive direction of a slot of another home that is open.
    fn guest_writer(&mut self, slot: u32) -> Option<(Writer<'_>, &Record)> {
        let record = self.shared.records.record(slot)?;
        let guest = self.guests.at_mut(slot)?;
        let writer = guest.recv_writer(slot_in_home(slot), record);
        record.is_open().then_some((writer, record))
    }

    /// Before such a slot is opened.
    #[cold]
    pub(super) fn prepare_elsewhere(&mut self, slot: u32) -> Result<(), StreamError> {
        self.turn_to(slot);
        let guest = self.guests.at_mut(slot).ok_or(StreamError::NoSlot)?;
        if guest.is_gone || slot_in_home(slot) >= guest.seen.len() {
            return Err(StreamError::NoSlot);
        }
        let own = self
            .shared
            .records
            .record(slot)
            .ok_or(StreamError::NoSlot)?;
        if held(own) {
            return Err(StreamError::Held);
        }
        guest.prepare(slot_in_home(slot), own);
        guest.used = guest.used.max(slot_in_home(slot) + 1);
        // One that is open is closed first.
        guest.open += 1;
        Ok(())
    }

    #[cold]
    pub(super) fn close_elsewhere(&mut self, slot: u32) -> bool {
        let writer = self.guest_writer(slot);
        let is_closed = writer.is_some_and(|(writer, record)| close(writer, record));
        if let Some(guest) = self.guests.at_mut(slot).filter(|_| is_closed) {
            guest.open -= 1;
            guest.free.push(slot_in_home(slot));
        }
        is_closed
    }

    #[cold]
    #[inline(never)]
    pub(super) fn write_elsewhere(
        &mut self,
        slot: u32,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), StreamError> {
        let is_there = slot < self.slots || self.guests.at(slot).is_some();
        let Some((mut writer, record)) = self.guest_writer(slot) else {
            return Err(if is_there {
                StreamError::NotOpen
            } else {
                StreamError::NoSlot
            });
        };
        let limit = record.stack.recv_limit.load(Relaxed);
        writer.place(offset, bytes, limit)
    }

    #[cold]
    pub(super) fn trim_elsewhere(&mut self, slot: u32, out_of_order: bool) -> bool {
        self.guest_writer(slot)
            .is_some_and(|(mut writer, _)| writer.trim(out_of_order))
    }

    #[cold]
    pub(super) fn wants_space_elsewhere(&self, slot: u32) -> bool {
        let own = self.shared.records.record(slot);
        let open = own.filter(|own| own.is_open()).zip(self.guests.at(slot));
        open.is_some_and(|(own, guest)| guest.wants_space(slot_in_home(slot), own))
    }

    /// As [`Self::sweep`], of one home.
    pub(super) fn sweep_home(&mut self, home: u32, budget: usize) {
        let turns = self
            .guests
            .home(home)
            .map_or(0, |guest| guest.recv.turns(budget));
        let base = slot_of(home, 0);
        for _ in 0..turns {
            let guest = self.guests.home(home);
            let next = guest.and_then(|guest| guest.recv.next_attached(&self.shared.records, base));
            if let Some(slot) = next {
                self.turn_to(base + slot);
                self.trim_elsewhere(base + slot, true);
                if let Some(guest) = self.guests.home(home) {
                    guest.recv.end_look(&self.shared.records, base, slot);
                }
            }
        }
        if let Some(guest) = self.guests.home(home) {
            guest.recv.end_sweep();
        }
        self.show();
    }

    /// As [`Self::economize`], of all homes but the first.
    #[cold]
    pub(super) fn economize_homes(&mut self, now: u64) -> Option<u64> {
        let homes = self.guests.numbers();
        homes
            .filter_map(|home| self.economize_home(home, now))
            .min()
    }

    fn economize_home(&mut self, home: u32, now: u64) -> Option<u64> {
        let guest = self.guests.home(home)?;
        if guest.recv.thrift.is_due_to_look(&guest.recv.ledger, now)? {
            self.sweep_home(home, AT_EASE);
        }
        let guest = self.guests.home(home)?;
        let side = &mut guest.recv;
        side.thrift
            .economize(&mut side.ledger, &guest.recv_memory, now)
    }
}
