//! The homes of streams besides the first, and how their slots are numbered.

use std::io;

use super::guest::Guest;
use super::marks::Mark;
use super::memory::Memory;
use super::plan::HomeMemory;
use super::record::Record;
use super::side::Side;

/// Slots of a home, as a power of two.
const SHIFT: u32 = 16;
/// No slot.
const NONE: u32 = u32::MAX;
/// The owner of a slot that has no connection any more.
pub(super) const NOBODY: u32 = u32::MAX;

/// The stack's number of a slot that is `slot` in its home.
pub fn slot_of(home: u32, slot: u32) -> u32 {
    home << SHIFT | slot
}

/// The home of a slot that is not of the first.
pub(super) fn home_of(slot: u32) -> u32 {
    slot >> SHIFT
}

/// The number that the application of a home knows a slot by, of the stack's number.
pub fn slot_in_home(slot: u32) -> u32 {
    slot & ((1 << SHIFT) - 1)
}

/// Numbers of slots that there are, of those from 0 on in this process and of so many other homes.
///
/// # Errors
/// `InvalidInput`: there are not so many numbers.
pub(super) fn all_slots(slots: u32, homes: u32) -> io::Result<u32> {
    if homes == 0 {
        return Ok(slots);
    }
    let all = slots.div_ceil(1 << SHIFT).checked_add(homes);
    let all = all.and_then(|all| all.checked_mul(1 << SHIFT));
    all.ok_or_else(|| {
        let message = format!("{homes} homes of streams are too many");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

/// The homes, by their numbers.
#[derive(Debug)]
pub(super) struct Guests {
    /// The numbers that the slots in this process take up are never there.
    homes: Vec<Option<Box<Guest>>>,
    first: usize,
    most: usize,
    count: usize,
    /// Whose turn it is next.
    hand: usize,
    /// The slot that the stack has turned to, or `NONE`.
    pub(super) current: u32,
}

impl Guests {
    /// None yet, behind `slots`, of the numbers below `all`.
    pub(super) fn new(slots: u32, all: u32) -> Self {
        Self {
            homes: Vec::new(),
            first: (slots as usize).div_ceil(1 << SHIFT),
            most: (all >> SHIFT) as usize,
            count: 0,
            hand: 0,
            current: NONE,
        }
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Guest> {
        self.homes.get((slot >> SHIFT) as usize)?.as_deref()
    }

    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Guest> {
        self.home(slot >> SHIFT)
    }

    pub(super) fn home(&mut self, home: u32) -> Option<&mut Guest> {
        self.homes.get_mut(home as usize)?.as_deref_mut()
    }

    /// The record that the program of a slot sees.
    pub(super) fn seen(&self, slot: u32) -> Option<&Record> {
        self.at(slot)?.seen.record(slot_in_home(slot))
    }

    pub(super) fn seen_mark(&self, slot: u32) -> Option<&Mark> {
        self.at(slot)?.seen_marks.at(slot_in_home(slot))
    }

    #[cold]
    pub(super) fn send_memory(&self, slot: u32) -> Option<&Memory> {
        self.at(slot).map(|guest| &guest.send_memory)
    }

    #[cold]
    pub(super) fn recv_memory(&self, slot: u32) -> Option<&Memory> {
        self.at(slot).map(|guest| &guest.recv_memory)
    }

    #[cold]
    pub(super) fn recv_side(&self, slot: u32) -> Option<&Side> {
        self.at(slot).map(|guest| &guest.recv)
    }

    /// Whether the stack has turned to this slot and to no other since.
    pub(super) fn is_current(&self, slot: u32) -> bool {
        slot == self.current || self.at(slot).is_none()
    }

    /// From now on it is this one. Returns which it was.
    pub(super) fn turn(&mut self, slot: Option<u32>) -> Option<u32> {
        let before = std::mem::replace(&mut self.current, slot.unwrap_or(NONE));
        (before != NONE).then_some(before)
    }

    pub(super) fn add(&mut self, memory: &HomeMemory) -> io::Result<u32> {
        if memory.plan().slots > 1 << SHIFT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let number = (self.first..self.most).find(|&home| self.is_free(home));
        let number = number.ok_or(io::ErrorKind::OutOfMemory)?;
        self.put(number, memory)?;
        Ok(number as u32)
    }

    /// Adds a home under this number.
    ///
    /// # Errors
    /// `InvalidData`: it is in use, or none; as [`Self::add`].
    pub(super) fn add_as(&mut self, home: u32, memory: &HomeMemory) -> io::Result<()> {
        let number = home as usize;
        if !(self.first..self.most).contains(&number) || !self.is_free(number) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.put(number, memory)
    }

    fn is_free(&self, home: usize) -> bool {
        self.homes.get(home).is_none_or(Option::is_none)
    }

    fn put(&mut self, number: usize, memory: &HomeMemory) -> io::Result<()> {
        let guest = Box::new(Guest::new(memory)?);
        if self.homes.len() <= number {
            self.homes.resize_with(number + 1, || None);
        }
        if let Some(home) = self.homes.get_mut(number) {
            *home = Some(guest);
            self.count += 1;
        }
        Ok(())
    }

    /// Takes a home out that no slot is open of.
    pub(super) fn remove(&mut self, home: u32) -> Option<Box<Guest>> {
        let place = self.homes.get_mut(home as usize)?;
        let unused = place.take_if(|guest| guest.open == 0);
        self.count -= usize::from(unused.is_some());
        unused
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// They take turns.
    pub(super) fn next(&mut self) -> Option<u32> {
        let behind = self.homes.iter().skip(self.hand).position(Option::is_some);
        let next = match behind {
            Some(more) => self.hand + more,
            None => self.homes.iter().position(Option::is_some)?,
        };
        self.hand = next + 1;
        Some(next as u32)
    }

    pub(super) fn recv_bytes_in_use(&self) -> usize {
        let guests = self.homes.iter().flatten();
        guests.map(|guest| guest.recv.ledger.in_use()).sum()
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..self.homes.len() as u32
    }
}
