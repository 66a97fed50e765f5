//! Links whose addresses the kernel has, too: of what comes to them, only what is the stack's goes
//! to it. The stack says what that is.

use std::fmt;
use std::net::SocketAddr;

use crate::time::Instant;

/// What steers segments to the stack: those of the flows that it was told, and SYNs to where it
/// listens. To begin with there are none of either.
pub trait Steering: fmt::Debug + Send {
    /// Segments from `remote` to `local` are the stack's from now on. False: there is no room for
    /// one more flow, and they are not.
    fn enter(&mut self, local: SocketAddr, remote: SocketAddr) -> bool;

    /// They are not any more.
    fn leave(&mut self, local: SocketAddr, remote: SocketAddr);

    /// SYNs to `local`, which may be any address of its family, are the stack's. One that is
    /// listened to twice has to be left twice.
    fn listen(&mut self, local: SocketAddr);

    /// They are not any more.
    fn unlisten(&mut self, local: SocketAddr);

    /// Until then, ACKs of flows that nobody knows may bring SYN cookies of the stack back to where
    /// it listens.
    fn expect_cookies(&mut self, until: Instant);
}
