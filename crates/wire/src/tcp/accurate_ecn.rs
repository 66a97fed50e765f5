//! The AccECN option (RFC 9768 §3.2.3): how many bytes arrived under each ECN codepoint, modulo
//! 2^24.

use super::kinds::NOP;

/// AccECN0: ECT(0), CE, ECT(1).
pub(super) const ECT0_FIRST: u8 = 172;
/// AccECN1: ECT(1), CE, ECT(0).
pub(super) const ECT1_FIRST: u8 = 174;

/// Three counters of which a shortened option leaves out the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EcnBytes {
    /// In the order of AccECN1, not AccECN0.
    ect1_first: bool,
    /// Counters that are there.
    len: u8,
    /// 24 bits each, in the order on the wire.
    counters: [u32; 3],
}

impl EcnBytes {
    /// The counters count modulo this.
    pub const MODULUS: u32 = 1 << 24;

    /// All three, the first two of which (`ect0` and `ce`, or `ect1` and `ce`) are the last to be
    /// left out.
    pub const fn new(ect0: u32, ce: u32, ect1: u32, ect1_first: bool) -> Self {
        let mask = Self::MODULUS - 1;
        let (first, last) = if ect1_first {
            (ect1, ect0)
        } else {
            (ect0, ect1)
        };
        Self {
            ect1_first,
            len: 3,
            counters: [first & mask, ce & mask, last & mask],
        }
    }

    /// The same with no more than `len` counters.
    #[must_use]
    pub fn truncated(mut self, len: u8) -> Self {
        self.len = self.len.min(len);
        for left_out in self.counters.iter_mut().skip(usize::from(self.len)) {
            *left_out = 0;
        }
        self
    }

    fn counter(&self, index: u8) -> Option<u32> {
        let counter = self.counters.get(usize::from(index)).copied();
        counter.filter(|_| index < self.len)
    }

    /// Bytes that arrived with ECT(0).
    pub fn ect0(&self) -> Option<u32> {
        self.counter(if self.ect1_first { 2 } else { 0 })
    }

    /// Bytes that arrived with CE.
    pub fn ce(&self) -> Option<u32> {
        self.counter(1)
    }

    /// Bytes that arrived with ECT(1).
    pub fn ect1(&self) -> Option<u32> {
        self.counter(if self.ect1_first { 0 } else { 2 })
    }

    /// As many whole counters as the value has, three at most. What is left over is padding
    /// (RFC 9768 §3.2.3). RFC 9768 §3.2.3-2.
    pub(super) fn parse(kind: u8, value: &[u8]) -> Self {
        let (counters, _) = value.as_chunks::<3>();
        let mut parsed = Self {
            ect1_first: kind == ECT1_FIRST,
            len: counters.len().min(3) as u8,
            counters: [0; 3],
        };
        for (into, &[a, b, c]) in parsed.counters.iter_mut().zip(counters) {
            *into = u32::from_be_bytes([0, a, b, c]);
        }
        parsed
    }

    /// What of it fits into `room` bytes.
    pub(super) fn fitting(self, room: usize) -> Option<Self> {
        let len = (0..=self.len).rev();
        len.map(|len| self.truncated(len))
            .find(|counters| counters.emitted_len() <= room)
    }

    /// Bytes on the wire, padded to a multiple of 4.
    pub(super) fn emitted_len(&self) -> usize {
        (2 + 3 * usize::from(self.len)).next_multiple_of(4)
    }

    pub(super) fn emit<'a>(&self, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (place, rest) = out.split_at_mut_checked(self.emitted_len())?;
        let kind = if self.ect1_first {
            ECT1_FIRST
        } else {
            ECT0_FIRST
        };
        let counters = self.counters.iter().take(usize::from(self.len));
        let bytes = [kind, 2 + 3 * self.len]
            .into_iter()
            .chain(counters.flat_map(|counter| counter.to_be_bytes().into_iter().skip(1)))
            .chain(std::iter::repeat(NOP));
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = from;
        }
        Some(rest)
    }
}
