//! Segment text and FIN: bytes go to their place in the receive stream, and RCV.NXT moves over what
//! is complete.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::side_pool::SidePool;
use crate::tcp::flags::ReceiveFlags;
use crate::tcp::ranges::{Range, RangePool, most_ranges};
use crate::tcp::receive::actions::ReceiveActions;
use crate::tcp::receive::held::Held;
use crate::tcp::receive::part::Receive;

#[cold]
#[inline(never)]
fn free_held(held: &mut SidePool<Held>, ranges: &mut RangePool, index: u32) {
    if let Some(held) = held.at_mut(index) {
        ranges.clear(&mut held.set);
    }
    held.free(index);
}

impl Receive<'_> {
    /// Takes the next bytes in order, where nothing is held. The part does not decide when to
    /// acknowledge them: the application hears of them first.
    #[inline(always)]
    pub fn take_next(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        self.statistics.data_at = now.as_millis() as u32;
        let start = self.hot.nxt;
        self.write_piece(start, bytes)?;
        self.commit(start + bytes.len() as u32);
        self.note_size(bytes);
        Ok(())
    }

    /// Takes `bytes` from inside the window, the first of which has the sequence number `start`,
    /// and decides when to acknowledge them.
    pub fn take_text(
        &mut self,
        now: Instant,
        start: SeqNumber,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        self.statistics.data_at = now.as_millis() as u32;
        let had_holes = self.bits.has(ReceiveFlags::HOLES);
        self.note_held(start, bytes);
        let before = self.hot.nxt;
        if let Err(reason) = self.accept_bytes(start, bytes) {
            // RFC 5681 §4.2: an out-of-order segment is acknowledged at once, even if there is no
            // room to keep it.
            if start != self.hot.nxt {
                self.owe_duplicate_ack();
            }
            return Err(reason);
        }
        self.note_size(bytes);
        if self.hot.nxt == before {
            self.statistics.out_of_order = self.statistics.out_of_order.saturating_add(1);
            self.owe_duplicate_ack();
        } else {
            self.owe_ack(now, had_holes);
        }
        Ok(())
    }

    /// The size of the largest segment is what a full-sized one has.
    #[inline(always)]
    fn note_size(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.hot.mss = self.hot.mss.max(len.min(self.mss));
    }

    /// Notes the first part of `bytes` that is held already.
    fn note_held(&mut self, start: SeqNumber, bytes: &[u8]) {
        let end = start + bytes.len() as u32;
        if let Some(Range { start, end }) = self.view().first_held(start, end) {
            self.note_duplicate(start, end);
        }
    }

    /// Places `bytes`, whose first has sequence number `start` (inside the window), and moves
    /// RCV.NXT over what is complete now. Bytes that had arrived before are not overwritten.
    /// RFC 2018 §8-2.
    fn accept_bytes(&mut self, start: SeqNumber, bytes: &[u8]) -> Result<(), DropReason> {
        let end = start + bytes.len() as u32;
        if self.bits.has(ReceiveFlags::HOLES) {
            self.write_around(start, bytes)?;
        } else {
            self.write_piece(start, bytes)?;
        }
        if start == self.hot.nxt {
            self.advance(end);
            Ok(())
        } else {
            self.hold(start, end)
        }
    }

    /// Writes what is not held yet.
    fn write_around(&mut self, start: SeqNumber, bytes: &[u8]) -> Result<(), DropReason> {
        let end = start + bytes.len() as u32;
        let mut from = start;
        while let Some(gap) = self.view().gap(from, end) {
            let skip = (gap.start - start) as usize;
            let piece = bytes
                .get(skip..skip + gap.len() as usize)
                .unwrap_or_default();
            self.write_piece(gap.start, piece)?;
            from = gap.end;
        }
        Ok(())
    }

    #[inline(always)]
    fn write_piece(&mut self, seq: SeqNumber, bytes: &[u8]) -> Result<(), DropReason> {
        let offset = seq - self.hot.nxt;
        self.streams
            .write_at(self.slot, offset, bytes)
            .map_err(|_| DropReason::TcpMemory)
    }

    /// Commits up to `end`, and further if that reaches ranges held.
    fn advance(&mut self, end: SeqNumber) {
        let end = if self.bits.has(ReceiveFlags::HOLES) {
            self.join_held(end)
        } else {
            end
        };
        self.commit(end);
        self.actions |= ReceiveActions::READABLE;
    }

    /// RCV.NXT moves to `end`: the application can read up to there.
    #[inline(always)]
    fn commit(&mut self, end: SeqNumber) {
        let n = end - self.hot.nxt;
        self.streams.commit(self.slot, n);
        self.hot.nxt = end;
        self.statistics.bytes_received += u64::from(n);
        self.counters.tcp_bytes_in += u64::from(n);
    }

    /// How far what is complete reaches, if it reaches `end` without what is held.
    fn join_held(&mut self, end: SeqNumber) -> SeqNumber {
        let Some(held) = self.held.at_mut(self.cold.held) else {
            return end;
        };
        let touching = self.ranges.view(&held.set).containing(end);
        let end = touching.map_or(end, |range| range.end);
        self.ranges.remove_below(&mut held.set, end);
        if self.ranges.view(&held.set).is_empty() {
            self.forget_held();
        }
        end
    }

    /// RFC 9293 SHLD-31.
    fn hold(&mut self, start: SeqNumber, end: SeqNumber) -> Result<(), DropReason> {
        if !self.bits.has(ReceiveFlags::HOLES) {
            self.cold.held = self.held.alloc().ok_or(DropReason::TcpRanges)?;
            self.bits.insert(ReceiveFlags::HOLES);
        }
        let most = most_ranges(self.hot.wnd());
        let held = self
            .held
            .at_mut(self.cold.held)
            .ok_or(DropReason::TcpRanges)?;
        held.insert(self.ranges, start, end, most)?;
        self.counters.out_of_order += 1;
        Ok(())
    }

    /// Gives the set of ranges back.
    #[inline(always)]
    pub fn forget_held(&mut self) {
        if self.bits.has(ReceiveFlags::HOLES) {
            free_held(self.held, self.ranges, self.cold.held);
            self.bits.remove(ReceiveFlags::HOLES);
        }
    }

    /// `[from, to)`, perhaps part of a segment (RFC 2883 §4.2), had arrived before: the next ACK
    /// says so. The last report counts, should there be several (RFC 2883 §4: once each).
    /// RFC 2883 §4-3.
    #[inline(always)]
    pub fn note_duplicate(&mut self, from: SeqNumber, to: SeqNumber) {
        if self.bits.has(ReceiveFlags::SACK) && from < to {
            self.cold.duplicate = Range::new(from, to);
            self.bits.insert(ReceiveFlags::DUPLICATE);
        }
    }

    /// A FIN came, with the sequence number `fin`. It is remembered until what precedes it has
    /// arrived, but not if data was received from beyond it: one of the two is a lie, and RCV.NXT
    /// could pass the FIN by.
    pub fn note_fin(&mut self, fin: SeqNumber) {
        if self.bits.has(ReceiveFlags::PEER_FIN) {
            return;
        }
        let edge = self.hot.adv;
        let is_last = self.view().first_held(fin, edge).is_none();
        if fin >= self.hot.nxt && fin <= edge && is_last {
            self.cold.peer_fin = fin;
            self.bits.insert(ReceiveFlags::PEER_FIN);
        }
    }

    /// The peer's FIN is next: "advance RCV.NXT over the FIN, and send an acknowledgment for the
    /// FIN". False if it is not next.
    #[inline(always)]
    pub fn take_fin(&mut self) -> bool {
        let is_next = self.bits.has(ReceiveFlags::PEER_FIN) && self.hot.nxt == self.cold.peer_fin;
        if is_next {
            self.bits.remove(ReceiveFlags::PEER_FIN);
            self.forget_held();
            self.hot.nxt += 1;
            self.hot.adv = self.hot.adv.max(self.hot.nxt);
            self.hot.dup_acks_due = 0;
            self.actions |= ReceiveActions::ACK;
        }
        is_next
    }
}
