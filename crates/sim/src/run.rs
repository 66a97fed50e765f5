//! The network: how it runs.

use std::time::Duration;

use wire::time::Instant;

use crate::calendar::Due;
use crate::end::{End, HostId};
use crate::failure::Failure;
use crate::frame::Frame;
use crate::network::Network;
use crate::pipe::Carried;
use crate::trace::Fate;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Frame(Instant),
    Turn(Instant, HostId),
    Nothing,
}

impl Next {
    fn at(self) -> Option<Instant> {
        match self {
            Self::Frame(at) | Self::Turn(at, _) => Some(at),
            Self::Nothing => None,
        }
    }
}

impl Network {
    fn next(&self) -> Next {
        let frame = self.due.next().map_or(Next::Nothing, Next::Frame);
        let turns = self.hosts.iter().enumerate().filter_map(|(index, host)| {
            let at = host.next_turn()?;
            Some(Next::Turn(at.max(self.now), HostId(index)))
        });
        turns.fold(frame, |first, next| match (first.at(), next.at()) {
            (Some(a), Some(b)) if b < a => next,
            (None, _) => next,
            _ => first,
        })
    }

    /// Does what comes next, and moves the clock there. False if nothing will ever happen again.
    ///
    /// # Errors
    /// A host, or an application on it, found something wrong.
    pub fn step(&mut self) -> Result<bool, Failure> {
        let next = self.next();
        self.take(next)
    }

    fn take(&mut self, next: Next) -> Result<bool, Failure> {
        self.steps += 1;
        if let Some(at) = next.at() {
            self.now = self.now.max(at);
        }
        match next {
            Next::Nothing => Ok(false),
            Next::Frame(_) => {
                if let Some(due) = self.due.pop() {
                    self.arrive(due);
                }
                Ok(true)
            }
            Next::Turn(_, host) => {
                self.turn(host)?;
                Ok(true)
            }
        }
    }

    fn turn(&mut self, id: HostId) -> Result<(), Failure> {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let result = match self.hosts.get_mut(id.0) {
            Some(host) => host.turn(host.clock(self.now), &mut self.spare, &mut outgoing),
            None => Ok(()),
        };
        for (pipe, _, frame) in outgoing.drain(..) {
            self.carry(pipe, frame);
        }
        self.outgoing = outgoing;
        result.map_err(|what| self.failure(format!("host {}: {what}", id.0)))
    }

    /// Puts a frame on a pipe.
    pub(crate) fn carry(&mut self, pipe: usize, mut frame: Frame) {
        let Some(lane) = self.pipes.get_mut(pipe) else {
            return;
        };
        self.trace
            .note(self.now, lane.from, Fate::Sent, &frame.bytes);
        let from = lane.from;
        match lane.carry(self.now, &mut frame) {
            Carried::Arrives(at, again) => {
                if let Some(again) = again {
                    self.due.push(again, pipe, frame.clone());
                }
                return self.due.push(at, pipe, frame);
            }
            Carried::Refused(answer) => self.answer(pipe, answer),
            Carried::Lost => {}
        }
        self.trace.note(self.now, from, Fate::Lost, &frame.bytes);
        self.spare.push(frame.bytes);
    }

    /// A frame of the router at the beginning of `pipe` goes back to who sends there.
    fn answer(&mut self, pipe: usize, answer: Frame) {
        let back = pipe ^ 1;
        if let Some(delay) = self.pipes.get(back).map(|back| back.config().delay) {
            self.due.push(self.now + delay, back, answer);
        }
    }

    fn arrive(&mut self, due: Due) {
        let Some(to) = self.pipes.get(due.pipe).map(|pipe| pipe.to) else {
            return;
        };
        self.trace
            .note(self.now, to, Fate::Arrived, &due.frame.bytes);
        match to {
            End::Host(host, port) => {
                let answer = match self.hosts.get_mut(host.0) {
                    Some(host) => host.deliver(host.clock(self.now), port, due.frame),
                    None => None,
                };
                if let Some((out, _, answer)) = answer {
                    self.carry(out, answer);
                }
            }
            End::Peer(peer) => {
                let now = self.now;
                let Some(peer) = self.peers.get_mut(peer.0) else {
                    return;
                };
                let (answers, out) = (peer.receive(now, &due.frame.bytes), peer.out);
                for answer in answers {
                    if let Some(out) = out {
                        self.carry(out, answer.into());
                    }
                }
            }
            End::Switch(switch) => {
                let Some(switch) = self.switches.get_mut(switch.0) else {
                    return;
                };
                // The way back out of the port that the frame came in by is the other half of its
                // link.
                for out in switch.forward(due.pipe ^ 1, &due.frame.bytes) {
                    self.carry(out, due.frame.clone());
                }
            }
        }
    }

    /// Runs until `done` holds.
    ///
    /// # Errors
    /// It does not within `limit` of virtual time, nothing happens any more, or something went
    /// wrong on the way.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        let end = self.now + limit;
        let last_step = self.steps + self.max_steps;
        while !done(self) {
            let next = self.next();
            if next.at().is_none_or(|at| at > end) {
                let left = self.describe();
                return Err(self.failure(format!("not done after {limit:?}: {left}")));
            }
            if self.steps > last_step {
                return Err(self.failure(format!("livelock: {} steps", self.max_steps)));
            }
            self.take(next)?;
        }
        Ok(())
    }

    /// Runs for a while; the clock is there afterwards.
    ///
    /// # Errors
    /// Something went wrong on the way.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.now + time;
        let last_step = self.steps + self.max_steps;
        loop {
            let next = self.next();
            if next.at().is_none_or(|at| at > end) {
                self.now = end;
                return Ok(());
            }
            if self.steps > last_step {
                return Err(self.failure(format!("livelock: {} steps", self.max_steps)));
            }
            self.take(next)?;
        }
    }

    /// Runs until applications have nothing more to do, stacks hold no connection in any form and
    /// nothing to send, and no frame is under way.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub fn run_idle(&mut self, limit: Duration) -> Result<(), Failure> {
        self.run_until(limit, Self::is_idle)
    }

    fn is_idle(&self) -> bool {
        let quiet = |host: &crate::Host| {
            let usage = host.stack().usage();
            let held = usage.connections + usage.half_open + usage.time_wait + usage.queued;
            host.apps().is_idle() && held == 0
        };
        self.due.is_empty() && self.hosts.iter().all(quiet)
    }
}
