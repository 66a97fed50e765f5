//! SYN-ACKs: when they go, where they wait, what is in them.

use wire::frame::FrameSink;
use wire::tcp::{TcpFlags, TcpHeader, Timestamps};
use wire::time::Instant;

use crate::command::Options as CommandOptions;
use crate::drops::DropReason;
use crate::id::PortId;
use crate::tcp::bare::Outcome;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::ecn::{Answer, Counts, Feedback};
use crate::tcp::options::{add_syn_options, advertised_mss};
use crate::tcp::setup::cookie::remind;
use crate::tcp::setup::half_open::{HalfOpen, Options};
use crate::tcp::setup::isn;
use crate::tcp::setup::part::SetupPart;
use crate::tcp::target::marked;

impl SetupPart<'_> {
    /// Sends a round of the SYN-ACKs that are due. False when the sink is full: what was not sent
    /// stays due. A record whose neighbour has to be asked for waits with it, without a packet.
    pub fn send_syn_acks(&mut self, now: Instant, port: PortId, sink: &mut impl FrameSink) -> bool {
        while let Some(slot) = self.sh.queues.syn_ack_in_turn(port) {
            let outcome = self.send_syn_ack(now, slot, sink);
            if outcome == Outcome::Full {
                return false;
            }
            self.sh.queues.count_syn_ack(port);
            self.sh.queues.remove_syn_ack(port, slot);
            if let Outcome::Waits(neighbour) = outcome {
                self.sh.queues.park_syn_ack(neighbour, slot);
            }
        }
        true
    }

    fn send_syn_ack(&mut self, now: Instant, slot: u32, sink: &mut impl FrameSink) -> Outcome {
        let Some(&record) = self.state.half_open.at(slot) else {
            return Outcome::Lost;
        };
        let Ok(&path) = self.sh.net.way_back(&record.key) else {
            self.sh.counters.drop(DropReason::ReplyNoRoute);
            return Outcome::Lost;
        };
        let path = match self.options(&record) {
            Some(options) => marked(&path, options),
            None => path,
        };
        let header = self.syn_ack(now, &record, path.mtu);
        let outcome = self
            .sh
            .bare()
            .send_alone(now, &path, &record.key, &header, sink);
        if outcome == Outcome::Sent {
            let again = self.was_answered(&record);
            self.sh.counters.retransmits += u64::from(again);
            self.state.half_open.note_sent(slot, now, again);
        }
        outcome
    }

    /// Whether the peer was sent a SYN-ACK, by us or by the link.
    #[inline]
    pub fn was_answered(&self, record: &HalfOpen) -> bool {
        record.has(Options::SENT) || self.was_answered_by_link(record)
    }

    /// The resolution of a neighbour has ended: who waited for it asks again.
    pub fn wake_syn_acks(&mut self, neighbour: u32) {
        while let Some(slot) = self.sh.queues.unpark_syn_ack(neighbour) {
            if let Some(record) = self.state.half_open.at(slot) {
                self.sh.queues.push_syn_ack(record.port, slot);
            }
        }
    }

    /// RFC 7323 §2.2-2, §3.2-4.
    pub fn syn_ack(&self, now: Instant, record: &HalfOpen, mtu: u16) -> TcpHeader {
        let config = &self.sh.config;
        let none;
        let options = match self.options(record) {
            Some(options) => options,
            None => {
                none = CommandOptions::default();
                &none
            }
        };
        let mss = advertised_mss(config, mtu, record.key.is_ipv4(), options);
        let answer = if record.hides_ecn() {
            Answer::REFUSAL
        } else {
            record.ecn
        };
        let mut header = TcpHeader {
            src_port: record.key.local().port(),
            dst_port: record.key.remote().port(),
            seq: record.iss,
            ack: record.rcv_nxt(),
            flags: TcpFlags::SYN | TcpFlags::ACK | answer.flags(),
            window: initial_receive_window(config, options),
            ..TcpHeader::default()
        };
        let reply = &mut header.options;
        add_syn_options(config, mss, record.rcv_wscale, 0, reply);
        reply.sack_permitted = record.has(Options::SACK);
        reply.window_scale = reply.window_scale.filter(|_| record.has(Options::SCALING));
        reply.timestamps = self.half_open_stamps(now, record);
        if config.bequeaths() {
            reply.timestamps = reply.timestamps.map(|stamps| remind(stamps, record));
        }
        // RFC 7413 §4.2.2-6.
        // What is not in every SYN-ACK goes once: perhaps that was lost because of it.
        let is_first = record.retries == 0 && !record.has(Options::SENT);
        reply.fast_open = (is_first && record.has(Options::FAST_OPEN))
            .then(|| self.sh.issuer.issue(now, record.key.remote().ip()));
        // RFC 9768 §3.2.3.2: to see whether the option gets through.
        // RFC 9768 §3.2.3.2.2-1.
        if is_first && record.ecn.feedback() == Feedback::Accurate {
            reply.ecn_bytes = Some(Counts::default().bytes());
        }
        header
    }

    /// The timestamps of a segment of `record`, if they were agreed on.
    #[inline(always)]
    pub fn half_open_stamps(&self, now: Instant, record: &HalfOpen) -> Option<Timestamps> {
        if !record.has(Options::TIMESTAMPS) {
            return None;
        }
        let origin = if record.has(Options::SENT) {
            self.flows.digest(&record.key).origin
        } else {
            record.sent_at
        };
        Some(Timestamps {
            tsval: isn::stamp(now, origin),
            tsecr: record.ts_recent,
        })
    }
}
