//! TCP: RFC 9293 and what belongs to it. The mechanism; the policy of congestion control is `cc`.
//!
//! A received segment goes `input` (parse, look up) → `fast`, or the steps of §3.10.7: `check`,
//! `ack` (with `loss` and `ecn`), `data` (with `receive`) → `queues`. What is due leaves by
//! `transmit` → `output` (what goes next) → `emit`. `setup`, `accept`, `connect`, `establish`,
//! `close`, `ending` and `teardown` are the life of a connection; `timers` what happens when
//! nothing happens. `conn` lends the parts; the steps are functions over it.

mod accept;
mod ack;
mod bare;
mod blocks;
mod buffers;
mod check;
mod clock;
mod close;
mod commands;
mod compact;
mod conn;
mod connect;
mod conns;
mod data;
mod deadlines;
mod ecn;
mod emit;
mod ending;
mod establish;
mod events;
mod fast;
pub(crate) mod flags;
mod frame;
mod gso;
pub(crate) mod heirs;
mod home_owners;
pub mod homes;
mod icmp;
mod info;
mod input;
pub(crate) mod listing;
mod lists;
mod lookup;
mod loss;
mod open;
mod option_sets;
pub(crate) mod options;
mod orphans;
mod output;
mod path;
mod queues;
mod ranges;
mod receive;
mod reroute;
pub(crate) mod saved;
mod segment;
mod send;
mod setup;
mod shared;
pub(crate) mod stalled;
mod stamps;
mod state;
mod statistics;
mod step;
mod survivors;
mod target;
pub(crate) mod tcb;
mod teardown;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod usual;

use std::io;
use std::time::Duration;

use ring::region::Plot;
use ring::stream::{AppStreams, StreamsConfig, streams_and_homes};
use wire::time::Instant;

use crate::config::Config;
use crate::event::Event;
use crate::flow::{self, FlowTable};
use crate::handover::Handover;
use crate::info::State;
use crate::ports::EphemeralPorts;
use crate::tcp::conns::Conns;
use crate::tcp::events::news_of;
use crate::tcp::home_owners::HomeOwners;
use crate::tcp::lookup::Lookup;
use crate::tcp::orphans::Adoption;
use crate::tcp::reroute::{Rerouting, take_path};
use crate::tcp::send::near_buffer;
use crate::tcp::setup::{SetupPart, SetupState};
use crate::tcp::shared::{Shared, page_policy};
use crate::tcp::survivors::Survivors;
use crate::tcp::teardown::{ClosingWithReset, TimeWaitPart, TimeWaits};
use crate::tcp::timers::on_timer;
use crate::testament::{Left, Testament};
use crate::usage::{Undelivered, Usage};

pub use transmit::Acks;

/// Timers fired in one call of `advance`.
const TIMERS_PER_CALL: u32 = 1024;
/// Connections whose path is looked at in one call of `advance`, if it may have changed.
const REROUTED_PER_CALL: usize = 256;
/// Receive buffers looked at in one call of `advance`, to be given back when drained.
const SWEPT_PER_CALL: usize = 16;

