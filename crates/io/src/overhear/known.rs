//! Where the kernel knows neighbours to be: it tells what it learns, or is told by the
//! administrator; its table has what it knew before, and what it told when there was no room for
//! more.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv};

use super::filter;
use crate::claim::{announcement, introduction};
use crate::netlink::{self, Neighbour, neighbour_events, told};

/// The table is not read again sooner.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of what the kernel tells of one neighbour.
const ROOM: usize = 512;

/// See the module.
#[derive(Debug)]
pub(crate) struct Known {
    events: OwnedFd,
    interface: u32,
    /// Ours, of which nobody else tells where they are.
    addresses: Box<[IpAddr]>,
    /// Of the table, what was not given away yet.
    table: Vec<Neighbour>,
    /// The table has what was not told.
    is_behind: bool,
    /// When it was read.
    read: Option<Instant>,
}

/// What a look brought.
#[derive(Debug)]
pub(crate) enum Look {
    /// A neighbour, as a frame that would come from it.
    Frame(Vec<u8>),
    /// Nothing that concerns us; there may be more.
    Other,
    /// There is no more.
    Nothing,
}

impl Known {
    /// Of neighbours on `interface`, for a stack with these addresses.
    pub(crate) fn new(interface: u32, addresses: &[IpAddr]) -> io::Result<Self> {
        Ok(Self {
            events: neighbour_events(&filter::neighbours(interface))?,
            interface,
            addresses: addresses.into(),
            table: Vec::new(),
            // Read once the kernel tells what comes later.
            is_behind: true,
            read: None,
        })
    }

    /// What becomes readable when the kernel tells something.
    pub(crate) fn doorbell(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether there is something without waiting for the kernel.
    pub(crate) fn has_rest(&self) -> bool {
        !self.table.is_empty()
    }

    /// The next that there is.
    pub(crate) fn look(&mut self) -> Look {
        if self.is_behind {
            self.read_table();
        }
        if let Some(neighbour) = self.table.pop() {
            return self.frame(&neighbour);
        }
        let mut datagram = [0; ROOM];
        match retry_on_intr(|| recv(&self.events, &mut datagram[..], RecvFlags::DONTWAIT)) {
            Ok((_, length)) => match datagram.get(..length).and_then(told) {
                Some(neighbour) => self.frame(&neighbour),
                None => Look::Other,
            },
            // netlink(7): more was told than there was room for.
            Err(Errno::NOBUFS) => {
                self.is_behind = true;
                Look::Other
            }
            Err(_) => Look::Nothing,
        }
    }

    #[cold]
    fn read_table(&mut self) {
        let now = Instant::now();
        if self.read.is_some_and(|read| now - read < AGAIN) {
            return;
        }
        (self.read, self.is_behind) = (Some(now), false);
        match netlink::neighbours() {
            Ok(table) => {
                let here = |one: &Neighbour| {
                    one.interface == self.interface && (one.reachable || one.permanent)
                };
                self.table = table.into_iter().filter(here).collect();
            }
            Err(error) => log::debug!("the kernel's neighbours cannot be read: {error}"),
        }
    }

    /// What the neighbour would say. One that the administrator set is about to be sent to, as one
    /// that asks for us is: a stack that does not know it notes it. Others it asks itself.
    fn frame(&self, neighbour: &Neighbour) -> Look {
        let &Neighbour { address, mac, .. } = neighbour;
        if self.addresses.contains(&address) {
            return Look::Other;
        }
        let same = |own: &&IpAddr| own.is_ipv4() == address.is_ipv4();
        match self.addresses.iter().find(same) {
            Some(&own) if neighbour.permanent => Look::Frame(introduction((address, mac), own)),
            Some(_) => Look::Frame(announcement(address, mac)),
            None => Look::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::frame::MacAddr;

    use super::*;
    use crate::claim::said;

    fn known() -> Known {
        let addresses = ["10.0.0.1", "fd00::1"].map(|address| address.parse().unwrap());
        Known::new(1, &addresses).unwrap()
    }

    fn neighbour(address: &str, permanent: bool) -> Neighbour {
        Neighbour {
            interface: 1,
            address: address.parse().unwrap(),
            mac: MacAddr([2, 0, 0, 0, 0, 9]),
            permanent,
            reachable: !permanent,
        }
    }

    #[test]
    fn the_table_comes_as_what_neighbours_would_say() {
        let mut known = known();
        (known.is_behind, known.read) = (false, Some(Instant::now()));
        known.table = vec![neighbour("fd00::9", false), neighbour("10.0.0.1", false)];
        assert!(known.has_rest());
        assert!(matches!(known.look(), Look::Other), "our own address");
        let Look::Frame(frame) = known.look() else {
            panic!("no frame");
        };
        let there = neighbour("fd00::9", false);
        assert_eq!(said(&frame), Some((there.address, there.mac)));
        assert!(!known.has_rest());
    }

    #[test]
    fn the_table_is_not_read_time_and_again() {
        let mut known = known();
        known.read_table();
        let first = known.read;
        assert!(first.is_some() && !known.is_behind);
        known.is_behind = true;
        known.read_table();
        assert!(known.read == first && known.is_behind, "a second later");
    }
}
