//! What a stack leaves behind: the endpoints of the connections that its applications have, in
//! memory that outlives its process. The stack that takes its place finds them there, goes on with
//! those that it can, and tells the peers of the others.
//!
//! A process can end between any two instructions. A record counts only with its last word, which
//! is written at once and as the last.

use std::sync::Arc;

use ring::region::{Plot, Shared};
use ring::stream::Remains;
use wire::seq::SeqNumber;

use crate::config::Config;
use crate::estate::{self, Estate, Holdings, Orphan, Start};
use crate::flow::FlowKey;

/// A record: the addresses, where the sequence numbers begin, and a word with the ports and a mark.
const RECORD: usize = 48;
/// Behind the addresses.
const NUMBERS: usize = 32;
const LAST_WORD: usize = RECORD - 8;
/// Not zero: this is a record.
const MARK: [u8; 4] = *b"KNOW";
/// In front of the records: how many of either part may be in use.
const HEAD: usize = 16;

/// How what outlives a process is laid out, and by which version: another build may have other
/// offsets and other flags, and must not read it.
pub const LAYOUT: u64 = {
    // FNV-1a over the words and the bytes of the version.
    const fn add(hash: u64, word: u64) -> u64 {
        (hash ^ word).wrapping_mul(0x0100_0000_01b3)
    }
    const fn add_all(mut hash: u64, words: &[usize]) -> u64 {
        let mut words = words;
        while let [word, rest @ ..] = words {
            hash = add(hash, *word as u64);
            words = rest;
        }
        hash
    }
    let mut hash = add_all(0xcbf2_9ce4_8422_2325, &estate::LAYOUT);
    hash = add_all(hash, &Remains::LAYOUT);
    hash = add_all(hash, &[RECORD, NUMBERS, LAST_WORD, HEAD]);
    let mut version = env!("CARGO_PKG_VERSION").as_bytes();
    while let [byte, rest @ ..] = version {
        hash = add(hash, *byte as u64);
        version = rest;
    }
    hash
};

/// A part of the memory.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Connections of the stack, by slot.
    Own = 0,
    /// Connections of those before it, whose peers have not been told.
    Left = 1,
}

/// See the module. One stack at a time writes it.
#[derive(Debug)]
pub struct Testament {
    memory: Arc<Shared>,
    /// Where it is in the memory.
    at: usize,
    /// Records of each part.
    slots: u32,
    /// Records of [`Part::Own`] that may be in use.
    used: u32,
    /// Where the control blocks and the bytes of the stack are, if they are to outlive it.
    estate: Option<(Plot, Holdings)>,
}

/// A connection that was left.
#[derive(Debug)]
pub(crate) struct Left {
    pub key: FlowKey,
    /// Its record among those left.
    pub place: u32,
    /// What it takes to go on with it, if that can be done.
    pub orphan: Option<Orphan>,
}

impl Testament {
    /// Bytes that it takes for so many connections.
    pub const fn size(connections: u32) -> usize {
        HEAD + 2 * RECORD * connections as usize
    }

    /// The testament at byte `at` of `memory`, a multiple of 8, for as many connections as
    /// [`Testament::size`] was asked for; what does not lie inside is not kept. Fresh memory says
    /// that nothing is left.
    pub fn new(memory: Arc<Shared>, at: usize, connections: u32) -> Self {
        Self {
            memory,
            at,
            slots: connections,
            used: 0,
            estate: None,
        }
    }

    /// The same, of stacks that have what these `holdings` say in `plot`: the next goes on with the
    /// connections of the one before.
    #[must_use]
    pub fn with_plot(self, plot: Plot, holdings: Holdings) -> Self {
        Self {
            estate: Some((plot, holdings)),
            ..self
        }
    }

    /// The plot for a stack with this `config`, cleared. What was left is to be inherited before.
    /// `None`: there is none that fits.
    pub(crate) fn take_plot(&mut self, config: &Config) -> Option<Plot> {
        let (mut plot, holdings) = self.estate.take()?;
        let fits = holdings == Holdings::of(config);
        plot.clear().ok().filter(|()| fits).map(|()| plot)
    }

    /// An application has the connection in `slot`. More connections than there is room for are not
    /// noted.
    pub(crate) fn enter(&mut self, slot: u32, key: &FlowKey, start: Start) {
        if slot >= self.slots {
            return;
        }
        if slot >= self.used {
            self.used = slot + 1;
            self.set_used(Part::Own, self.used);
        }
        self.write(Part::Own, slot, key, start);
    }

    /// The connection in `slot` has ended.
    pub(crate) fn strike(&mut self, slot: u32) {
        if slot < self.used {
            self.clear(Part::Own, slot);
        }
    }

    /// The peer of what was left there has been told, or is not to be told any more.
    pub(crate) fn settle(&self, place: u32) {
        self.clear(Part::Left, place);
    }

