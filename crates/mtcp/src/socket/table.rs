//! The table of sockets: one small record per id for what every call needs, one larger for the
//! rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bitflags::bitflags;
use mtcp_core::ConnId;
use ring::prefetch::prefetch;

use super::choices::{ChoiceSets, Choices, ChoicesId};
use super::ends::Ends;
use super::{Domain, Kind, SocketId};
use crate::{Errno, Result};

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

bitflags! {
    /// What is true of a socket besides its kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u32 {
        const NONBLOCKING = 1 << 0;
        /// AF_INET6.
        const V6 = 1 << 1;
        const ONLY_V6 = 1 << 2;
        const REUSE_ADDR = 1 << 3;
        const REUSE_PORT = 1 << 4;
        const KEEPALIVE = 1 << 5;
        /// `bind` gave it an address.
        const BOUND = 1 << 6;
        /// `connect` has not said yet how it ended.
        const CONNECTING = 1 << 7;
        const SHUT_RD = 1 << 8;
        const SHUT_WR = 1 << 9;
        /// The connection's error was reported once.
        const ERROR_TAKEN = 1 << 10;
        /// All that was written was acknowledged, FIN included.
        const DRAINED = 1 << 11;
        /// The writing end of a pipe.
        const WRITER = 1 << 12;
        /// `Details::recv_low_water` is more than one byte.
        const LOW_WATER = 1 << 13;
        /// Its SYN waits for the first bytes (TCP Fast Open).
        const DEFERRED = 1 << 14;
        /// SO_OOBINLINE.
        const OOB_INLINE = 1 << 15;
        /// An attempt to connect was given up, and nobody has been told.
        const GIVEN_UP = 1 << 16;
    }
}

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Nothing; the next free one.
    Free(u32),
    /// A stream without a connection.
    Idle,
    /// A stream.
    Stream(ConnId),
    /// Index among the listeners.
    Listener(u32),
    /// Index among the epoll instances.
    Epoll(u32),
    /// Index among the pipes.
    Pipe(u32),
}

/// What every call needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) body: Body,
    pub(crate) flags: Flags,
    /// First of the epoll entries that watch it.
    pub(crate) watchers: u32,
}

/// The rest, for streams and listeners.
#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) ends: Ends,
    pub(crate) choices: ChoicesId,
}

/// All sockets of a context.
#[derive(Debug)]
pub(crate) struct Table {
    sockets: Vec<Socket>,
    details: Vec<Details>,
    pub(crate) choices: ChoiceSets,
    free: FreeIds,
    limit: u32,
}

/// Ids that can be used again: the one that was freed first comes first. Those that were freed
/// since `epoll_wait` last reported come last of all: programs keep arrays by id, and look at what
/// they have of a socket after they closed it.
#[derive(Debug)]
struct FreeIds {
    first: u32,
    last: u32,
    /// So many of them, from the first on, were freed before the last report ...
    rested: u32,
    /// ... and the others after it.
    recent: u32,
}

/// The address that stands for none.
pub(crate) fn unspecified(domain: Domain) -> SocketAddr {
    match domain {
        Domain::V4 => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into(),
        Domain::V6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0).into(),
    }
}

impl Table {
    pub(crate) fn new(limit: u32, usual: Choices) -> Self {
        Self {
            sockets: Vec::new(),
            details: Vec::new(),
            choices: ChoiceSets::new(usual),
            free: FreeIds {
                first: NONE,
                last: NONE,
                rested: 0,
                recent: 0,
            },
            limit,
        }
    }

    /// All that is free may be used again: the application is done with what was reported.
    pub(crate) fn rest(&mut self) {
        self.free.rested += std::mem::take(&mut self.free.recent);
    }

