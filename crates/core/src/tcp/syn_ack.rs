//! SYN-ACKs: when they go, where they wait, what is in them.

use wire::frame::FrameSink;
use wire::tcp::{TcpFlags, TcpHeader, Timestamps};
use wire::time::Instant;

use crate::command::Options as CommandOptions;
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::id::PortId;
use crate::tcp::Tcp;
use crate::tcp::bare::Outcome;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::cookie::remind;
use crate::tcp::ecn::{Answer, Counts, Feedback};
use crate::tcp::half_open::{HalfOpen, Options};
use crate::tcp::isn;
use crate::tcp::open::marked;
use crate::tcp::options::{add_syn_options, advertised_mss};

impl Tcp {
    /// Sends a round of the SYN-ACKs that are due. False when the sink is full: what was not sent
    /// stays due. A record whose neighbour has to be asked for waits with it, without a packet.
    pub fn send_syn_acks(&mut self, now: Instant, port: PortId, sink: &mut impl FrameSink) -> bool {
        while let Some(slot) = self.shared.queues.syn_ack_in_turn(port) {
            let outcome = self.send_syn_ack(now, slot, sink);
            if outcome == Outcome::Full {
                return false;
            }
            self.shared.queues.count_syn_ack(port);
            self.shared.queues.remove_syn_ack(port, slot);
            if let Outcome::Waits(neighbour) = outcome {
                self.shared.queues.park_syn_ack(neighbour, slot);
            }
        }
        true
    }

    fn send_syn_ack(&mut self, now: Instant, slot: u32, sink: &mut impl FrameSink) -> Outcome {
        let Some(&record) = self.half_open.at(slot) else {
            return Outcome::Lost;
        };
        let Ok(path) = self.shared.net.way_back(&record.key) else {
            self.shared.counters.drop(DropReason::ReplyNoRoute);
            return Outcome::Lost;
        };
        let path = match self.listeners.at(u32::from(record.listener)) {
            Some(listener) => marked(path, &listener.options),
            None => *path,
        };
        let header = self.syn_ack(now, &record, path.mtu);
        let outcome = self
            .shared
            .bare()
            .send_alone(now, &path, &record.key, &header, sink);
        if outcome == Outcome::Sent {
            let again = self.was_answered(&record);
            self.shared.counters.retransmits += u64::from(again);
            self.half_open.note_sent(slot, now, again);
        }
        outcome
    }

    /// Whether the peer was sent a SYN-ACK, by us or by the link.
    pub fn was_answered(&self, record: &HalfOpen) -> bool {
        record.has(Options::SENT) || self.was_answered_by_link(record)
    }

    /// The resolution of a neighbour has ended: who waited for it asks again.
    pub fn wake_syn_acks(&mut self, neighbour: u32) {
        while let Some(slot) = self.shared.queues.unpark_syn_ack(neighbour) {
            if let Some(record) = self.half_open.at(slot) {
                self.shared.queues.push_syn_ack(record.port, slot);
            }
        }
    }

    /// RFC 7323 §2.2-2, §3.2-4.
    pub fn syn_ack(&self, now: Instant, record: &HalfOpen, mtu: u16) -> TcpHeader {
        let config = &self.shared.config;
        let none;
        let options = match self.listeners.at(u32::from(record.listener)) {
            Some(listener) => &listener.options,
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
            .then(|| self.shared.issuer.issue(now, record.key.remote().ip()));
        // RFC 9768 §3.2.3.2: to see whether the option gets through.
        // RFC 9768 §3.2.3.2.2-1.
        if is_first && record.ecn.feedback() == Feedback::Accurate {
            reply.ecn_bytes = Some(Counts::default().bytes());
        }
        header
    }

    /// Our timestamp for who has no control block.
    pub fn stamp_for(&self, now: Instant, key: &FlowKey) -> u32 {
        stamp(now, self.flows.digest(key).origin)
    }

    pub fn half_open_stamps(&self, now: Instant, record: &HalfOpen) -> Option<Timestamps> {
        record.has(Options::TIMESTAMPS).then(|| Timestamps {
            tsval: if record.has(Options::SENT) {
                self.stamp_for(now, &record.key)
            } else {
                stamp(now, record.sent_at)
            },
            tsecr: record.ts_recent,
        })
    }
}

/// The timestamp of a flow whose sequence numbers start from `origin`.
fn stamp(now: Instant, origin: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(isn::ts_offset(origin))
}