    /// Takes over what the stack before had, and what that one had been left.
    pub(crate) fn inherit(&mut self) -> Vec<Left> {
        let told = |place| {
            let (key, _) = self.read(Part::Left, place)?;
            let orphan = None;
            Some(Left { key, place, orphan })
        };
        let mut all: Vec<Left> = (0..self.used(Part::Left)).filter_map(told).collect();
        let estate = self.estate.as_ref();
        let mut estate = estate.and_then(|(plot, holdings)| Estate::new(plot, holdings).ok());
        let mut place = 0;
        for slot in 0..self.used(Part::Own) {
            let Some((key, start)) = self.read(Part::Own, slot) else {
                continue;
            };
            if let Some(free) = self.leave(place, &key, start) {
                place = free + 1;
                let orphan = estate.as_mut();
                let orphan = orphan.and_then(|estate| estate.orphan(slot, start));
                let place = free;
                all.push(Left { key, place, orphan });
            }
            self.clear(Part::Own, slot);
        }
        self.set_used(Part::Own, 0);
        self.used = 0;
        all
    }

    /// Takes over what the stack of another seat had and had been left: it is left here from now
    /// on, as far as there is room.
    pub(crate) fn inherit_too(&mut self, mut other: Self, config: &Config) -> Vec<Left> {
        let mut all = other.inherit();
        let mut next = 0;
        all.retain_mut(|left| {
            let place = self.leave(next, &left.key, Start::default());
            left.place = place.unwrap_or_default();
            next = left.place + 1;
            place.is_some()
        });
        other.forget_left();
        // Gives the memory back.
        drop(other.take_plot(config));
        all
    }

    /// Whether nobody is to be told of anything, and there is nothing to go on with.
    pub fn is_empty(&self) -> bool {
        let is_any = |part| (0..self.used(part)).any(|slot| self.read(part, slot).is_some());
        !is_any(Part::Own) && !is_any(Part::Left)
    }

    /// Notes a connection in the first free place from `from` on. `None`: there is none.
    fn leave(&self, from: u32, key: &FlowKey, start: Start) -> Option<u32> {
        let left = self.used(Part::Left);
        let is_free = |place: &u32| *place >= left || self.read(Part::Left, *place).is_none();
        let place = (from..self.slots).find(is_free)?;
        if place >= left {
            self.set_used(Part::Left, place + 1);
        }
        self.write(Part::Left, place, key, start);
        Some(place)
    }

    /// Nothing is left any more.
    pub(crate) fn forget_left(&self) {
        self.set_used(Part::Left, 0);
    }

    fn record(&self, part: Part, slot: u32) -> usize {
        let before = part as usize * self.slots as usize + slot as usize;
        self.at + HEAD + before * RECORD
    }

    fn used(&self, part: Part) -> u32 {
        let mut word = [0; 8];
        self.memory.read_at(self.at + part as usize * 8, &mut word);
        let used = u64::from_ne_bytes(word);
        u32::try_from(used).map_or(self.slots, |used| used.min(self.slots))
    }

    fn set_used(&self, part: Part, used: u32) {
        let word = u64::from(used).to_ne_bytes();
        self.memory.write_at(self.at + part as usize * 8, &word);
    }

    fn write(&self, part: Part, slot: u32, key: &FlowKey, start: Start) {
        let at = self.record(part, slot);
        let bytes = key.bytes();
        let (addresses, ports) = bytes.split_at(NUMBERS);
        let mut numbers = [0; 8];
        numbers[..4].copy_from_slice(&start.sent.0.to_ne_bytes());
        numbers[4..].copy_from_slice(&start.irs.0.to_ne_bytes());
        let mut last = [0; 8];
        last[..4].copy_from_slice(ports);
        last[4..].copy_from_slice(&MARK);
        self.memory.write_at(at + LAST_WORD, &[0; 8]);
        self.memory.write_at(at, addresses);
        self.memory.write_at(at + NUMBERS, &numbers);
        self.memory.write_at(at + LAST_WORD, &last);
    }

    fn clear(&self, part: Part, slot: u32) {
        let at = self.record(part, slot) + LAST_WORD;
        self.memory.write_at(at, &[0; 8]);
    }

