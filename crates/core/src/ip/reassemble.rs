//! Datagrams from fragments, for IPv4 (RFC 791 §3.2, RFC 1122 §3.3.2) and IPv6 (RFC 8200 §4.5):
//! bounded in memory, time and number.

mod datagram;
mod fragment;

use std::collections::VecDeque;
use std::time::Duration;

use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;

pub use fragment::{Assembled, Fragment, Key};

use datagram::{Datagram, Refusal};

/// Most datagrams in the making.
const MAX_DATAGRAMS: usize = 256;
/// Most datagrams in the making from one source address.
const MAX_PER_SOURCE: usize = 32;

/// All datagrams in the making, oldest first.
#[derive(Debug)]
pub struct Reassembler {
    datagrams: VecDeque<Datagram>,
    timeout: Duration,
    limit: usize,
    used: usize,
}

impl Reassembler {
    /// Holds at most `limit` bytes (bookkeeping included), each datagram for at most `timeout`
    /// after its first fragment.
    pub fn new(limit: usize, timeout: Duration) -> Self {
        Self {
            datagrams: VecDeque::new(),
            timeout,
            limit,
            used: 0,
        }
    }

    /// Takes a fragment in; returns the datagram if it is now complete.
    ///
    /// # Errors
    /// Why the fragment, and with it perhaps its whole datagram, was dropped. What was dropped
    /// besides it is counted here. RFC 1122 §3.3.2-1; RFC 8200 §5-1.
    pub fn push(
        &mut self,
        now: Instant,
        fragment: &Fragment<'_>,
        counters: &mut Counters,
    ) -> Result<Option<Assembled>, DropReason> {
        if fragment.data.is_empty() || fragment.more && !fragment.data.len().is_multiple_of(8) {
            return Err(DropReason::FragmentMalformed);
        }
        let cost = Datagram::cost(fragment);
        let index = match self
            .datagrams
            .iter()
            .position(|datagram| datagram.key == fragment.key)
        {
            Some(index) => self.make_room(cost, Some(index), counters)?,
            None => {
                self.make_room(cost + Datagram::BASE_COST, None, counters)?;
                self.open(now, fragment, counters)
            }
        };
        let Some(datagram) = self.datagrams.get_mut(index) else {
            return Err(DropReason::FragmentMemory);
        };
        let before = datagram.charge();
        let outcome = datagram.add(fragment);
        self.used = self.used + datagram.charge() - before;
        match outcome {
            Ok(()) if datagram.is_complete() => self.finish(index, counters).map(Some),
            Ok(()) => Ok(None),
            Err(Refusal { reason, others }) => {
                counters.drops[reason as usize] += others;
                Err(reason)
            }
        }
    }

    /// A new entry at the end. If its source has its share already, that source's oldest goes.
    fn open(&mut self, now: Instant, fragment: &Fragment<'_>, counters: &mut Counters) -> usize {
        let of_source = |datagram: &&Datagram| datagram.key.src == fragment.key.src;
        if self.datagrams.iter().filter(of_source).count() >= MAX_PER_SOURCE {
            let oldest = self
                .datagrams
                .iter()
                .position(|datagram| of_source(&datagram));
            self.evict(oldest.unwrap_or_default(), counters);
        } else if self.datagrams.len() >= MAX_DATAGRAMS {
            self.evict(0, counters);
        }
        self.datagrams
            .push_back(Datagram::new(fragment, now + self.timeout));
        self.used += Datagram::BASE_COST;
        self.datagrams.len() - 1
    }

    /// Evicts the oldest until `cost` more bytes fit, but not `keep`, whose index (now) it returns.
    fn make_room(
        &mut self,
        cost: usize,
        keep: Option<usize>,
        counters: &mut Counters,
    ) -> Result<usize, DropReason> {
        let mut keep = keep.unwrap_or(usize::MAX);
        while self.used + cost > self.limit {
            let victim = usize::from(keep == 0);
            if victim >= self.datagrams.len() {
                return Err(DropReason::FragmentMemory);
            }
            self.evict(victim, counters);
            if keep != usize::MAX && victim < keep {
                keep -= 1;
            }
        }
        Ok(keep)
    }

    fn remove(&mut self, index: usize) -> Option<Datagram> {
        let datagram = self.datagrams.remove(index)?;
        self.used -= datagram.charge();
        Some(datagram)
    }

    fn evict(&mut self, index: usize, counters: &mut Counters) {
        if let Some(datagram) = self.remove(index) {
            counters.drops[DropReason::FragmentMemory as usize] += datagram.pieces();
        }
    }

    fn finish(&mut self, index: usize, counters: &mut Counters) -> Result<Assembled, DropReason> {
        let datagram = self.remove(index).ok_or(DropReason::FragmentMemory)?;
        let pieces = datagram.pieces();
        let assembled = datagram.assemble();
        match assembled {
            Some(assembled) => {
                counters.reassembled += 1;
                Ok(assembled)
            }
            // RFC 3168 §5.3: some fragments say "congestion experienced", others "not ECN-capable".
            None => {
                counters.drops[DropReason::FragmentMalformed as usize] += pieces.saturating_sub(1);
                Err(DropReason::FragmentMalformed)
            }
        }
    }

    /// Gives up a datagram whose time is over. `None`: no more are due. `Some(None)`: its first
    /// fragment never came (then nobody is told: RFC 1122 §3.3.2, RFC 8200 §4.5).
    /// RFC 1122 §3.3.2-2.
    pub fn pop_expired(
        &mut self,
        now: Instant,
        counters: &mut Counters,
    ) -> Option<Option<Assembled>> {
        if self.next_deadline()? > now {
            return None;
        }
        let datagram = self.remove(0)?;
        counters.drops[DropReason::FragmentTimeout as usize] += datagram.pieces();
        Some(datagram.first_fragment())
    }

    /// When [`pop_expired`](Self::pop_expired) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.datagrams.front().map(|datagram| datagram.deadline)
    }

    /// Bytes held.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Datagrams in the making.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }
}

#[cfg(test)]
mod tests;
