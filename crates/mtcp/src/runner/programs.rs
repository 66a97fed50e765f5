//! Programs in other processes, whose connections have their streams in memory of their own.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use ::io::poll;
use mtcp_core::{AppStreams, ConnId, ListLimits, ListedSocket, ListenerId};
use ring::stream::HomeMemory;
use wire::time::Instant;

use super::Runner;

impl Runner {
    /// Adds memory of another process of this user, whose connections are to have their streams
    /// there.
    ///
    /// # Errors
    /// There are as many as there can be, or the kernel has no room.
    pub(crate) fn add_home(&mut self, memory: &HomeMemory, uid: u32) -> io::Result<u32> {
        self.stack.add_home(memory, uid)
    }

    /// What is opened from now on has its streams there.
    #[inline]
    pub(crate) fn serve(&mut self, home: u32) {
        self.stack.serve(home);
    }

    /// Other processes see what the stack has changed in their streams.
    #[inline]
    pub(crate) fn show(&mut self) {
        self.stack.show();
    }

    /// A listener has its connections in another home from now on. False: there is none.
    pub(crate) fn move_listener(&mut self, id: ListenerId, home: u32) -> bool {
        self.stack.move_listener(id, home).is_ok()
    }

    /// Has what waits where programs do not come to accept go to others that listen at the same
    /// place.
    pub(crate) fn hand_on_stalled(&mut self) {
        self.stack.hand_on_stalled(self.now);
    }

    /// When that has something to do at the earliest.
    pub(crate) fn stall_due(&self) -> Option<Instant> {
        self.stack.stall_due(self.now)
    }

    /// A program has come to accept, and found that what waited has gone.
    pub(crate) fn note_accepting(&mut self, id: ListenerId) {
        self.stack.note_accepting(id);
    }

    /// The process of a home is gone, and holds none of its connections any more.
    pub(crate) fn release_home(&mut self, home: u32) {
        self.stack.release_home(home);
    }

    /// A connection that its program has released is this process's, with all its bytes. False: it
    /// cannot be.
    pub(crate) fn take_streams(&mut self, conn: ConnId, app: &mut AppStreams) -> bool {
        self.stack.take_streams(conn, app).is_ok()
    }

    /// A process gives back a slot of its home whose connection went to another process.
    pub(crate) fn close_abandoned(&mut self, home: u32, slot: u32) {
        // One that its program still has is closed with the program.
        let _ = self.stack.close_abandoned(home, slot);
    }

    /// The process of a home is gone: what it had is closed.
    pub(crate) fn app_gone(&mut self, home: u32) {
        self.quiet_until = Instant::ZERO;
        self.stack.app_gone(self.now, home);
    }

    /// Forgets a home. False: one of its connections is there.
    pub(crate) fn remove_home(&mut self, home: u32) -> bool {
        self.stack.remove_home(home)
    }

    /// Appends sockets of the stack, as [`mtcp_core::Stack::list_sockets`].
    pub(crate) fn list_sockets(
        &mut self,
        from: u64,
        limits: ListLimits,
        is_wanted: impl Fn(u32) -> bool,
        sockets: &mut Vec<ListedSocket>,
    ) -> Option<u64> {
        self.stack.list_sockets(from, limits, is_wanted, sockets)
    }

    /// Whether the process of a home has written what cannot be to its streams, since this was last
    /// asked.
    #[inline]
    pub(crate) fn take_disorder(&mut self, home: u32) -> bool {
        self.stack.take_disorder(home)
    }

    /// Programs have said something, which is work as frames are.
    #[inline]
    pub(crate) fn note_work(&mut self) {
        self.has_work = true;
    }

    /// Sleeps until a timer is due, at most until `deadline`, or `wake` is readable; frames wait on
    /// the link meanwhile.
    ///
    /// # Errors
    /// As [`poll::woken`], but for signals.
    pub(crate) fn pause(&mut self, deadline: Instant, wake: BorrowedFd<'_>) -> io::Result<()> {
        let timeout = self.due(Some(deadline));
        if timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        match poll::woken(Some(wake), timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }
}