/// All connections of a stack, and the IP side under them.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub shared: Shared,
    pub conns: Conns,
    setup: SetupState,
    time_wait: TimeWaits,
    flows: FlowTable,
    ports: Box<EphemeralPorts>,
    /// To the other stacks with our addresses, if there are any.
    handover: Option<Box<Handover>>,
    closing_with_reset: ClosingWithReset,
    survivors: Survivors,
    /// Whose connections and listeners are opened now.
    pub home: u32,
    pub home_owners: HomeOwners,
    /// When memory of the receive pool that nobody needs may go back to the kernel.
    economize_at: Option<Instant>,
    /// Connections whose path may have changed.
    pub rerouting: Rerouting,
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
        let (stack_streams, app_streams) = {
            let pages = page_policy(&config);
            streams_and_homes(plot.as_mut(), &sizes, pages, config.max_homes)?
        };
        let flows = [
            config.max_connections,
            config.max_half_open,
            config.max_time_wait,
        ];
        let flows = flows.iter().map(|&n| n as usize).sum();
        let tcp = Self {
            conns: Conns::new(&config, plot.as_mut())?,
            setup: SetupState::new(&config)?,
            time_wait: TimeWaits::new(&config)?,
            flows: FlowTable::new(flows, config.inherited_secret(), page_policy(&config))?,
            handover: Handover::new(&config).map(Box::new),
            closing_with_reset: ClosingWithReset::default(),
            survivors: Survivors::default(),
            home: 0,
            home_owners: HomeOwners::default(),
            economize_at: None,
            rerouting: Rerouting::default(),
            ports: Box::new(EphemeralPorts::new(config.ephemeral, &config.secret)),
            shared: Shared::new(config, stack_streams)?,
        };
        Ok((tcp, app_streams))
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.conns.places()
    }

    /// Of one connection, or of all.
    pub fn undelivered(&self, only: Option<crate::ConnId>) -> Undelivered {
        let closing = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck);
        let mut sum = Undelivered::default();
        let mut add = |slot: u32, state: State| {
            if closing(state) {
                let stream = self.conns.stream(slot);
                sum.connections += 1;
                sum.bytes += u64::from(self.shared.streams.known_send_len(stream));
            }
        };
        match only {
            Some(id) => {
                if let Some(hot) = self.conns.hot_of(id) {
                    add(id.slot, hot.state);
                }
            }
            None => {
                for (slot, hot) in self.conns.at_hand() {
                    add(slot, hot.state);
                }
            }
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
            half_open: self.setup.half_open.slots.len(),
            time_wait: self.time_wait.len(),
            listeners: self.setup.listeners.len(),
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

    /// The set-up part, for one step.
    #[inline(always)]
    pub fn setup(&mut self) -> SetupPart<'_> {
        SetupPart {
            state: &mut self.setup,
            flows: &mut self.flows,
            sh: &mut self.shared,
        }
    }

    /// What is in TIME_WAIT, for one step.
    #[inline(always)]
    fn time_waits(&mut self) -> TimeWaitPart<'_> {
        TimeWaitPart {
            records: &mut self.time_wait,
            flows: &mut self.flows,
            sh: &mut self.shared,
        }
    }

    /// Who has which endpoints.
    #[inline(always)]
    fn lookup(&self) -> Lookup<'_> {
        Lookup::new(&self.flows, &self.conns, &self.setup, &self.time_wait)
    }

    pub fn advance(&mut self, now: Instant) {
        self.shared.net.advance(now, &mut self.shared.counters);
        self.wake_resolved(now);
        for _ in 0..REROUTED_PER_CALL {
            let Some(slot) = self.rerouting.next() else {
                break;
            };
            if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
                take_path(&mut conn, now);
                self.settle(now, slot);
            }
        }
        for _ in 0..TIMERS_PER_CALL {
            let Some(id) = self.shared.wheel.pop_due(now) else {
                break;
            };
            let slot = flow::index(id) as u32;
            if flow::tag(id) == flow::HALF_OPEN as usize {
                self.setup().on_half_open_timer(now, slot);
            } else if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
                on_timer(&mut conn, now);
                self.settle(now, slot);
            }
        }
        self.time_waits().expire(now, TIMERS_PER_CALL);
        let lookup = Lookup::new(&self.flows, &self.conns, &self.setup, &self.time_wait);
        self.survivors.ask(now, lookup, &mut self.shared);
        self.shared.streams.sweep(SWEPT_PER_CALL);
        let economizes = self.shared.streams.economize(now.as_millis());
        self.economize_at = economizes.map(|ms| now + Duration::from_millis(ms));
        self.conns.rest(now, &mut self.shared);
        let (resident, _) = self.conns.counts();
        self.shared.near = near_buffer(resident);
        self.flows.advance(now);
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        [
            self.shared.wheel.next_deadline(),
            self.time_wait.next_deadline(),
            self.shared.net.next_deadline(),
            self.survivors.deadline(),
            self.conns.next_deadline(),
            self.economize_at,
            self.rerouting.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            let place = self.shared.queues.pop_news()?;
            let listeners = &self.setup.listeners;
            let news = news_of(place, &mut self.conns, &mut self.shared, listeners);
            if news.is_some() {
                return news;
            }
        }
    }

    /// Takes the place of a stack that is gone, if it left anything, and leaves as much itself.
    pub fn inherit(
        &mut self,
        now: Instant,
        testament: Testament,
        left: Vec<Left>,
        app: &mut AppStreams,
    ) {
        self.survivors = Survivors::with(testament);
        let mut untold = Vec::new();
        for Left { key, place, orphan } in left {
            let is_free = self.lookup().between(&key).taken.is_none();
            let orphan = orphan.as_ref().filter(|_| is_free);
            let mut adoption = Adoption {
                conns: &mut self.conns,
                flows: &mut self.flows,
                sh: &mut self.shared,
            };
            match orphan.and_then(|orphan| adoption.adopt(now, key, orphan, app)) {
                Some(slot) => {
                    self.survivors
                        .bequeath(slot, &mut self.conns, &mut self.shared);
                    self.survivors.settle(place);
                }
                None => untold.push((key, place)),
            }
        }
        self.survivors.seek(now, untold);
    }
}
