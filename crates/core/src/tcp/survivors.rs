//! Peers of connections that a stack had whose place this one has taken, and that it could not go
//! on with (`orphans`). It ended without a word, so they believe in connections that nobody knows:
//! half-open connections in the sense of RFC 9293 §3.5.1. One that sends learns so by the RST that
//! answers it; one that waits for an answer never would. So it is asked as that section says: a
//! SYN, which it answers with an ACK (RFC 5961 §4), for which it gets the RST.

use std::time::Duration;

use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::estate;
use crate::flow::{Digest, FlowKey};
use crate::tcp::conns::Conns;
use crate::tcp::lookup::Lookup;
use crate::tcp::segment::Segment;
use crate::tcp::setup::Between;
use crate::tcp::setup::isn::{self, Start};
use crate::tcp::shared::Shared;
use crate::testament::Testament;

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
    /// What the stack that takes this one's place is to know, if one will.
    testament: Option<Testament>,
}

const TOLD: u32 = u32::MAX;

impl Survivors {
    /// Of a stack that leaves a testament.
    pub fn with(testament: Testament) -> Self {
        Self {
            testament: Some(testament),
            ..Self::default()
        }
    }

    /// These are to be told.
    pub fn seek(&mut self, now: Instant, mut peers: Vec<(FlowKey, u32)>) {
        peers.sort_unstable();
        self.untold = peers.len();
        self.at = (!peers.is_empty()).then_some(now + (PATIENCE - LEAD));
        self.peers = peers;
    }

    /// What lies at `place` of the testament is done with.
    pub fn settle(&self, place: u32) {
        if let Some(testament) = &self.testament {
            testament.settle(place);
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

    /// When [`Self::ask`] wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Asks the next few whose time has come.
    pub fn ask(&mut self, now: Instant, lookup: Lookup<'_>, sh: &mut Shared) {
        if self.at.is_none_or(|at| at > now) {
            return;
        }
        for at in self.take_turn() {
            if let Some(&(key, place)) = self.peers.get(at).filter(|(_, p)| *p != TOLD) {
                self.seek_one(now, at, &key, place, lookup, sh);
            }
        }
        self.at = self.schedule(now);
        if self.at.is_none() {
            self.forget();
        }
    }

    fn seek_one(
        &mut self,
        now: Instant,
        at: usize,
        key: &FlowKey,
        place: u32,
        lookup: Lookup<'_>,
        sh: &mut Shared,
    ) {
        let Between { digest, taken } = lookup.between(key);
        // The endpoints are in use again: the peer has learnt it, or an application here has got
        // what it sent again.
        if taken.is_some() {
            self.strike(at, place);
        } else if self.round > 0 {
            ask(now, key, digest, sh);
        } else if let Ok(&path) = sh.net.way_back(key) {
            sh.net.resolve(now, &path, &mut sh.counters);
        }
    }

    /// Tells the peer whose segment this is that there is no connection, if it is to be told and no
    /// other stack knows better. Each is told once, however many there are: no limit holds for
    /// these RSTs. Whether it is.
    pub fn tell(&mut self, seg: &Segment<'_>, sh: &mut Shared) -> bool {
        if self.untold == 0 {
            return false;
        }
        let Some(at) = self.find(seg.key) else {
            return false;
        };
        let place = self.peers.get(at).map_or(TOLD, |peer| peer.1);
        self.strike(at, place);
        sh.reset(seg);
        true
    }

    fn strike(&mut self, at: usize, place: u32) {
        if let Some(peer) = self.peers.get_mut(at) {
            peer.1 = TOLD;
            self.untold -= 1;
        }
        self.settle(place);
    }

    fn forget(&mut self) {
        for (_, place) in std::mem::take(&mut self.peers) {
            if place != TOLD {
                self.settle(place);
            }
        }
        self.untold = 0;
        if let Some(testament) = &self.testament {
            testament.forget_left();
        }
    }

    /// An application has the connection in `slot`, or nobody could take it up.
    pub fn bequeath(&mut self, slot: u32, conns: &mut Conns, sh: &mut Shared) {
        let Some(testament) = &mut self.testament else {
            return;
        };
        let head = sh.streams.send_head(slot);
        let key = conns.key(slot);
        if let Some(conn) = conns.view(slot, sh) {
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

fn ask(now: Instant, key: &FlowKey, digest: Digest, sh: &mut Shared) {
    let Start { iss, ts_offset } = isn::start(now, digest.origin);
    // The clock that the stack before had: the peer takes it for no old duplicate
    // (RFC 7323 §5.3).
    let stamps = sh.config.timestamps.then(|| Timestamps {
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
    sh.counters.survivors_asked += 1;
    sh.send_bare(key, &header);
}
