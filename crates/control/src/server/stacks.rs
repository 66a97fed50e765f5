//! What owns the stacks, as the control plane sees it.

use std::os::fd::OwnedFd;

use super::client::{Client, ClientId};
use super::pages::SocketsAnswer;
use crate::Error;
use crate::message;

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

    /// What programs have to know of the stack before they attach: lines of the settings file.
    fn settings(&self) -> String;

    /// One channel to each stack, for this program and nobody else.
    ///
    /// # Errors
    /// Why not.
    fn attach(&self, client: &Client) -> Result<Vec<Channel>, Error>;

    /// The program is gone: what it has goes. Only after an attach that succeeded.
    fn detach(&self, client: ClientId);

    /// What a program has.
    fn usage(&self, client: ClientId) -> Usage;

    /// Has sockets of a user, or of all for `None`, answered: at most
    /// [`message::SOCKETS_IN_PAGE`], from a place on, which is 0 or what the answer before said. It
    /// is not waited for.
    fn list_sockets(&self, of: Option<u32>, from: u64, answer: SocketsAnswer);
}
