//! What owns the stacks, as the control plane sees it.

use std::os::fd::OwnedFd;

use crate::Error;
use crate::message::{self, SocketRow};
use crate::policy::{Budget, Credentials};

/// A program that is connected, by a number that no other gets in this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What the daemon knows of a program, from the kernel.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub id: ClientId,
    /// Who it is.
    pub credentials: Credentials,
    /// Its process, where the kernel gives it (Linux 6.5).
    pub pidfd: Option<OwnedFd>,
    /// What it may have, as of when it attached.
    pub budget: Budget,
    /// The name of its program, for people: it may be any.
    pub command: String,
}

/// A channel to one stack.
#[derive(Debug)]
pub struct Channel {
    /// What describes it to the other end.
    pub words: message::Channel,
    /// Memory, doorbell: at most [`message::DESCRIPTORS_MAX`].
    pub descriptors: Vec<OwnedFd>,
}

/// What a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Connections.
    pub connections: u32,
    /// Listeners.
    pub listeners: u32,
    /// Events that wait for it.
    pub events: u32,
    /// Bytes of shared memory.
    pub memory: u64,
}

/// The stacks of a daemon, as the control plane sees them.
pub trait Stacks: Send + Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// Links and addresses, for people.
    fn links(&self) -> String;

    /// One channel to each stack, for this program and nobody else.
    ///
    /// # Errors
    /// Why not.
    fn attach(&self, client: &Client) -> Result<Vec<Channel>, Error>;

    /// The program is gone: what it has goes. Only after an attach that succeeded.
    fn detach(&self, client: ClientId);

    /// What a program has.
    fn usage(&self, client: ClientId) -> Usage;

    /// Sockets of a user, of all for `None`: at most `most` of them, behind the first `from`.
    fn sockets(&self, of: Option<u32>, from: u64, most: usize) -> Vec<SocketRow>;
}
