//! What all connections share: configuration, the IP side, byte streams, timers, queues, counters.

use std::hash::Hasher;
use std::io;

use ring::region::PagePolicy;
use ring::stream::{Limits, StackStreams, StreamError};
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use crate::config::Config;
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::id::PortId;
use crate::ip::Net;
use crate::limit::SecretLimiter;
use crate::secret::keyed;
use crate::side_pool::SidePool;
use crate::tcp::bare::{Answers, BareOutput};
use crate::tcp::loss;
use crate::tcp::option_sets::OptionSets;
use crate::tcp::queues::Queues;
use crate::tcp::ranges::RangePool;
use crate::tcp::receive::Held;
use crate::tcp::segment::Segment;
use crate::tcp::setup::{CookieCache, Issuer};
use crate::tcp::step::Stop;
use crate::tcp::teardown::{Challenges, reset_for};
use crate::wheel::Wheel;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub net: Net,
    pub counters: Counters,
    pub streams: StackStreams,
    pub wheel: Wheel,
    pub queues: Queues,
    /// Segments that nobody else remembers.
    pub answers: Answers,
    /// Ranges received out of order, for the connections that have any.
    pub held: SidePool<Held>,
    /// Those ranges, and the ranges on scoreboards.
    pub ranges: RangePool,
    pub loss: loss::Pools,
    pub options: OptionSets,
    /// The send buffer that each connection gets over a short path.
    pub near: u32,
    /// Challenge ACKs (RFC 5961 §7) and other answers to segments that should not be.
    pub challenges: SecretLimiter,
    /// RSTs to nowhere.
    pub resets: SecretLimiter,
    /// Fast Open cookies that we hand out ...
    pub issuer: Issuer,
    /// ... and those that we were given.
    pub server_cookies: CookieCache,
}

impl Shared {
    pub fn new(config: Config, streams: StackStreams) -> io::Result<Self> {
        let connections = config.max_connections;
        let rate = config.reply_rate;
        Ok(Self {
            net: Net::new(&config)?,
            counters: Counters::default(),
            streams,
            wheel: Wheel::new([connections, config.max_half_open, 0, 0])?,
            queues: Queues::new(&config)?,
            answers: Answers::new(&config)?,
            held: SidePool::new(connections)?,
            ranges: RangePool::new(
                connections.saturating_mul(2),
                keyed(&config.secret, "range trees").finish(),
            )?,
            loss: loss::Pools::new(&config)?,
            // One more: a connection takes its next options before it releases those before.
            options: OptionSets::new(connections + config.max_listeners + 1)?,
            near: 0,
            challenges: SecretLimiter::new(rate, keyed(&config.secret, "challenge ACKs")),
            issuer: Issuer::new(config.common_secret()),
            server_cookies: CookieCache::new(&config.secret),
            resets: SecretLimiter::new(config.reset_rate, keyed(&config.secret, "resets")),
            config,
        })
    }

    /// Streams in `home` for the connection in `slot`; which. In this process it is that slot, in
    /// another home any that is free.
    #[inline(always)]
    pub fn reserve(&mut self, home: u32, slot: u32, limits: Limits) -> Result<u32, StreamError> {
        if home == 0 {
            return self.streams.reserve(slot, limits).map(|()| slot);
        }
        self.streams.reserve_in(home, slot, limits)
    }

    /// Whether something of TCP wants to be sent on `port`.
    pub fn has_output(&self, port: PortId) -> bool {
        self.answers.due(port) > 0 || self.queues.has_output(port)
    }

    /// Counts a segment that was dropped.
    pub fn count(&mut self, stop: Stop) {
        if let Stop::Drop(reason) = stop {
            self.counters.drop(reason);
        }
    }

    /// What sends segments without a control block behind them.
    #[inline(always)]
    pub fn bare(&mut self) -> BareOutput<'_> {
        BareOutput {
            answers: &mut self.answers,
            net: &mut self.net,
            counters: &mut self.counters,
            config: &self.config,
        }
    }

    /// Has a segment without payload sent, along the route there is.
    pub fn send_bare(&mut self, key: &FlowKey, header: &TcpHeader) {
        self.bare().queue(key, header);
    }

    /// Answers a segment that belongs to nothing, unless there were too many. Whether there was an
    /// answer.
    pub fn answer_with_reset(&mut self, now: Instant, seg: &Segment<'_>) -> bool {
        if seg.has(TcpFlags::RST) {
            return false;
        }
        let allowed = self.resets.allow(now);
        if allowed {
            self.reset(seg);
        } else {
            self.counters.drop(DropReason::ReplyLimited);
        }
        allowed
    }

    /// Answers a segment that belongs to nothing.
    pub fn reset(&mut self, seg: &Segment<'_>) {
        if let Some(header) = reset_for(seg) {
            self.counters.resets_out += 1;
            self.send_bare(seg.key, &header);
        }
    }

    /// Whether one more answer to a segment that should not be is allowed now.
    pub fn may_challenge(&mut self, now: Instant) -> bool {
        self.challenges.allow(now)
    }

    /// The same, for a connection, which has a limit of its `own`.
    pub fn may_challenge_by(&mut self, now: Instant, own: &mut Challenges) -> bool {
        own.allow(now) && self.may_challenge(now)
    }
}

/// Which pages the tables of a stack lie in.
pub(crate) fn page_policy(config: &Config) -> PagePolicy {
    if config.huge_pages {
        PagePolicy::Huge
    } else {
        PagePolicy::Transparent
    }
}