    /// Takes the free id to use next, unless a new one is better or there is none.
    fn take_free(&mut self) -> Option<u32> {
        let is_full = self.sockets.len() >= self.limit as usize;
        let free = &mut self.free;
        let count = match (free.rested, is_full) {
            (1.., _) => &mut free.rested,
            (0, true) if free.recent > 0 => &mut free.recent,
            _ => return None,
        };
        *count -= 1;
        let index = free.first;
        if let Some(Socket {
            body: Body::Free(next),
            ..
        }) = self.sockets.get(index as usize)
        {
            free.first = *next;
        }
        Some(index)
    }

    /// A socket that nothing was done with.
    pub(crate) fn add(&mut self, body: Body, flags: Flags) -> Result<SocketId> {
        let domain = Socket::domain_of(flags);
        let details = self.blank(domain);
        self.insert(body, flags, details)
    }

    /// Of a socket that nothing was done with.
    fn blank(&mut self, domain: Domain) -> Details {
        let none = unspecified(domain);
        Details {
            ends: Ends::new(none, none),
            choices: self.choices.usual(),
        }
    }

    /// Changes what was chosen for a socket, for whose user `choices` are.
    pub(crate) fn choose(&mut self, id: SocketId, choices: ChoicesId) {
        let details = self.details.get_mut(id.0 as usize);
        let before = details.map_or(choices, |details| {
            std::mem::replace(&mut details.choices, choices)
        });
        self.choices.release(before);
    }

    /// A free id: see [`FreeIds`].
    pub(crate) fn insert(
        &mut self,
        body: Body,
        flags: Flags,
        details: Details,
    ) -> Result<SocketId> {
        let socket = Socket {
            body,
            flags,
            watchers: NONE,
        };
        if let Some(index) = self.take_free()
            && let Some(entry) = self.sockets.get_mut(index as usize)
            && let Some(rest) = self.details.get_mut(index as usize)
        {
            *entry = socket;
            let before = std::mem::replace(rest, details);
            self.choices.release(before.choices);
            return Ok(SocketId(index));
        }
        let index = u32::try_from(self.sockets.len()).unwrap_or(NONE);
        if index >= self.limit {
            self.choices.release(details.choices);
            return Err(Errno::ENFILE);
        }
        self.sockets.push(socket);
        self.details.push(details);
        Ok(SocketId(index))
    }

    /// Frees an id.
    pub(crate) fn remove(&mut self, id: SocketId) {
        let Ok(socket) = self.get_mut(id) else {
            return;
        };
        socket.body = Body::Free(NONE);
        socket.flags = Flags::empty();
        let free = &mut self.free;
        let is_first = free.rested + free.recent == 0;
        free.recent += 1;
        let before = std::mem::replace(&mut free.last, id.0);
        if is_first {
            free.first = id.0;
        } else if let Some(socket) = self.sockets.get_mut(before as usize) {
            socket.body = Body::Free(id.0);
        }
    }

