//! TIME_WAIT: how it begins, what segments find it, and how it ends.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::flow::{self, FlowHash};
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};
use crate::tcp::teardown::part::TimeWaitPart;
use crate::tcp::teardown::time_wait::{Facts, Rest, TimeWait};

impl TimeWaitPart<'_> {
    /// Goes on with what another process had in TIME_WAIT, in the order in which that ends. False:
    /// it is none, or there is no room.
    pub fn restore(&mut self, now: Instant, rest: &Rest) -> bool {
        let Rest { record, .. } = rest;
        if record.due != 0 || !record.has(Facts::LIVE) {
            return false;
        }
        let Some(slot) = self.records.insert(now, record) else {
            return false;
        };
        self.records.set_owner(slot, rest.owner);
        if rest.owes_ack {
            self.owe_last_ack(slot);
        }
        let hash = self.flows.hash(&record.key);
        self.flows.insert(hash, flow::id(flow::TIME_WAIT, slot));
        true
    }

    /// Replaces the connection `id` by what is left of it. False if there can be no record.
    /// RFC 9293 MUST-13.
    pub fn start(&mut self, now: Instant, id: u32, hash: FlowHash, rest: &Rest) -> bool {
        if self.records.is_full() {
            self.evict_oldest();
        }
        let Rest {
            record,
            owes_ack,
            owner,
        } = rest;
        let Some(new) = self.records.insert(now, record) else {
            if *owes_ack {
                let header = self.last_ack(now, record);
                self.sh.send_bare(&record.key, &header);
            }
            return false;
        };
        self.records.set_owner(new, *owner);
        if *owes_ack {
            self.owe_last_ack(new);
        }
        let new = flow::id(flow::TIME_WAIT, new);
        self.flows.replace(hash, id, new)
    }

    fn evict_oldest(&mut self) {
        if let Some(oldest) = self.records.oldest() {
            self.sh.counters.time_wait_evictions += 1;
            self.end(oldest);
        }
    }

    /// CLOSED.
    pub fn end(&mut self, slot: u32) {
        if let Some(record) = self.records.at(slot) {
            let hash = self.flows.hash(&record.key);
            self.flows.remove(hash, flow::id(flow::TIME_WAIT, slot));
            self.flows.leave(&record.key);
            self.forget_last_ack(slot);
            self.records.remove(slot);
        }
    }

    pub fn expire(&mut self, now: Instant, budget: u32) {
        for _ in 0..budget {
            let Some(slot) = self.records.expired(now) else {
                return;
            };
            self.send_due_last_ack(now, slot);
            self.end(slot);
        }
    }

    /// RFC 9293 §3.10.7.4 and RFC 6191 §2: whether the segment is a SYN that is certainly newer
    /// than everything before, and so may open the next connection. RFC 9293 MAY-2.
    pub fn may_reopen(&self, slot: u32, seg: &Segment<'_>) -> bool {
        // As in LISTEN: nobody honest ends a connection in the segment that opens it.
        let others = TcpFlags::RST | TcpFlags::ACK | TcpFlags::FIN;
        let opens = seg.has(TcpFlags::SYN) && !seg.has(others);
        opens
            && self
                .records
                .at(slot)
                .is_some_and(|record| is_new_incarnation(&record, seg))
    }

    /// A segment for a connection in TIME_WAIT (RFC 9293 §3.10.7.4) that does not open the next
    /// ([`Self::may_reopen`]).
    /// RFC 1337 §3-2.
    pub fn on_segment(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(record) = self.records.at(slot) else {
            return Err(DropReason::TcpNoConnection.into());
        };
        if seg.has(TcpFlags::RST) {
            return self.on_reset(slot, &record, seg);
        }
        // Fifth: "if the ACK bit is off, drop the segment and return". First comes the sequence
        // number.
        if !seg.has(TcpFlags::ACK | TcpFlags::SYN) && starts_in_window(&record, seg) {
            return Err(DropReason::TcpState.into());
        }
        // "The only thing that can arrive in this state is a retransmission of the remote FIN.
        // Acknowledge it, and restart the 2 MSL timeout."
        if seg.has(TcpFlags::FIN) && seg.end() == record.rcv_nxt {
            self.records.restart(now, slot);
            self.owe_last_ack(slot);
            return Err(Stop::Done);
        }
        // RFC 6191 §2-2.
        let acceptable = seg.len() == 0 && seg.seq == record.rcv_nxt;
        let is_syn = seg.has(TcpFlags::SYN);
        // The first answer to a SYN is not counted: a client that takes the port again would wait
        // for its time-out otherwise.
        let is_first = is_syn && !record.has(Facts::ANSWERED_SYN);
        if !acceptable && (is_first || self.sh.may_challenge(now)) {
            self.owe_last_ack(slot);
            self.records.note_answer(slot, is_syn);
        }
        Err(if is_syn {
            DropReason::TcpSyn
        } else {
            DropReason::TcpState
        }
        .into())
    }

    /// RFC 1337 §3: a RST must not end TIME_WAIT early, it could be an old duplicate.
    ///
    /// One that comes after we answered a SYN, exactly where that answer said, is from somebody in
    /// SYN_SENT who was told of a connection that it does not have (RFC 9293 §3.10.7.3, first): the
    /// peer has started anew, with a clock and sequence numbers of which we cannot tell that they
    /// are newer. Its SYN would be in vain until TIME_WAIT ends. RFC 1337 §3-1.
    fn on_reset(&mut self, slot: u32, record: &TimeWait, seg: &Segment<'_>) -> Step {
        if !record.has(Facts::ANSWERED_SYN) || seg.seq != record.rcv_nxt {
            return Err(DropReason::TcpReset.into());
        }
        self.sh.counters.resets_in += 1;
        self.end(slot);
        Err(Stop::Done)
    }
}

/// Whether the segment begins where more could have come. The record has the window field alone,
/// which may have been scaled: a bound from below.
fn starts_in_window(record: &TimeWait, seg: &Segment<'_>) -> bool {
    seg.seq - record.rcv_nxt < u32::from(record.window.max(1))
}

/// RFC 6191 §2: by timestamp if both connections have them, by sequence number if not.
/// RFC 9293 SHLD-4; RFC 6191 §2-1.
fn is_new_incarnation(record: &TimeWait, seg: &Segment<'_>) -> bool {
    let newer_seq = seg.seq > record.rcv_nxt;
    match seg.options.timestamps {
        Some(stamps) if record.has(Facts::TIMESTAMPS) => {
            let distance = stamps.tsval.wrapping_sub(record.ts_recent) as i32;
            distance > 0 || (distance == 0 && newer_seq)
        }
        _ => newer_seq,
    }
}
