//! SYN_RECEIVED of passive opens: segments for half-open records, their timers, and their ends.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::flow;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::loss::Rtt;
use crate::tcp::segment::Segment;
use crate::tcp::setup::half_open::{HalfOpen, Options};
use crate::tcp::setup::isn;
use crate::tcp::setup::part::SetupPart;
use crate::tcp::step::{Step, Stop};

impl SetupPart<'_> {
    pub(super) fn schedule_half_open(&mut self, now: Instant, slot: u32, retries: u8) {
        let bounds = self.sh.loss.rto_bounds;
        let rto = Rtt::new(bounds).backed_off_micros(retries, bounds.max);
        let id = flow::id(flow::HALF_OPEN, slot);
        self.sh.wheel.schedule(id, now.after_micros(rto));
    }

    /// The SYN-ACK was not answered.
    pub fn on_half_open_timer(&mut self, now: Instant, slot: u32) {
        let limit = self.sh.config.syn_ack_retries;
        let Some(record) = self.state.half_open.at(slot) else {
            return;
        };
        let waits = self.is_waiting_for_data(record);
        let Some(record) = self.state.half_open.at_mut(slot) else {
            return;
        };
        if record.retries >= limit && !waits {
            self.drop_half_open(slot);
            return;
        }
        record.retries += 1;
        let (port, retries) = (record.port, record.retries);
        if !waits {
            self.sh.counters.timeouts += 1;
            self.sh.queues.push_syn_ack(port, slot);
        }
        self.schedule_half_open(now, slot, retries);
    }

    /// Says that it will not be a connection. The peer may hold it for one already, and nobody may
    /// be left here to answer what it sends (RFC 9293 §3.10.5, SYN-RECEIVED STATE). As few as other
    /// answers to strangers: their addresses may be made up.
    pub fn reset_half_open(&mut self, now: Instant, record: &HalfOpen) {
        if !self.sh.resets.allow(now) {
            return self.sh.counters.drop(DropReason::ReplyLimited);
        }
        let header = TcpHeader {
            seq: record.iss + 1,
            ack: record.rcv_nxt(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            options: TcpOptions {
                timestamps: self.half_open_stamps(now, record),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.sh.counters.resets_out += 1;
        self.sh.send_bare(&record.key, &header);
    }

    /// Back to LISTEN.
    pub fn drop_half_open(&mut self, slot: u32) {
        if let Some(&HalfOpen { key, .. }) = self.state.half_open.at(slot) {
            let hash = self.flows.hash(&key);
            self.flows.remove(hash, flow::id(flow::HALF_OPEN, slot));
            self.flows.leave(&key);
        }
        self.free_half_open(slot);
    }

    /// Drops the records of a listener that goes. Who was answered is told, if it `resets`.
    pub fn drop_half_open_of(&mut self, now: Instant, listener: u32, resets: bool) {
        for slot in self.half_open_of(listener) {
            let record = self.state.half_open.at(slot).copied();
            if let Some(record) = record.filter(|record| resets && self.was_answered(record)) {
                self.reset_half_open(now, &record);
            }
            self.drop_half_open(slot);
        }
    }

    /// The records of a listener.
    fn half_open_of(&self, listener: u32) -> Vec<u32> {
        let half_open = &self.state.half_open;
        let is_of = |slot: &u32| {
            let record = half_open.at(*slot);
            record.is_some_and(|record| u32::from(record.listener) == listener)
        };
        let count = self
            .state
            .listeners
            .at(listener)
            .map_or(0, |entry| entry.half_open);
        half_open
            .slots
            .iter()
            .filter(is_of)
            .take(count as usize)
            .collect()
    }

    /// The records of a listener are another's from now on.
    pub fn hand_on_half_open(&mut self, listener: u32, heir: u32) {
        for slot in self.half_open_of(listener) {
            if let Some(record) = self.state.half_open.at_mut(slot) {
                record.listener = heir as u16;
            }
            for (listener, more) in [(listener, -1), (heir, 1)] {
                if let Some(entry) = self.state.listeners.at_mut(listener) {
                    entry.half_open = entry.half_open.saturating_add_signed(more);
                }
            }
        }
    }

    /// Frees the record; the flow table does not name it any more.
    #[inline(always)]
    pub fn free_half_open(&mut self, slot: u32) {
        let Some(&HalfOpen { listener, port, .. }) = self.state.half_open.at(slot) else {
            return;
        };
        if !self.state.half_open.slots.free(slot) {
            return;
        }
        self.sh.queues.remove_syn_ack(port, slot);
        self.sh.wheel.cancel(flow::id(flow::HALF_OPEN, slot));
        if let Some(entry) = self.state.listeners.at_mut(u32::from(listener)) {
            entry.half_open = entry.half_open.saturating_sub(1);
        }
    }

    /// SYN_RECEIVED of a passive open (RFC 9293 §3.10.7.4): a segment for the `record` in `slot`.
    /// `Ok`: its handshake is complete.
    /// RFC 9293 MUST-11.
    pub fn on_half_open(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        self.check_repeated_syn(now, slot, record, seg)?;
        self.check_half_open_sequence(now, record, seg)?;
        self.check_half_open_rst(now, slot, record, seg)?;
        // Fourth, check the SYN bit: "if the connection was initiated with a passive OPEN, then
        // return this connection to the LISTEN state and return".
        if seg.has(TcpFlags::SYN) {
            self.drop_half_open(slot);
            return Err(DropReason::TcpSyn.into());
        }
        // Fifth, check the ACK field.
        if !seg.has(TcpFlags::ACK) {
            return Err(DropReason::TcpState.into());
        }
        if seg.ack != record.iss + 1 {
            return Err(Stop::UnknownFlow(DropReason::TcpAck));
        }
        if !self.echoes_ours(now, record, seg) {
            return self.refuse_echo(now, record);
        }
        if self.is_deferred(record, seg) {
            if let Some(record) = self.state.half_open.at_mut(slot) {
                record.agreed.insert(Options::ACKED);
            }
            return Err(Stop::Done);
        }
        Ok(())
    }

    /// Whether the timestamp that the segment echoes is one of ours since the SYN came, which an
    /// ISS from the clock tells. Of an earlier connection between the same endpoints, which the
    /// peer has in TIME_WAIT while a SYN of it comes late, an ACK may have the right number by
    /// chance. As on Linux: who echoes nothing is believed.
    #[inline]
    fn echoes_ours(&self, now: Instant, record: &HalfOpen, seg: &Segment<'_>) -> bool {
        let Some(stamps) = seg.options.timestamps else {
            return true;
        };
        let is_timed = record.has(Options::TIMESTAMPS | Options::SENT);
        if stamps.tsecr == 0 || !is_timed || self.sh.config.bequeaths() {
            return true;
        }
        let age = isn::age(now, record.iss, seg.origin);
        isn::stamp(now, seg.origin).wrapping_sub(stamps.tsecr) <= age
    }

    #[cold]
    fn refuse_echo(&mut self, now: Instant, record: &HalfOpen) -> Step {
        self.challenge_half_open(now, record);
        Err(DropReason::TcpAck.into())
    }

    /// The ACK that would complete a handshake brings no data: whether it is to be ignored, until
    /// the SYN-ACK was sent again as often as the listener says (TCP_DEFER_ACCEPT).
    fn is_deferred(&self, record: &HalfOpen, seg: &Segment<'_>) -> bool {
        let brings_news = !seg.payload.is_empty() || seg.has(TcpFlags::FIN);
        !brings_news && record.retries < self.deferral(record)
    }

    fn deferral(&self, record: &HalfOpen) -> u8 {
        self.options(record)
            .map_or(0, |options| options.defer_accept)
    }

    /// The SYN-ACK was not answered with data. As on Linux: who has acknowledged it is asked once
    /// more, at the end of the time, and accepted with or without data then.
    fn is_waiting_for_data(&self, record: &HalfOpen) -> bool {
        record.has(Options::ACKED) && record.retries + 1 < self.deferral(record)
    }

    /// The peer did not get our SYN-ACK: again.
    /// RFC 9768 §3.1.5-4.
    fn check_repeated_syn(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        let is_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK | TcpFlags::RST);
        if !(is_syn && seg.seq == record.irs) {
            return Ok(());
        }
        // RFC 9768 §3.1.5: neither end could know what the other has agreed to.
        let Some(answer) = record.ecn.again(seg) else {
            self.sh.answer_with_reset(now, seg);
            self.drop_half_open(slot);
            return Err(DropReason::TcpSyn.into());
        };
        self.sh.queues.push_syn_ack(record.port, slot);
        if let Some(record) = self.state.half_open.at_mut(slot) {
            record.ecn = answer;
            record.note_repeated(seg);
        }
        Err(Stop::Done)
    }

    /// First, check the sequence number, and the timestamp.
    fn check_half_open_sequence(
        &mut self,
        now: Instant,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        let window = u32::from(self.half_open_window(record)).max(1);
        let first = record.rcv_nxt();
        let in_window = |seq: SeqNumber| seq >= first && seq < first + window;
        let acceptable = in_window(seg.seq) || (seg.len() > 0 && in_window(seg.end() - 1));
        let stamps = seg
            .options
            .timestamps
            .filter(|_| record.has(Options::TIMESTAMPS) && !seg.has(TcpFlags::RST));
        let is_old =
            stamps.is_some_and(|stamps| (stamps.tsval.wrapping_sub(record.ts_recent) as i32) < 0);
        if acceptable && !is_old {
            return Ok(());
        }
        if !seg.has(TcpFlags::RST) {
            self.challenge_half_open(now, record);
        }
        Err(if is_old {
            DropReason::TcpPaws
        } else {
            DropReason::TcpWindow
        }
        .into())
    }

    /// Second, check the RST bit (RFC 5961 §3).
    fn check_half_open_rst(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        if !seg.has(TcpFlags::RST) {
            return Ok(());
        }
        if seg.seq != record.rcv_nxt() {
            self.challenge_half_open(now, record);
            return Err(DropReason::TcpReset.into());
        }
        self.sh.counters.resets_in += 1;
        self.drop_half_open(slot);
        Err(Stop::Done)
    }

    fn challenge_half_open(&mut self, now: Instant, record: &HalfOpen) {
        if !self.sh.may_challenge(now) {
            self.sh.counters.drop(DropReason::ReplyLimited);
            return;
        }
        self.sh.counters.challenge_acks += 1;
        let header = TcpHeader {
            seq: record.iss + 1,
            ack: record.rcv_nxt(),
            flags: TcpFlags::ACK,
            window: self.half_open_window(record) >> record.rcv_wscale,
            options: TcpOptions {
                timestamps: self.half_open_stamps(now, record),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.sh.send_bare(&record.key, &header);
    }

    fn half_open_window(&self, record: &HalfOpen) -> u16 {
        let options = self.options(record);
        options.map_or(0, |options| {
            initial_receive_window(&self.sh.config, options)
        })
    }
}