    fn read(&self, part: Part, slot: u32) -> Option<(FlowKey, Start)> {
        let mut record = [0; RECORD];
        let is_there = self.memory.read_at(self.record(part, slot), &mut record);
        let (addresses, rest) = record.split_first_chunk::<NUMBERS>()?;
        let (sent, rest) = rest.split_first_chunk()?;
        let (irs, rest) = rest.split_first_chunk()?;
        let (ports, mark) = rest.split_first_chunk::<4>()?;
        let mut key = [0; 36];
        key[..NUMBERS].copy_from_slice(addresses);
        key[NUMBERS..].copy_from_slice(ports);
        let start = Start {
            sent: SeqNumber(u32::from_ne_bytes(*sent)),
            irs: SeqNumber(u32::from_ne_bytes(*irs)),
        };
        (is_there && *mark == MARK).then(|| (FlowKey::from_bytes(&key), start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 4;

    fn memory() -> Arc<Shared> {
        Arc::new(Shared::create("testament", Testament::size(SLOTS) + 64).unwrap())
    }

    fn testament(memory: &Arc<Shared>) -> Testament {
        Testament::new(Arc::clone(memory), 64, SLOTS)
    }

    fn key(port: u16) -> FlowKey {
        FlowKey::new(
            ([10, 0, 0, 1], 80).into(),
            ([0xfd00, 0, 0, 0, 0, 0, 0, 2], port).into(),
        )
    }

    fn ports(left: &[Left]) -> Vec<u16> {
        left.iter().map(|left| left.key.remote().port()).collect()
    }

    fn places(left: &[Left]) -> Vec<u32> {
        left.iter().map(|left| left.place).collect()
    }

    const START: Start = Start {
        sent: SeqNumber(5),
        irs: SeqNumber(6),
    };

    #[test]
    fn what_has_not_ended_is_left() {
        let memory = memory();
        let mut first = testament(&memory);
        assert!(first.inherit().is_empty());
        for slot in 0..3 {
            first.enter(slot, &key(slot as u16 + 1), START);
        }
        first.strike(1);
        let mut second = testament(&memory);
        assert_eq!(second.read(Part::Own, 2), Some((key(3), START)));
        let left = second.inherit();
        assert_eq!((ports(&left), places(&left)), (vec![1, 3], vec![0, 1]));
        assert_eq!(left[1].key, key(3));
        // A slot that is used again is another connection.
        second.enter(0, &key(7), START);
        second.settle(0);
        assert_eq!(ports(&testament(&memory).inherit()), [3, 7]);
    }

    #[test]
    fn who_inherits_and_ends_leaves_both() {
        let memory = memory();
        testament(&memory).enter(2, &key(1), START);
        let mut second = testament(&memory);
        assert_eq!(ports(&second.inherit()), [1]);
        second.enter(2, &key(2), START);
        let mut third = testament(&memory);
        assert_eq!(ports(&third.inherit()), [1, 2]);
        third.settle(0);
        third.settle(1);
        third.forget_left();
        assert!(testament(&memory).inherit().is_empty());
    }

    /// As when one process goes on for several.
    #[test]
    fn what_others_left_is_left_with_their_heir() {
        let memory = memory();
        testament(&memory).enter(0, &key(1), START);
        let room = Arc::new(Shared::create("other", Testament::size(SLOTS)).unwrap());
        let other = || Testament::new(Arc::clone(&room), 0, SLOTS);
        for port in 2..9 {
            let mut stack = other();
            if port > 5 {
                stack.inherit();
            }
            stack.enter(u32::from(port) % SLOTS, &key(port), START);
        }
        let mut heir = testament(&memory);
        assert!(!heir.is_empty() && !other().is_empty());
        assert_eq!(ports(&heir.inherit()), [1]);
        let left = heir.inherit_too(other(), &Config::default());
        assert_eq!((left.len(), places(&left)), (3, vec![1, 2, 3]));
        assert!(other().is_empty());
        assert_eq!(testament(&memory).inherit().len(), 4);
        heir.forget_left();
        assert!(heir.is_empty());
    }

    #[test]
    fn room_is_bounded() {
        let memory = memory();
        for _ in 0..3 {
            let mut testament = testament(&memory);
            assert!(testament.inherit().len() <= SLOTS as usize);
            for slot in 0..SLOTS + 3 {
                testament.enter(slot, &key(1), START);
            }
            testament.strike(SLOTS + 1);
        }
        assert_eq!(testament(&memory).inherit().len(), SLOTS as usize);
        let mut outside = [0; 64];
        memory.read_at(0, &mut outside);
        assert_eq!(outside, [0; 64]);
    }

    #[test]
    fn a_record_without_its_last_word_is_none() {
        let memory = memory();
        let mut first = testament(&memory);
        first.enter(0, &key(1), START);
        first.enter(1, &key(2), START);
        let last = first.record(Part::Own, 0) + LAST_WORD;
        memory.write_at(last, &[0; 8]);
        assert_eq!(ports(&testament(&memory).inherit()), [2]);
    }

    #[test]
    fn any_bytes_are_taken() {
        let memory = memory();
        memory.write_at(64, &vec![0xff; Testament::size(SLOTS)]);
        assert!(testament(&memory).inherit().len() <= SLOTS as usize);
    }
}
