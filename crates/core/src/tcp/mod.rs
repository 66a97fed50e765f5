//! TCP: RFC 9293 and what belongs to it. The mechanism; the policy of congestion control is `cc`.
//!
//! A received segment goes `input` (parse, look up) → `fast`, or the steps of §3.10.7: `check`,
//! `ack` (with `loss` and `ecn`), `data` (with `receive`) → `queues`. What is due leaves by
//! `transmit` → `output` (what goes next) → `emit`. `listen`, `half_open`, `accept`, `connect`,
//! `close` and `time_wait` are the life of a connection; `timers` what happens when nothing
//! happens.

mod accept;
mod ack;
mod bare;
mod blocks;
mod buffers;
mod challenge;
mod challenges;
mod check;
mod clock;
mod close;
mod close_reset;
mod commands;
mod compact;
mod conn;
mod connect;
mod conns;
mod cookie;
mod data;
mod deadlines;
mod defer;
mod ecn;
mod emit;
mod events;
mod fast;
mod fast_open;
pub(crate) mod flags;
mod frame;
mod gso;
mod half_open;
mod icmp;
mod info;
mod input;
mod isn;
mod listen;
mod lists;
mod loss;
mod open;
mod option_sets;
pub(crate) mod options;
mod orphan_limit;
mod orphans;
mod output;
mod path;
mod queues;
mod ranges;
mod receive;
mod reset;
mod segment;
mod send;
mod shared;
mod state;
mod statistics;
mod step;
mod survivors;
mod syn_ack;
mod syn_offload;
mod target;
pub(crate) mod tcb;
#[cfg(test)]
mod tests;
mod time_wait;
mod timers;
mod transmit;
mod usual;

use std::io;

use ring::region::Plot;
use ring::stream::{AppStreams, StreamsConfig, streams_on};
use wire::time::Instant;

use crate::config::Config;
use crate::flow::FlowTable;
use crate::handover::Handover;
use crate::info::State;
use crate::ports::EphemeralPorts;
use crate::tcp::close_reset::ClosingWithReset;
use crate::tcp::conns::Conns;
use crate::tcp::cookie::Cookies;
use crate::tcp::half_open::HalfOpens;
use crate::tcp::listen::Listeners;
use crate::tcp::shared::{Shared, page_policy};
use crate::tcp::survivors::Survivors;
use crate::tcp::syn_offload::Answers;
use crate::tcp::time_wait::TimeWaits;
use crate::testament::Testament;
use crate::usage::{Undelivered, Usage};

pub use transmit::Acks;

/// All connections of a stack, and the IP side under them.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub shared: Shared,
    conns: Conns,
    half_open: HalfOpens,
    time_wait: TimeWaits,
    listeners: Listeners,
    flows: FlowTable,
    cookies: Cookies,
    /// What the link answers SYNs with, if it does.
    answers: Option<Answers>,
    /// Only `None` while a port is being picked.
    ports: Option<Box<EphemeralPorts>>,
    /// To the other stacks with our addresses, if there are any.
    handover: Option<Box<Handover>>,
    closing_with_reset: ClosingWithReset,
    /// What the stack that takes this one's place is to know, if one will.
    testament: Option<Testament>,
    survivors: Survivors,
    /// When memory of the receive pool that nobody needs may go back to the kernel.
    economize_at: Option<Instant>,
}

impl Tcp {
    /// With what may have to outlive it in `plot`, if there is one.
    pub fn new(config: Config, mut plot: Option<Plot>) -> io::Result<(Self, AppStreams)> {
        let sizes = StreamsConfig {
            slots: config.max_connections,
            recv_pool_bytes: config.recv_pool,
            send_pool_bytes: config.send_pool,
            max_buffer: config.max_buffer,
            prefault: config.prefault,
        };
        let (stack_streams, app_streams) = streams_on(plot.as_mut(), &sizes, page_policy(&config))?;
        let flows = [
            config.max_connections,
            config.max_half_open,
            config.max_time_wait,
        ];
        let flows = flows.iter().map(|&n| n as usize).sum();
        let tcp = Self {
            conns: Conns::new(&config, plot.as_mut())?,
            half_open: HalfOpens::new(&config)?,
            time_wait: TimeWaits::new(&config)?,
            listeners: Listeners::new(&config)?,
            flows: FlowTable::new(flows, config.inherited_secret(), page_policy(&config))?,
            cookies: Cookies::new(config.inherited_secret()),
            answers: None,
            handover: Handover::new(&config).map(Box::new),
            closing_with_reset: ClosingWithReset::default(),
            testament: None,
            survivors: Survivors::default(),
            economize_at: None,
            ports: Some(Box::new(EphemeralPorts::new(
                config.ephemeral,
                &config.secret,
            ))),
            shared: Shared::new(config, stack_streams)?,
        };
        Ok((tcp, app_streams))
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.conns.places()
    }

    pub fn undelivered(&self) -> Undelivered {
        let closing = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck);
        let mut sum = Undelivered::default();
        for (slot, _) in self.conns.at_hand().filter(|(_, hot)| closing(hot.state)) {
            sum.connections += 1;
            sum.bytes += u64::from(self.shared.streams.send_len(slot));
        }
        sum
    }

    pub fn usage(&self) -> Usage {
        let shared = &self.shared;
        let (resident, compact) = self.conns.counts();
        Usage {
            connections: self.conns.slots.len(),
            resident,
            compact,
            half_open: self.half_open.slots.len(),
            time_wait: self.time_wait.len(),
            listeners: self.listeners.len(),
            flows: self.flows.count() as u32,
            timers: shared.wheel.count(),
            queued: shared.queues.output_len() + shared.answers.len() as u32,
            survivors: self.survivors.untold(),
            events: shared.queues.news_len(),
            range_sets: shared.ranges.sets(),
            sent_logs: shared.loss.sent.len(),
            rate_logs: shared.loss.rates.len() + shared.loss.models.len(),
            undos: shared.loss.undos.len(),
            recv_bytes: shared.streams.recv_bytes_in_use(),
        }
    }
}