    /// Hints the processor to load what every call needs of `id` early.
    pub(crate) fn prefetch(&self, id: SocketId) {
        if let Some(socket) = self.sockets.get(id.0 as usize) {
            prefetch(socket);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Result<&Socket> {
        match self.sockets.get(id.0 as usize) {
            Some(socket) if !matches!(socket.body, Body::Free(_)) => Ok(socket),
            _ => Err(Errno::EBADF),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Result<&mut Socket> {
        match self.sockets.get_mut(id.0 as usize) {
            Some(socket) if !matches!(socket.body, Body::Free(_)) => Ok(socket),
            _ => Err(Errno::EBADF),
        }
    }

    /// A stream or listener, with all that is known of it.
    pub(crate) fn both(&mut self, id: SocketId) -> Result<(&mut Socket, &mut Details)> {
        let index = id.0 as usize;
        match (self.sockets.get_mut(index), self.details.get_mut(index)) {
            (
                Some(Socket {
                    body: Body::Free(_),
                    ..
                }),
                _,
            )
            | (None, _)
            | (_, None) => Err(Errno::EBADF),
            (
                Some(Socket {
                    body: Body::Epoll(_) | Body::Pipe(_),
                    ..
                }),
                _,
            ) => Err(Errno::ENOTSOCK),
            (Some(socket), Some(details)) => Ok((socket, details)),
        }
    }

    /// As [`Table::both`], only to look.
    pub(crate) fn look(&self, id: SocketId) -> Result<(&Socket, &Details)> {
        let socket = self.get(id)?;
        match (socket.body, self.details.get(id.0 as usize)) {
            (Body::Epoll(_) | Body::Pipe(_), _) | (_, None) => Err(Errno::ENOTSOCK),
            (_, Some(details)) => Ok((socket, details)),
        }
    }

    /// The first that watches `id`, and the instance that `ep` is.
    pub(crate) fn watched(&self, ep: SocketId, id: SocketId) -> Option<(u32, u32)> {
        Some((self.get(id).ok()?.watchers, self.instance(ep).ok()?))
    }

    /// The instance that the epoll instance `ep` is.
    pub(crate) fn instance(&self, ep: SocketId) -> Result<u32> {
        match self.get(ep)?.body {
            Body::Epoll(instance) => Ok(instance),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Whether this is a stream that has, or opens, a connection.
    pub(crate) fn has_connection(&self, id: SocketId) -> bool {
        self.get(id)
            .is_ok_and(|socket| matches!(socket.body, Body::Stream(_)))
    }

    /// The error of an attempt to connect that was given up, the first time it is asked for.
    pub(crate) fn take_given_up(&mut self, id: SocketId) -> Option<Errno> {
        let socket = self.get_mut(id).ok()?;
        let told = socket.flags.contains(Flags::GIVEN_UP);
        socket.flags -= Flags::GIVEN_UP;
        told.then_some(Errno::ECONNRESET)
    }

    /// What was chosen for a stream or listener.
    pub(crate) fn choices_of(&self, id: SocketId) -> Result<&Choices> {
        let (_, details) = self.look(id)?;
        Ok(self.choices.at(details.choices))
    }

    /// How long a reading call may wait.
    pub(crate) fn recv_timeout(&self, id: SocketId) -> Option<Duration> {
        self.choices_of(id).ok()?.recv_timeout
    }

    /// How long a writing call may wait.
    pub(crate) fn send_timeout(&self, id: SocketId) -> Option<Duration> {
        self.choices_of(id).ok()?.send_timeout
    }

    /// Bytes that a blocking read waits for (SO_RCVLOWAT).
    pub(crate) fn low_water(&self, id: SocketId) -> usize {
        let flags = self.get(id).map(|socket| socket.flags);
        flags.map_or(1, |flags| self.recv_low_water(id, flags) as usize)
    }

    /// Bytes without which the stream with these flags is not readable (SO_RCVLOWAT).
    #[inline]
    pub(crate) fn recv_low_water(&self, id: SocketId, flags: Flags) -> u32 {
        if !flags.contains(Flags::LOW_WATER) {
            return 1;
        }
        let details = self.details.get(id.0 as usize);
        details.map_or(1, |details| self.choices.at(details.choices).recv_low_water)
    }

    /// The socket `id`, if it is that connection's.
    pub(crate) fn stream_mut(&mut self, id: SocketId, conn: ConnId) -> Option<&mut Socket> {
        let socket = self.get_mut(id).ok()?;
        (socket.body == Body::Stream(conn)).then_some(socket)
    }

    /// All ids in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SocketId> + use<> {
        let used: Vec<SocketId> = (0..)
            .zip(&self.sockets)
            .filter(|(_, socket)| !matches!(socket.body, Body::Free(_)))
            .map(|(index, _)| SocketId(index))
            .collect();
        used.into_iter()
    }
}

impl Socket {
    pub(crate) fn kind(&self) -> Kind {
        match self.body {
            Body::Free(_) | Body::Idle | Body::Stream(_) => Kind::Stream,
            Body::Listener(_) => Kind::Listener,
            Body::Epoll(_) => Kind::Epoll,
            Body::Pipe(_) => Kind::Pipe,
        }
    }

    pub(crate) fn domain(&self) -> Domain {
        Self::domain_of(self.flags)
    }

    fn domain_of(flags: Flags) -> Domain {
        if flags.contains(Flags::V6) {
            Domain::V6
        } else {
            Domain::V4
        }
    }

    pub(crate) fn nonblocking(&self) -> bool {
        self.flags.contains(Flags::NONBLOCKING)
    }
}

#[cfg(test)]
mod tests {
    use mtcp_core::command::Options;

    use super::*;

    fn insert(table: &mut Table) -> Result<SocketId> {
        let blank = table.blank(Domain::V4);
        table.insert(Body::Idle, Flags::empty(), blank)
    }

    #[test]
    fn ids_are_small_and_reused() {
        let mut table = Table::new(3, Choices::new(Options::default()));
        let ids: Vec<_> = (0..3).map(|_| insert(&mut table).unwrap().0).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!(insert(&mut table), Err(Errno::ENFILE));
        table.remove(SocketId(1));
        table.remove(SocketId(0));
        table.remove(SocketId(0));
        assert_eq!(table.get(SocketId(1)).err(), Some(Errno::EBADF));
        assert_eq!(insert(&mut table), Ok(SocketId(1)));
        assert_eq!(insert(&mut table), Ok(SocketId(0)));
        assert_eq!(insert(&mut table), Err(Errno::ENFILE));
    }

    #[test]
    fn ids_rest_until_the_next_report() {
        let mut table = Table::new(4, Choices::new(Options::default()));
        let ids = [(); 2].map(|()| insert(&mut table).unwrap());
        table.remove(ids[1]);
        assert_eq!(insert(&mut table), Ok(SocketId(2)));
        table.rest();
        table.remove(ids[0]);
        // The one that rested, a new one, and what was just freed only where there is nothing else.
        let next = [(); 3].map(|()| insert(&mut table).unwrap().0);
        assert_eq!(next, [1, 3, 0]);
        assert_eq!(insert(&mut table), Err(Errno::ENFILE));
    }

    #[test]
    fn ids_out_of_range_are_bad() {
        let mut table = Table::new(1, Choices::new(Options::default()));
        assert_eq!(table.get(SocketId(u32::MAX)).err(), Some(Errno::EBADF));
        assert_eq!(table.both(SocketId(7)).err(), Some(Errno::EBADF));
        table.remove(SocketId(7));
    }

    #[test]
    fn records_are_small() {
        assert!(size_of::<Socket>() <= 24, "{}", size_of::<Socket>());
        assert!(size_of::<Details>() <= 24, "{}", size_of::<Details>());
    }

    #[test]
    fn sockets_that_were_set_alike_share_a_record() {
        let mut table = Table::new(3, Choices::new(Options::default()));
        let ids = [(); 3].map(|()| insert(&mut table).unwrap());
        let record = |table: &Table, id| table.look(id).unwrap().1.choices;
        assert_eq!(record(&table, ids[0]), record(&table, ids[1]));
        for id in ids {
            let mut choices = *table.choices.at(record(&table, id));
            choices.options.nodelay = id != ids[2];
            let choices = table.choices.take(&choices);
            table.choose(id, choices);
        }
        assert_eq!(record(&table, ids[0]), record(&table, ids[1]));
        assert_ne!(record(&table, ids[0]), record(&table, ids[2]));
        assert!(table.choices.at(record(&table, ids[0])).options.nodelay);
        // Who comes after it has nothing from it.
        table.remove(ids[0]);
        assert_eq!(insert(&mut table), Ok(ids[0]));
        assert_eq!(record(&table, ids[0]), record(&table, ids[2]));
        assert_eq!(insert(&mut table), Err(Errno::ENFILE));
        assert!(table.choices.at(record(&table, ids[1])).options.nodelay);
    }
}
