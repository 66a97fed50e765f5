//! Peers of connections that a stack had whose place this one has taken, and that it could not go
//! on with (`orphans`). It ended without a word, so they believe in connections that nobody knows:
//! half-open connections in the sense of RFC 9293 §3.5.1. One that sends learns so by the RST that
//! answers it; one that waits for an answer never would. So it is asked as that section says: a
//! SYN, which it answers with an ACK (RFC 5961 §4), for which it gets the RST.

use std::time::Duration;

use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::AppStreams;
use crate::estate;
use crate::flow::{Digest, FlowKey};
use crate::tcp::Tcp;
use crate::tcp::isn::{self, Start};
use crate::tcp::segment::Segment;
use crate::testament::{Left, Testament};

/// Time for peers who got no ACK to send again: what no application had, this stack takes up
/// (`cookie`).
const PATIENCE: Duration = Duration::from_secs(1);
/// So long before, their neighbours are asked for, whom a new stack does not know.
const LEAD: Duration = Duration::from_millis(100);
/// Each is asked so often, and twice as long waits for an answer each time.
const ROUNDS: u32 = 5;
/// Asked in one call of `advance` ...
const PER_CALL: usize = 512;
/// ... and then no more for so long: others want to be served.
const BREATH: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    /// By key, with their places in the testament; `u32::MAX`: told.
    peers: Vec<(FlowKey, u32)>,
    untold: usize,
    /// The first looks for neighbours, the others ask.
    round: u32,
    /// The next to be asked.
    next: usize,
    at: Option<Instant>,
}

const TOLD: u32 = u32::MAX;

impl Survivors {
    fn new(now: Instant, mut peers: Vec<(FlowKey, u32)>) -> Self {
        peers.sort_unstable();
        Self {
            untold: peers.len(),
            at: (!peers.is_empty()).then_some(now + (PATIENCE - LEAD)),
            peers,
            ..Self::default()
        }
    }

    /// How many are still to be told.
    pub fn untold(&self) -> u32 {
        self.untold as u32
    }

    fn find(&self, key: &FlowKey) -> Option<usize> {
        let at = self.peers.binary_search_by(|(other, _)| other.cmp(key));
        at.ok().filter(|&at| self.is_untold(at))
    }

    fn is_untold(&self, at: usize) -> bool {
        self.peers.get(at).is_some_and(|&(_, place)| place != TOLD)
    }

    /// Whether the peer of this connection is to be told that there is none.
    pub fn contains(&self, key: &FlowKey) -> bool {
        self.untold > 0 && self.find(key).is_some()
    }

    /// Those asked next, as indices; moves on behind them.
    fn take_turn(&mut self) -> std::ops::Range<usize> {
        let end = self.peers.len().min(self.next + PER_CALL);
        std::mem::replace(&mut self.next, end)..end
    }

    /// When to go on, after a turn. `None`: all were told, or asked often enough.
    fn schedule(&mut self, now: Instant) -> Option<Instant> {
        if self.next < self.peers.len() {
            return Some(now + BREATH);
        }
        let wait = match self.round {
            0 => LEAD,
            round => PATIENCE * (1 << round),
        };
        self.next = 0;
        self.round += 1;
        (self.untold > 0 && self.round <= ROUNDS).then(|| now + wait)
    }
}

impl Tcp {
    /// Takes the place of a stack that is gone, if it left anything, and leaves as much itself.
    pub fn inherit(
        &mut self,
        now: Instant,
        testament: Testament,
        left: Vec<Left>,
        app: &mut AppStreams,
    ) {
        self.testament = Some(testament);
        let mut untold = Vec::new();
        for Left { key, place, orphan } in left {
            let orphan = orphan.as_ref();
            if !orphan.is_some_and(|orphan| self.adopt(now, key, orphan, app)) {
                untold.push((key, place));
            } else if let Some(testament) = &self.testament {
                testament.settle(place);
            }
        }
        self.survivors = Survivors::new(now, untold);
    }

