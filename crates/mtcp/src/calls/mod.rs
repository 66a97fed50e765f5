//! All sockets of a context, and what each call does to them and to the stack as far as that takes
//! no waiting.

mod close;
mod epoll;
mod events;
mod open;
mod options;

use std::io::IoSliceMut;

use mtcp_core::command::Options;
use mtcp_core::{ConnId, Event};

use crate::epoll::{Events, Levels, Watch};
use crate::pipe::Pipes;
use crate::settings::Settings;
use crate::socket::bindings::Bindings;
use crate::socket::choices::Choices;
use crate::socket::listener::Listeners;
use crate::socket::owners::Owners;
use crate::socket::sources::Sources;
use crate::socket::stream::Stream;
use crate::socket::table::{Body, Flags, Table};
use crate::socket::urgent::UrgentNews;
use crate::transport::Transport;
use crate::{Errno, Result, SendFlags, SocketId};

/// Events of the stack looked at together.
const PASS: usize = 32;

/// The parts that calls are put together from.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) settings: Settings,
    pub(crate) transport: Transport,
    pub(crate) table: Table,
    pub(crate) watch: Watch,
    pub(crate) urgent: UrgentNews,
    listeners: Listeners,
    pipes: Pipes,
    bindings: Bindings,
    sources: Sources,
    owners: Owners,
    /// What the stack had to tell, while it is worked on.
    events: Vec<Event>,
    /// The loss of the link has been told to the epoll instances.
    knows_down: bool,
}

impl Sockets {
    /// At most `limit` of them; `seed` picks ports.
    pub(crate) fn new(settings: Settings, limit: u32, seed: u16, transport: Transport) -> Self {
        let usual = Choices::new(Options {
            idle_timeout: settings.idle_timeout,
            ..Options::default()
        });
        let bindings = Bindings::new(settings.ports, seed);
        Self {
            settings,
            transport,
            table: Table::new(limit, usual),
            watch: Watch::new(),
            urgent: UrgentNews::default(),
            listeners: Listeners::default(),
            pipes: Pipes::default(),
            bindings,
            sources: Sources::default(),
            owners: Owners::default(),
            events: Vec::with_capacity(PASS),
            knows_down: false,
        }
    }

    /// The stream `conn` of the socket `id`.
    #[inline]
    pub(crate) fn stream(&mut self, id: SocketId, conn: ConnId) -> Result<Stream<'_>> {
        Ok(Stream {
            conn,
            socket: self.table.get_mut(id)?,
            transport: &mut self.transport,
            legacy_errors: self.settings.legacy_errors,
        })
    }

    /// What is true of the sockets.
    #[inline]
    pub(crate) fn levels(&mut self) -> Levels<'_> {
        Levels {
            table: &self.table,
            listeners: &mut self.listeners,
            pipes: &self.pipes,
            transport: &mut self.transport,
            as_original: self.settings.one_event_per_entry,
        }
    }

    /// Something about `id` may have become true.
    #[inline]
    pub(crate) fn news(&mut self, id: SocketId, edges: Events) {
        if let Ok(socket) = self.table.get(id) {
            self.watch.news(socket.watchers, edges);
        }
    }

    /// Reads from a stream what there is now, `None`: nothing.
    #[inline]
    pub(crate) fn take_bytes(
        &mut self,
        (id, conn): (SocketId, ConnId),
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Option<Result<usize>> {
        match self.stream(id, conn) {
            Ok(mut stream) => stream.take_bytes(bufs, peek),
            Err(error) => Some(Err(error)),
        }
    }

    /// Writes to a stream what fits now, `None`: nothing.
    #[inline]
    pub(crate) fn put_bytes(
        &mut self,
        (id, conn): (SocketId, ConnId),
        bytes: &[u8],
        flags: SendFlags,
    ) -> Option<Result<usize>> {
        match self.stream(id, conn) {
            Ok(mut stream) => stream.put_bytes(bytes, flags),
            Err(error) => Some(Err(error)),
        }
    }

    /// What a call that reads or writes says on a socket that is no stream with a connection.
    pub(crate) fn not_connected(&mut self, id: SocketId) -> Errno {
        match self.table.get(id).map(|socket| socket.body) {
            Ok(Body::Epoll(_)) => Errno::EINVAL,
            Ok(Body::Idle) => self.table.take_given_up(id).unwrap_or(Errno::ENOTCONN),
            _ => Errno::ENOTCONN,
        }
    }

    /// A pipe inside this context: `(read end, write end)`.
    pub(crate) fn pipe(&mut self) -> Result<(SocketId, SocketId)> {
        let index = self.pipes.create();
        let reader = self.table.add(Body::Pipe(index), Flags::empty());
        let writer = reader.and_then(|_| self.table.add(Body::Pipe(index), Flags::WRITER));
        match (reader, writer) {
            (Ok(reader), Ok(writer)) => {
                self.pipes.open(index, reader, writer);
                Ok((reader, writer))
            }
            _ => {
                if let Ok(reader) = reader {
                    self.table.remove(reader);
                }
                self.pipes.remove(index);
                Err(Errno::ENFILE)
            }
        }
    }

    /// Reads from the pipe at `index`, of which `id` is an end.
    pub(crate) fn pipe_read(
        &mut self,
        id: SocketId,
        index: u32,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
        is_blocking: bool,
    ) -> Result<usize> {
        let flags = self.table.get(id)?.flags;
        let (n, writer) = self.pipes.read(index, flags, bufs, peek, is_blocking)?;
        if let Some(writer) = writer {
            self.news(writer, Events::OUT | Events::WRNORM);
        }
        Ok(n)
    }

    /// Writes to the pipe at `index`, of which `id` is an end.
    pub(crate) fn pipe_write(
        &mut self,
        id: SocketId,
        index: u32,
        bytes: &[u8],
        is_blocking: bool,
    ) -> Result<usize> {
        let flags = self.table.get(id)?.flags;
        let (n, reader) = self.pipes.write(index, flags, bytes, is_blocking)?;
        self.news(reader, Events::IN | Events::RDNORM);
        Ok(n)
    }

    /// Bytes that can be read now.
    pub(crate) fn available(&mut self, id: SocketId) -> Result<u32> {
        match self.table.get(id)?.body {
            Body::Stream(conn) => Ok(self.stream(id, conn)?.readable_to_mark()),
            Body::Pipe(pipe) => Ok(u32::try_from(self.pipes.len(pipe)).unwrap_or(u32::MAX)),
            Body::Listener(_) => Err(Errno::EINVAL),
            Body::Epoll(_) => Err(Errno::ENOTSOCK),
            Body::Free(_) | Body::Idle => Ok(0),
        }
    }

    /// Whether the socket stands at the urgent byte.
    pub(crate) fn at_mark(&mut self, id: SocketId) -> Result<bool> {
        match self.table.look(id)?.0.body {
            Body::Stream(conn) => Ok(self.stream(id, conn)?.stands_at_mark()),
            Body::Listener(_) => Err(Errno::EINVAL),
            _ => Ok(false),
        }
    }
}
