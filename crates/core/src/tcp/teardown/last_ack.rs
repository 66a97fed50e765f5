//! The ACK of the peer's FIN, which may come again: when it goes, and what is in it.

use wire::frame::FrameSink;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::id::PortId;
use crate::tcp::setup::isn;
use crate::tcp::teardown::part::TimeWaitPart;
use crate::tcp::teardown::time_wait::{Facts, TimeWait};

impl TimeWaitPart<'_> {
    /// A TIME_WAIT that lasts for next to nothing ends before `transmit`: the peer waits for the
    /// ACK all the same.
    pub(super) fn send_due_last_ack(&mut self, now: Instant, slot: u32) {
        if self.forget_last_ack(slot)
            && let Some(record) = self.records.at(slot)
        {
            let header = self.last_ack(now, &record);
            self.sh.send_bare(&record.key, &header);
        }
    }

    /// The ACK of the peer's FIN is due, until it was sent.
    pub(super) fn owe_last_ack(&mut self, slot: u32) {
        if let Some(record) = self.records.record_mut(slot)
            && record.due == 0
        {
            let name = self.sh.queues.push_last_ack(record.port, slot);
            record.due = name.map_or(0, |name| name + 1);
        }
    }

    /// It is not due any more: whether it was.
    pub(super) fn forget_last_ack(&mut self, slot: u32) -> bool {
        let Some(record) = self.records.record_mut(slot) else {
            return false;
        };
        let Some(name) = std::mem::take(&mut record.due).checked_sub(1) else {
            return false;
        };
        self.sh.queues.remove_last_ack(record.port, name);
        true
    }

    /// Sends the ACKs that are due. False when the sink is full.
    pub fn send_last_acks(
        &mut self,
        now: Instant,
        port: PortId,
        sink: &mut impl FrameSink,
    ) -> bool {
        while let Some(slot) = self.sh.queues.front_last_ack(port) {
            if let Some(record) = self.records.at(slot)
                && !self.send_last_ack(now, &record, sink)
            {
                return false;
            }
            if !self.forget_last_ack(slot) {
                break;
            }
        }
        true
    }

    fn send_last_ack(
        &mut self,
        now: Instant,
        record: &TimeWait,
        sink: &mut impl FrameSink,
    ) -> bool {
        let Ok(&path) = self.sh.net.way_back(&record.key) else {
            self.sh.counters.drop(DropReason::ReplyNoRoute);
            return true;
        };
        let header = self.last_ack(now, record);
        let sent = self
            .sh
            .bare()
            .send_or_wait(now, &path, &record.key, &header, sink);
        self.sh.counters.acks_out += u64::from(sent);
        sent
    }

    pub(super) fn last_ack(&self, now: Instant, record: &TimeWait) -> TcpHeader {
        let stamps = record.has(Facts::TIMESTAMPS).then(|| Timestamps {
            tsval: isn::stamp(now, self.flows.digest(&record.key).origin),
            tsecr: record.ts_recent,
        });
        TcpHeader {
            src_port: record.key.local().port(),
            dst_port: record.key.remote().port(),
            seq: record.snd_nxt,
            ack: record.rcv_nxt,
            flags: TcpFlags::ACK,
            window: record.window,
            options: TcpOptions {
                timestamps: stamps,
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        }
    }
}