    /// When [`Tcp::ask_survivors`] wants to be called.
    pub fn survivors_deadline(&self) -> Option<Instant> {
        self.survivors.at
    }

    /// Asks the next few whose time has come.
    pub fn ask_survivors(&mut self, now: Instant) {
        if self.survivors.at.is_none_or(|at| at > now) {
            return;
        }
        for at in self.survivors.take_turn() {
            if let Some(&(key, place)) = self.survivors.peers.get(at).filter(|(_, p)| *p != TOLD) {
                self.seek_survivor(now, at, &key, place);
            }
        }
        self.survivors.at = self.survivors.schedule(now);
        if self.survivors.at.is_none() {
            self.forget_survivors();
        }
    }

    fn seek_survivor(&mut self, now: Instant, at: usize, key: &FlowKey, place: u32) {
        let digest = self.flows.digest(key);
        // The endpoints are in use again: the peer has learnt it, or an application here has got
        // what it sent again.
        if self.lookup(digest.hash, key).is_some() {
            self.strike_survivor(at, place);
        } else if self.survivors.round > 0 {
            self.ask_survivor(now, key, digest);
        } else if let Ok(&path) = self.shared.net.way_back(key) {
            let counters = &mut self.shared.counters;
            self.shared.net.resolve(now, &path, counters);
        }
    }

    fn ask_survivor(&mut self, now: Instant, key: &FlowKey, digest: Digest) {
        let Start { iss, ts_offset } = isn::start(now, digest.origin);
        // The clock that the stack before had: the peer takes it for no old duplicate
        // (RFC 7323 §5.3).
        let stamps = self.shared.config.timestamps.then(|| Timestamps {
            tsval: (now.as_millis() as u32).wrapping_add(ts_offset),
            tsecr: 0,
        });
        let header = TcpHeader {
            seq: iss,
            flags: TcpFlags::SYN,
            options: TcpOptions {
                timestamps: stamps,
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.shared.counters.survivors_asked += 1;
        self.shared.send_bare(key, &header);
    }

    /// Tells the peer whose segment this is that there is no connection, if it is to be told and no
    /// other stack knows better. Each is told once, however many there are: no limit holds for
    /// these RSTs. Whether it is.
    pub fn tell_survivor(&mut self, seg: &Segment<'_>) -> bool {
        if self.survivors.untold == 0 {
            return false;
        }
        let Some(at) = self.survivors.find(seg.key) else {
            return false;
        };
        let place = self.survivors.peers.get(at).map_or(TOLD, |peer| peer.1);
        self.strike_survivor(at, place);
        self.shared.reset(seg);
        true
    }

    fn strike_survivor(&mut self, at: usize, place: u32) {
        if let Some(peer) = self.survivors.peers.get_mut(at) {
            peer.1 = TOLD;
            self.survivors.untold -= 1;
        }
        if let Some(testament) = &mut self.testament {
            testament.settle(place);
        }
    }

    fn forget_survivors(&mut self) {
        for (_, place) in std::mem::take(&mut self.survivors).peers {
            if let Some(testament) = self.testament.as_mut().filter(|_| place != TOLD) {
                testament.settle(place);
            }
        }
        if let Some(testament) = &self.testament {
            testament.forget_left();
        }
    }

    /// An application has the connection in `slot`, or nobody could take it up.
    pub fn bequeath_connection(&mut self, slot: u32) {
        let Some(testament) = &mut self.testament else {
            return;
        };
        let head = self.shared.streams.send_head(slot);
        let key = self.conns.key(slot);
        if let Some(conn) = self.conns.view(slot, &mut self.shared) {
            let start = estate::Start {
                sent: conn.cold.iss + 1 - head,
                irs: conn.cold.irs,
            };
            testament.enter(slot, &key, start);
        }
    }

    /// The connection in `slot` has ended.
    pub fn strike_connection(&mut self, slot: u32) {
        if let Some(testament) = &mut self.testament {
            testament.strike(slot);
        }
    }
}
