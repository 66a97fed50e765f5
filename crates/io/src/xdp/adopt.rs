//! Queues that no process has, where several share the interface (`processes`) and there are fewer
//! of them than shares of the queues. What comes there is for any of them, and the kernel would
//! drop it. The process with the first share receives it, until another takes the share.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use wire::time::Instant;

use crate::netlink::Link;
use crate::shm::Exchange;

use super::config::{Frames, ZeroCopy};
use super::error::{BIND, REGISTER, SOCKET, explain};
use super::frame_rings::FrameRings;
use super::program::Program;
use super::queue::{Extras, Queue};
use super::socket::XskSocket;

/// How often to look for queues without a process.
const LOOK: Duration = Duration::from_secs(1);
/// How long the processes of a program may take to start.
const START: Duration = Duration::from_millis(200);
/// Who asks for a queue has so long to take the one that it was left.
const LEAVE: Duration = Duration::from_millis(100);
/// Frames to receive into, and to send, which nothing is: a queue without a process gets little.
const RECEIVE: u32 = 256;
const SEND: u32 = 16;

/// How the queues are divided: those of a share differ by the number of processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) queues: u32,
    pub(super) processes: u32,
    /// Seats of a process.
    pub(super) ports: u32,
    /// That of this process.
    pub(super) own: u32,
}

/// What it takes to receive from the queues of other shares.
#[derive(Debug)]
pub(super) struct Adopter {
    pub(super) link: Link,
    pub(super) program: Arc<Program>,
    pub(super) frames: Frames,
    pub(super) zero_copy: ZeroCopy,
    /// Whether there are words in front of a frame.
    pub(super) words: bool,
    pub(super) shares: Shares,
    pub(super) exchange: Arc<Exchange>,
    /// Sockets that were made while the process had the right to.
    pub(super) spare: Vec<XskSocket>,
    /// Shares whose queues this process has.
    pub(super) adopted: Vec<u32>,
    pub(super) due: Option<Instant>,
    /// That a queue cannot be received from was said.
    pub(super) told: bool,
}

impl Shares {
    fn of(self, share: u32) -> impl Iterator<Item = u32> {
        (share..self.queues).step_by(self.processes.max(1) as usize)
    }

    fn has(self, share: u32, queue: u32) -> bool {
        queue % self.processes.max(1) == share
    }
}

impl Adopter {
    fn is_served(&self, share: u32) -> bool {
        let seat = u8::try_from(share * self.shares.ports).unwrap_or(u8::MAX);
        self.exchange.is_served(seat)
    }

    /// Whether there are queues to be received from, and it is this process that does.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if now < *self.due.get_or_insert(now + START) {
            return false;
        }
        self.due = Some(now + LOOK);
        let Shares { processes, own, .. } = self.shares;
        let first = !(0..own).any(|share| self.is_served(share));
        first && !self.exchange.is_wanted() && (0..processes).any(|share| self.is_free(share))
    }

    fn is_free(&self, share: u32) -> bool {
        share != self.shares.own
            && self.shares.of(share).next().is_some()
            && !self.adopted.contains(&share)
            && !self.is_served(share)
    }

    /// Opens queues that no process has.
    #[cold]
    pub(super) fn adopt(&mut self) -> Vec<Queue> {
        let mut queues = Vec::new();
        for share in 0..self.shares.processes {
            if self.is_free(share) {
                let opened: io::Result<Vec<Queue>> = self
                    .shares
                    .of(share)
                    .map(|number| self.open(number))
                    .collect();
                match opened {
                    Ok(opened) => {
                        queues.extend(opened);
                        self.adopted.push(share);
                    }
                    // A process has come.
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                    Err(error) => self.tell(share, &error),
                }
            }
        }
        queues
    }

    fn tell(&mut self, share: u32, error: &io::Error) {
        if !std::mem::replace(&mut self.told, true) {
            log::warn!(
                "what comes to queue {share} of {} gets no answer, as no process has it: {error}; give --workers the number of processes \
                 that serve",
                self.link.name
            );
        }
    }

    /// The share whose queues are to be left to a process that asks for some.
    #[inline]
    pub(super) fn leaves(&mut self, now: Instant) -> Option<u32> {
        if self.adopted.is_empty() || !self.exchange.is_wanted() {
            return None;
        }
        // The next one if this is not taken in time.
        let due = now + LEAVE;
        if self.due.is_some_and(|at| now < at && at <= due) {
            return None;
        }
        self.due = Some(due);
        Some(self.adopted.remove(0))
    }

    /// Closes the queues of a share that was left.
    #[cold]
    pub(super) fn leave(&self, share: u32, queues: &mut Vec<Queue>) {
        queues.retain(|queue| !self.shares.has(share, queue.number()));
    }

    /// Closes what is not this process's: the interface is gone.
    pub(super) fn leave_all(&mut self, queues: &mut Vec<Queue>) {
        self.adopted.clear();
        queues.retain(|queue| self.shares.has(self.shares.own, queue.number()));
    }

    fn open(&mut self, number: u32) -> io::Result<Queue> {
        let name = self.link.name.clone();
        let (socket, frame_rings) = self.make()?;
        socket
            .bind((self.link.index, number), self.zero_copy, self.frames)
            .map_err(|error| explain(&name, BIND, &error))?;
        self.program
            .steer(number, socket.as_fd())
            .map_err(|error| explain(&name, BIND, &error))?;
        Ok(Queue::new(number, (socket, frame_rings), Extras::default()))
    }

    fn make(&mut self) -> io::Result<(XskSocket, FrameRings)> {
        let name = &self.link.name;
        let frames = Frames {
            receive: self.frames.receive.min(RECEIVE),
            send: self.frames.send.min(SEND),
            ..self.frames
        };
        let made = XskSocket::new().or_else(|error| self.spare.pop().ok_or(error));
        let socket = made.map_err(|error| explain(name, SOCKET, &error))?;
        let frame_rings = socket
            .furnish(frames, self.words)
            .map_err(|error| explain(name, REGISTER, &error))?;
        Ok((socket, frame_rings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_every_so_manyth_queue() {
        let shares = Shares {
            queues: 5,
            processes: 3,
            ports: 1,
            own: 0,
        };
        let of = |share| shares.of(share).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2)], [vec![0, 3], vec![1, 4], vec![2]]);
        assert!(shares.has(1, 4) && !shares.has(2, 4));
    }
}
