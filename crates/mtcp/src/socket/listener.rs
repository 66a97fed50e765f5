//! A listening socket, and who waits there.

use std::collections::VecDeque;

use mtcp_core::{ConnId, FlowKey, ListenerId, Token};

use super::SocketId;

/// A connection that nobody has accepted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) conn: ConnId,
    pub(crate) key: FlowKey,
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    /// Its index and how often listeners were made, so that news of a closed one is not taken for
    /// its successor's.
    pub(crate) token: Token,
    pub(crate) socket: SocketId,
    /// At most as many as its backlog: the stack lets no more in before one leaves.
    pub(crate) queue: VecDeque<Waiting>,
}

/// Bits of a token that are the index.
const INDEX_BITS: u32 = 16;
impl Listener {
    /// Where the listener with this token is, if it still is.
    pub(crate) fn index(token: Token) -> u32 {
        token.0 & ((1 << INDEX_BITS) - 1)
    }

    pub(super) fn token(index: u32, serial: u32) -> Token {
        Token(serial << INDEX_BITS | index)
    }
}
