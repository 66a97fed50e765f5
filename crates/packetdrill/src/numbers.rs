//! Descriptors as the tool sees them.
//!
//! The tool ends a script with the `close` of libc on whatever it has left, so each descriptor is a
//! real one that does nothing.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use pkt::Kind;
use rustix::event::{EventfdFlags, eventfd};

/// A number that stands for no descriptor of the stack.
const NONE: i32 = i32::MAX;

/// The numbers that were handed out, and what the stack calls them.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    known: BTreeMap<i32, (OwnedFd, i32)>,
}

impl Numbers {
    /// A new number for a descriptor of the stack; `None`: the process has none left.
    pub fn give(&mut self, inner: i32) -> Option<i32> {
        let real = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        let number = real.as_raw_fd();
        self.known.insert(number, (real, inner));
        Some(number)
    }

    /// The number is free again.
    pub fn take_back(&mut self, number: i32) {
        self.known.remove(&number);
    }

    /// Forgets all numbers without closing them: they are the tool's.
    pub fn abandon(&mut self) {
        for (real, _) in std::mem::take(&mut self.known).into_values() {
            let _ = real.into_raw_fd();
        }
    }

    /// Whether the number was handed out.
    pub fn contains(&self, number: i32) -> bool {
        self.known.contains_key(&number)
    }

    fn inner(&self, number: i32) -> i32 {
        self.known.get(&number).map_or(NONE, |(_, inner)| *inner)
    }

    /// Puts the stack's descriptors into the arguments of a call.
    pub fn translate(&self, kind: &mut Kind) {
        match kind {
            Kind::Bind { fd, .. }
            | Kind::Listen { fd, .. }
            | Kind::Accept { fd, .. }
            | Kind::Connect { fd, .. }
            | Kind::Receive { fd, .. }
            | Kind::Send { fd, .. }
            | Kind::Read { fd, .. }
            | Kind::Write { fd, .. }
            | Kind::Shutdown { fd, .. }
            | Kind::Close { fd }
            | Kind::SetOption { fd, .. }
            | Kind::GetOption { fd, .. }
            | Kind::Fcntl { fd, .. }
            | Kind::Ioctl { fd, .. }
            | Kind::LocalName { fd }
            | Kind::PeerName { fd }
            | Kind::EpollWait { epoll: fd, .. } => *fd = self.inner(*fd),
            Kind::EpollControl {
                epoll: a, fd: b, ..
            }
            | Kind::Splice { from: a, to: b, .. } => {
                *a = self.inner(*a);
                *b = self.inner(*b);
            }
            // Linux skips negative ones.
            Kind::Poll { fds, .. } => {
                for entry in fds.iter_mut().filter(|entry| entry.fd >= 0) {
                    entry.fd = self.inner(entry.fd);
                }
            }
            Kind::Socket { .. } | Kind::EpollCreate { .. } | Kind::Pipe { .. } => {}
        }
    }
}
