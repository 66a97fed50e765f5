//! The sockets of a stack, for people: a few at a time, so that a list of many holds up nobody.

use std::net::SocketAddr;

use crate::info::State;

/// A socket as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedSocket {
    /// Our end.
    pub local: SocketAddr,
    /// The other end; of a listener none: port 0 of the address that stands for all.
    pub remote: SocketAddr,
    /// Its state: never CLOSED.
    pub state: State,
    /// As Linux counts: received and not read, bytes; of a listener, connections that nobody has
    /// accepted.
    pub recv_queue: u32,
    /// Written and not acknowledged, bytes, with one for a SYN or FIN; of a listener, its backlog.
    pub send_queue: u32,
    /// Who owns it, as was said when its home was [added](crate::Stack::add_home); 0: the
    /// application in this process.
    pub owner: u32,
    /// The home of the program that has it. `None`: none has it, for it is not accepted yet, or
    /// closed.
    pub home: Option<u32>,
}

/// How much of a list is made at once.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Sockets.
    pub sockets: usize,
    /// Places of sockets that are looked at, whether there is one or not.
    pub looks: u32,
}
