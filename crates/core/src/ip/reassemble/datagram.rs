//! One datagram in the making.

use wire::ip::{Ecn, Protocol};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::id::PortId;

use super::fragment::{Assembled, Fragment, Key};

/// Most pieces: enough for 64 KB over the smallest links that matter.
const MAX_PIECES: usize = 128;
/// Longest header chain of a first fragment that is kept to be quoted in ICMP errors, in bytes.
const MAX_HEAD: usize = 128;
/// What a piece is charged beyond its bytes.
const PIECE_COST: usize = 64;

#[derive(Debug)]
struct Piece {
    start: u32,
    data: Box<[u8]>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.start + self.data.len() as u32
    }
}

/// The pieces of a datagram that have arrived.
#[derive(Debug)]
pub struct Datagram {
    /// Whose fragments it takes.
    pub key: Key,
    /// When to give up.
    pub deadline: Instant,
    port: PortId,
    /// Sorted, disjoint.
    pieces: Vec<Piece>,
    held: u32,
    /// Known from the last fragment.
    total: Option<u32>,
    /// From the first fragment.
    protocol: Protocol,
    head: Vec<u8>,
    /// Codepoints seen, as a set of bits.
    ecn: u8,
    /// Fragments contradicted each other: RFC 5722 §4 has all others dropped too, so the record
    /// stays until its time is over.
    refused: bool,
}

/// Why a fragment was not taken, and how many others were dropped with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: DropReason,
    /// Fragments of this datagram that had been held until now.
    pub others: u64,
}

enum Fit {
    At(usize),
    Duplicate,
    Overlap,
}

impl Datagram {
    /// What a datagram is charged without its pieces.
    pub const BASE_COST: usize = 256 + MAX_HEAD;

    /// What a fragment is charged.
    pub const fn cost(fragment: &Fragment<'_>) -> usize {
        fragment.data.len() + PIECE_COST
    }

    /// For the fragments that belong with `fragment`, which is not yet added.
    pub fn new(fragment: &Fragment<'_>, deadline: Instant) -> Self {
        Self {
            key: fragment.key,
            deadline,
            port: fragment.port,
            pieces: Vec::new(),
            held: 0,
            total: None,
            protocol: fragment.protocol,
            head: Vec::new(),
            ecn: 0,
            refused: false,
        }
    }

    /// Bytes it is charged.
    pub fn charge(&self) -> usize {
        Self::BASE_COST + self.held as usize + self.pieces.len() * PIECE_COST
    }

    /// Fragments held.
    pub fn pieces(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Takes a fragment in.
    ///
    /// # Errors
    /// It was not taken; the datagram may be given up as a whole.
    pub fn add(&mut self, fragment: &Fragment<'_>) -> Result<(), Refusal> {
        if self.refused {
            return Err(Refusal {
                reason: DropReason::FragmentOverlap,
                others: 0,
            });
        }
        let start = u32::from(fragment.offset);
        let end = start + fragment.data.len() as u32;
        if !self.agrees(end, fragment.more) {
            return Err(self.refuse(DropReason::FragmentMalformed));
        }
        match self.fit(start, end, fragment.data) {
            Fit::Duplicate => return Ok(()),
            Fit::Overlap => return Err(self.refuse(DropReason::FragmentOverlap)),
            Fit::At(_) if self.pieces.len() >= MAX_PIECES => {
                return Err(self.refuse(DropReason::FragmentMemory));
            }
            Fit::At(index) => self.pieces.insert(
                index,
                Piece {
                    start,
                    data: fragment.data.into(),
                },
            ),
        }
        self.held += fragment.data.len() as u32;
        self.ecn |= 1 << fragment.ecn.bits();
        if !fragment.more {
            self.total = Some(end);
        }
        if start == 0 {
            self.protocol = fragment.protocol;
            if fragment.head.len() <= MAX_HEAD {
                self.head = fragment.head.to_vec();
            }
        }
        Ok(())
    }

    /// Whether a fragment that ends at `end` agrees with what is known of the length.
    fn agrees(&self, end: u32, more: bool) -> bool {
        let longest = self.pieces.last().map_or(0, Piece::end);
        match self.total {
            Some(total) if more => end <= total,
            Some(total) => end == total,
            None => more || end >= longest,
        }
    }

    /// RFC 8200 §4.5-1.
    fn fit(&self, start: u32, end: u32, data: &[u8]) -> Fit {
        let index = self.pieces.partition_point(|piece| piece.end() <= start);
        match self.pieces.get(index) {
            Some(next) if next.start == start && *next.data == *data => Fit::Duplicate,
            Some(next) if next.start < end => Fit::Overlap,
            _ => Fit::At(index),
        }
    }

    fn refuse(&mut self, reason: DropReason) -> Refusal {
        let others = self.pieces();
        self.pieces = Vec::new();
        self.head = Vec::new();
        self.held = 0;
        self.refused = true;
        Refusal { reason, others }
    }

    /// Whether all pieces are there: they are disjoint and within the length, so that it is enough
    /// to count bytes.
    pub fn is_complete(&self) -> bool {
        self.total == Some(self.held)
    }

    /// RFC 3168 §5.3: congestion seen by one fragment was seen by all. `None`: the fragments
    /// disagree whether they may see any. RFC 3168 §5.3-1.
    fn ecn(&self) -> Option<Ecn> {
        let seen = |ecn: Ecn| self.ecn & (1 << ecn.bits()) != 0;
        match (seen(Ecn::Ce), seen(Ecn::NotEct)) {
            (true, true) => None,
            (true, false) => Some(Ecn::Ce),
            (false, true) => Some(Ecn::NotEct),
            (false, false) if seen(Ecn::Ect0) => Some(Ecn::Ect0),
            (false, false) => Some(Ecn::Ect1),
        }
    }

    /// The whole datagram, once it [is complete](Self::is_complete).
    pub fn assemble(self) -> Option<Assembled> {
        let ecn = self.ecn()?;
        let mut data = Vec::with_capacity(self.held as usize);
        for piece in &self.pieces {
            data.extend_from_slice(&piece.data);
        }
        Some(self.assembled(ecn, data))
    }

    /// The first fragment, if it is there and its headers were kept.
    pub fn first_fragment(mut self) -> Option<Assembled> {
        if self.head.is_empty() {
            return None;
        }
        let first = self.pieces.first_mut().filter(|piece| piece.start == 0)?;
        let data = std::mem::take(&mut first.data).into_vec();
        Some(self.assembled(Ecn::NotEct, data))
    }

    fn assembled(self, ecn: Ecn, data: Vec<u8>) -> Assembled {
        let Key { src, dst, .. } = self.key;
        Assembled {
            src,
            dst,
            port: self.port,
            protocol: self.protocol,
            ecn,
            head: self.head,
            data,
        }
    }
}
