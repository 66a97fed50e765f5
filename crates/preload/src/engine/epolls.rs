//! Epoll instances of the program (`epolls`) beside its stack.

use std::ffi::c_int;

use libc::epoll_event;
use mtcp::{Errno, Result};

use super::state::Engine;
use crate::epolls::Watched;
use crate::socket::Body;

impl Engine {
    /// Whether the last turn was just now and left something to be reported for an instance.
    pub(crate) fn has_rest(&mut self, index: u32) -> bool {
        match self.split() {
            (Some(context), epolls) => epolls.has_rest(context, index),
            (None, _) => false,
        }
    }

    /// What the stack has to report for an instance.
    pub(crate) fn harvest(&mut self, index: u32, events: &mut [epoll_event]) -> usize {
        match self.split() {
            (Some(context), epolls) => epolls.harvest(context, index, events),
            (None, _) => 0,
        }
    }

    /// Whether a wait on an instance would report something of ours.
    pub(crate) fn is_ready(&mut self, index: u32) -> bool {
        match self.split() {
            (Some(context), epolls) => epolls.is_ready(context, index),
            (None, _) => false,
        }
    }

    /// `epoll_ctl` for one of our sockets.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub(crate) fn watch(
        &mut self,
        op: c_int,
        watched: Watched,
        event: Option<&epoll_event>,
    ) -> Result<()> {
        let socket = self.sockets.get(watched.socket).ok_or(Errno::EBADF)?;
        let (body, number) = (socket.body, socket.number);
        if !matches!(body, Body::Stream(_)) {
            self.epolls.watch_kernel(op, watched, event)?;
        }
        if !matches!(body, Body::Stream(_) | Body::Listener { ours: Some(_), .. }) {
            return Ok(());
        }
        let (Some(context), epolls) = self.split() else {
            return Err(Errno::EBADF);
        };
        let done = epolls.watch(context, op, watched, (body, number), event);
        self.wake_ready();
        done
    }

    /// A socket became ours: the stack watches it from now on for whoever had the kernel do so,
    /// `alone` if the kernel shall not any more.
    pub(crate) fn rewatch(&mut self, index: u32, alone: bool) {
        let socket = self.sockets.get(index);
        let found = socket.and_then(|socket| Some((socket.ours()?, socket.number)));
        if let (Some(context), epolls) = self.split()
            && let Some(found) = found
        {
            epolls.rewatch(context, index, found, alone);
        }
    }

    /// A socket is gone, or the kernel's for good.
    pub(crate) fn forget(&mut self, socket: u32) {
        let (context, epolls) = self.split();
        epolls.forget(context, socket);
    }

    /// One descriptor less names the instance.
    pub(crate) fn release_epoll(&mut self, index: u32, name: c_int) {
        let (context, epolls) = self.split();
        epolls.release(context, index, name);
    }
}
