//! Connections of programs in other processes: their bytes lie in memory that each of them was lent
//! ([`HomeMemory`]), in a home of its own.
//!
//! The driver that serves such programs [says](Stack::serve) for whom it executes what follows, and
//! [shows](Stack::show) what changed in the streams before it hands on replies and events.

use std::io;

use ring::stream::{AppStreams, HomeMemory};
use wire::time::Instant;

use crate::error::Error;
use crate::id::{ConnId, ListenerId};
use crate::stack::Stack;
use crate::tcp::heirs::{move_home, waiting};
use crate::tcp::homes::{Programs, stream_of};
use crate::tcp::stalled::{hand_on_stalled, note_accepting, stall_due};

impl Stack {
    /// Adds a home, of which this returns the number; never 0. `owner` is for whoever
    /// [lists](Stack::list_sockets) its sockets.
    ///
    /// # Errors
    /// `AlreadyExists`: the memory is in use; `OutOfMemory`: there are as many as
    /// [`max_homes`](crate::Config::max_homes) says, or the kernel has no room; `InvalidInput`: it
    /// has too many slots.
    pub fn add_home(&mut self, memory: &HomeMemory, owner: u32) -> io::Result<u32> {
        let home = self.tcp.shared.streams.homes().add(memory)?;
        self.tcp.home_owners.set(home, owner);
        Ok(home)
    }

    /// From now on what is opened belongs to this home: connections, and listeners with the
    /// connections that they get. 0, as at first: to the application in this process. A connection
    /// for which no slot of the home is free is refused, as where there is no memory.
    pub fn serve(&mut self, home: u32) {
        self.tcp.home = home;
    }

    /// The home of a connection, and its slot in the byte streams there. `None`: there is no such
    /// connection.
    pub fn stream_of(&self, conn: ConnId) -> Option<(u32, u32)> {
        stream_of(&self.tcp, conn)
    }

    /// A connection that its program has released is for the application in this process, of which
    /// `app` are the streams: with all that was not read, and what was written and not
    /// acknowledged. Its slot there is that of its name.
    ///
    /// # Errors
    /// `BadId`; `NoMemory`: there is none, or the program holds it; it is as before.
    pub fn take_streams(&mut self, conn: ConnId, app: &mut AppStreams) -> Result<(), Error> {
        Programs(&mut self.tcp).move_streams(conn, 0, Some(app))
    }

    /// What the stack has changed in the streams of other processes is there for them to see.
    #[inline]
    pub fn show(&mut self) {
        self.tcp.shared.streams.show();
    }

    /// The program of a home is gone, and holds none of its connections any more. They are as
    /// before otherwise, until [`Self::app_gone`].
    pub fn release_home(&mut self, home: u32) {
        self.tcp.shared.streams.homes().app_gone(home);
    }

    /// The program of a home is gone. Its listeners are closed, and its connections as by CLOSE
    /// (RFC 9293 §3.10.4): what it had written is sent.
    pub fn app_gone(&mut self, now: Instant, home: u32) {
        Programs(&mut self.tcp).app_gone(now, home);
    }

    /// A listener has its connections in another home from now on. Nobody accepts them there: those
    /// that wait go to others at the place, or wait until one listens there.
    ///
    /// # Errors
    /// `BadId`.
    pub fn move_listener(&mut self, id: ListenerId, home: u32) -> Result<(), Error> {
        move_home(&mut self.tcp, id, home)
    }

    /// How many connections wait at a listener. `None`: there is no such listener.
    pub fn waiting_at(&self, id: ListenerId) -> Option<u32> {
        waiting(&self.tcp, id)
    }

    /// Hands on what waits at listeners whose programs do not come to accept it, to others that
    /// listen at the same place; a bounded part of it. What a program was told of and has
    /// [accepted](AppStreams::accept) is its own.
    pub fn hand_on_stalled(&mut self, now: Instant) {
        hand_on_stalled(&mut self.tcp, now);
    }

    /// When [`Self::hand_on_stalled`] has something to do at the earliest.
    pub fn stall_due(&self, now: Instant) -> Option<Instant> {
        stall_due(&self.tcp, now)
    }

    /// The program of a listener has come to accept, and found that a connection has gone.
    pub fn note_accepting(&mut self, id: ListenerId) {
        note_accepting(&mut self.tcp, id);
    }

    /// Closes a slot that a program was told of with a connection, which has gone to another
    /// program since: the slot is the program's until it releases it. False: there is no such slot,
    /// or it is not released.
    pub fn close_abandoned(&mut self, home: u32, slot: u32) -> bool {
        self.tcp.shared.streams.homes().close_abandoned(home, slot)
    }

    /// Forgets a home. False, and nothing done, while one of its connections is there.
    pub fn remove_home(&mut self, home: u32) -> bool {
        self.tcp.shared.streams.homes().remove(home)
    }

    /// Whether the program of a home has written what cannot be to the memory of its streams, since
    /// this was last asked. The stack did not believe it.
    pub fn take_disorder(&mut self, home: u32) -> bool {
        let disorder = self.tcp.shared.streams.homes().take_disorder(home);
        disorder.is_some()
    }
}
