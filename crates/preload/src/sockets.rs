//! The TCP sockets of the program, by index: slots say which index a descriptor has.

use std::ffi::c_int;
use std::time::Duration;

use mtcp::slab::Slab;
use mtcp::{Errno, Result, SocketId};

use crate::owner::Owner;
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};

/// All of them.
#[derive(Debug)]
pub(crate) struct Sockets {
    list: Slab<Socket>,
    /// Of the newest one.
    serial: u32,
}

/// What a descriptor of ours is, looked at under the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) index: u32,
    pub(crate) serial: u32,
    pub(crate) nonblocking: bool,
    pub(crate) body: Body,
}

impl Sockets {
    pub(crate) const fn new() -> Self {
        Self {
            list: Slab::new(),
            serial: 0,
        }
    }

    /// Notes a new socket. Returns its index.
    pub(crate) fn insert(&mut self, mut socket: Socket) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        socket.serial = self.serial;
        self.list.insert(socket)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Socket> {
        self.list.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Socket> {
        self.list.get_mut(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Socket> {
        self.list.remove(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Socket)> {
        self.list.iter()
    }

    /// The socket that `fd` names.
    pub(crate) fn find(&self, fd: c_int) -> Option<Found> {
        let Slot::Socket(index) = slots::look(fd) else {
            return None;
        };
        let socket = self.list.get(index)?;
        Some(Found {
            index,
            serial: socket.serial,
            nonblocking: socket.nonblocking,
            body: socket.body,
        })
    }

    /// Whether the socket found there earlier is still there.
    pub(crate) fn still(&self, found: &Found) -> bool {
        self.list
            .get(found.index)
            .is_some_and(|socket| socket.serial == found.serial)
    }

    /// SO_RCVTIMEO of the socket found there.
    pub(crate) fn recv_timeout(&self, found: &Found) -> Option<Duration> {
        let socket = self.list.get(found.index);
        socket.and_then(|socket| socket.recv_timeout)
    }

    /// SO_SNDTIMEO of the socket found there.
    pub(crate) fn send_timeout(&self, found: &Found) -> Option<Duration> {
        let socket = self.list.get(found.index);
        socket.and_then(|socket| socket.send_timeout)
    }

    /// Whether the program listens.
    pub(crate) fn has_listener(&self) -> bool {
        let listens = |socket: &Socket| matches!(socket.body, Body::Listener { .. });
        self.list.iter().any(|(_, socket)| listens(socket))
    }

    /// Whether the stack listens for the program.
    pub(crate) fn is_served(&self) -> bool {
        let listens = |socket: &Socket| matches!(socket.body, Body::Listener { ours: Some(_), .. });
        self.list.iter().any(|(_, socket)| listens(socket))
    }

    /// What the stack listens with for the program.
    pub(crate) fn served(&self) -> Vec<SocketId> {
        let served = self
            .list
            .iter()
            .filter_map(|(_, socket)| match socket.body {
                Body::Listener { ours, .. } => ours,
                _ => None,
            });
        served.collect()
    }

    /// Whether there is a connection of ours.
    pub(crate) fn has_connection(&self) -> bool {
        let is_connected = |socket: &Socket| matches!(socket.body, Body::Stream(_));
        self.list.iter().any(|(_, socket)| is_connected(socket))
    }

    /// The listeners that the stack does not listen for.
    pub(crate) fn unserved(&self) -> Vec<u32> {
        self.list
            .iter()
            .filter(|(_, socket)| matches!(socket.body, Body::Listener { ours: None, .. }))
            .map(|(index, _)| index)
            .collect()
    }

    /// The stack listens no more. Returns what it listened with.
    pub(crate) fn stop_listening(&mut self) -> Vec<SocketId> {
        let ours = self
            .list
            .values_mut()
            .filter_map(|socket| match &mut socket.body {
                Body::Listener { ours, .. } => ours.take(),
                _ => None,
            });
        ours.collect()
    }

    /// A child is made, which has them, too.
    pub(crate) fn share(&mut self) {
        for socket in self.list.values_mut() {
            socket.shared = true;
        }
    }

    /// Another process may get it, which matters of a listener.
    pub(crate) fn share_listener(&mut self, index: u32) {
        if let Some(socket) = self.list.get_mut(index)
            && matches!(socket.body, Body::Listener { .. })
        {
            socket.shared = true;
        }
    }

    /// This is a child, which has them from its parent.
    pub(crate) fn inherit(&mut self) {
        for socket in self.list.values_mut() {
            socket.inherited = true;
        }
    }

    /// Nothing is on the stack any more.
    pub(crate) fn forget_stack(&mut self) {
        for socket in self.list.values_mut() {
            socket.body = match socket.body {
                Body::Stream(_) => Body::Lost,
                Body::Listener { backlog, .. } => Body::Listener {
                    backlog,
                    ours: None,
                },
                other => other,
            };
        }
    }

    /// Who hears of urgent data on a connection, if anybody.
    #[cold]
    pub(crate) fn owner_of(&self, id: SocketId) -> Option<Owner> {
        let (_, socket) = self
            .list
            .iter()
            .find(|(_, socket)| socket.ours() == Some(id))?;
        Some(socket.owner).filter(|owner| owner.is_somebody())
    }

    /// Sets the owner of the socket that `fd` names.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn set_owner(&mut self, fd: c_int, owner: Owner) -> Result<()> {
        let Slot::Socket(index) = slots::look(fd) else {
            return Err(Errno::EBADF);
        };
        self.list.get_mut(index).ok_or(Errno::EBADF)?.owner = owner;
        Ok(())
    }

    /// # Errors
    /// `EBADF`.
    pub(crate) fn owner(&self, fd: c_int) -> Result<Owner> {
        let index = self.find(fd).ok_or(Errno::EBADF)?.index;
        Ok(self.list.get(index).ok_or(Errno::EBADF)?.owner)
    }
}
