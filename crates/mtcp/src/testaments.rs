//! What stacks leave to those that take their places, should their processes end without a word.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use mtcp_core::{Holdings, LAYOUT, Testament};
use ring::region::{Plots, Shared};

/// Bytes in front of the first testament: what this memory is, and how it is laid out.
const HEADER: usize = 64;
const MAGIC: [u8; 8] = *b"mTCPleft";

fn header() -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&MAGIC);
    header[8..].copy_from_slice(&LAYOUT.to_ne_bytes());
    header
}

/// Memory with a testament for each seat, and a plot. Processes that are forked have it, too.
#[derive(Clone, Debug)]
pub(crate) struct Testaments {
    memory: Arc<Shared>,
    /// `None`: there is no address space for so much. What was written ends with who wrote it then.
    plots: Option<Arc<Plots>>,
    seats: u8,
    holdings: Holdings,
    /// All seats are empty, and who takes one takes the places of all.
    are_left: bool,
}

impl Testaments {
    /// For so many seats, and stacks that have as much as `holdings` say. Costs memory as it is
    /// used.
    ///
    /// # Errors
    /// No memory or descriptor.
    pub(crate) fn new(seats: u8, holdings: Holdings) -> io::Result<Self> {
        let bytes = usize::from(seats) * Testament::size(holdings.connections);
        let memory = Shared::create("mtcp-testaments", HEADER + bytes)?;
        memory.seal()?;
        memory.write_at(0, &header());
        Ok(Self {
            memory: Arc::new(memory),
            plots: Plots::create("mtcp-streams", seats.into(), holdings.size()?).ok(),
            seats,
            holdings,
            are_left: false,
        })
    }

    /// Those of processes that are gone, or will be, as [`Testaments::fds`] gave them.
    ///
    /// # Errors
    /// They are not of stacks of this build, or not of ones that had as much as `holdings` say.
    pub(crate) fn found([memory, plots]: [OwnedFd; 2], holdings: Holdings) -> io::Result<Self> {
        let each = Testament::size(holdings.connections);
        let memory = Shared::from_fd(memory, HEADER + usize::from(u8::MAX) * each)?;
        let mut found = header().map(|_| 0);
        if !memory.read_at(0, &mut found) || found != header() {
            return Err(io::Error::other(
                "another build of mTCP has left connections, which this one cannot read",
            ));
        }
        let bytes = memory.len() - HEADER;
        let seats = u8::try_from(bytes / each).unwrap_or(0);
        if seats == 0 || !bytes.is_multiple_of(each) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let plots = Shared::from_fd(plots, usize::MAX)?;
        Ok(Self {
            memory: Arc::new(memory),
            plots: Some(Plots::found(plots, seats.into(), holdings.size()?)?),
            seats,
            holdings,
            are_left: true,
        })
    }

    /// What another process can find them by. `None`: there is only half of it.
    pub(crate) fn fds(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.memory.fd(), self.plots.as_ref()?.fd()])
    }

    /// Those that were found, for processes that have a seat each.
    pub(crate) fn for_seats(self, seats: u8) -> Option<Self> {
        let are_left = false;
        (self.seats == seats).then_some(Self { are_left, ..self })
    }

    /// That of a seat, for who has taken it: the process that had it before is gone. And those of
    /// the others, if nobody takes theirs.
    pub(crate) fn of(&self, seat: u8) -> (Testament, Vec<Testament>) {
        let others = (0..self.seats).filter(|other| self.are_left && *other != seat);
        (self.at(seat), others.map(|other| self.at(other)).collect())
    }

    /// Whether there is nothing to take over.
    pub(crate) fn are_empty(&self) -> bool {
        (0..self.seats).all(|seat| self.plain(seat).is_empty())
    }

    fn at(&self, seat: u8) -> Testament {
        let plots = self.plots.as_ref();
        match plots.and_then(|plots| plots.take(seat.into())) {
            Some(plot) => self.plain(seat).with_plot(plot, self.holdings),
            None => self.plain(seat),
        }
    }

    fn plain(&self, seat: u8) -> Testament {
        let connections = self.holdings.connections;
        let at = HEADER + usize::from(seat) * Testament::size(connections);
        Testament::new(Arc::clone(&self.memory), at, connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDINGS: Holdings = Holdings {
        connections: 16,
        send_pool: 1 << 20,
        max_buffer: 1 << 16,
    };

    /// Of 128 TiB, parts are taken.
    #[test]
    fn without_address_space_only_endpoints_are_kept() {
        let holdings = Holdings {
            send_pool: 512 << 30,
            ..HOLDINGS
        };
        assert!(Testaments::new(2, holdings).unwrap().plots.is_some());
        let without = Testaments::new(u8::MAX, holdings).unwrap();
        assert!(without.plots.is_none() && without.fds().is_none());
        let _ = without.of(7);
    }

    /// As another process gets them.
    fn descriptors(testaments: &Testaments) -> [OwnedFd; 2] {
        let fds = testaments.fds().unwrap();
        fds.map(|fd| fd.try_clone_to_owned().unwrap())
    }

    #[test]
    fn what_is_not_of_such_stacks_is_refused() {
        let testaments = Testaments::new(2, HOLDINGS).unwrap();
        let fds = || descriptors(&testaments);
        let found = Testaments::found(fds(), HOLDINGS).unwrap();
        assert!(found.are_empty());
        assert_eq!(found.of(1).1.len(), 1);
        assert!(found.clone().for_seats(3).is_none());
        assert!(found.for_seats(2).unwrap().of(1).1.is_empty());
        let other = Holdings {
            send_pool: 2 << 20,
            ..HOLDINGS
        };
        assert!(Testaments::found(fds(), other).is_err());
        let [memory, plots] = fds();
        assert!(Testaments::found([plots, memory], HOLDINGS).is_err());
    }

    /// Its offsets may be others.
    #[test]
    fn what_another_build_left_is_refused() {
        let testaments = Testaments::new(2, HOLDINGS).unwrap();
        let fds = || descriptors(&testaments);
        for at in [0, 8] {
            let mut word = [0; 8];
            assert!(testaments.memory.read_at(at, &mut word));
            testaments.memory.write_at(at, &7_u64.to_ne_bytes());
            let refused = Testaments::found(fds(), HOLDINGS).unwrap_err();
            assert!(refused.to_string().starts_with("another build of mTCP"));
            testaments.memory.write_at(at, &word);
        }
        assert!(Testaments::found(fds(), HOLDINGS).is_ok());
    }
}
