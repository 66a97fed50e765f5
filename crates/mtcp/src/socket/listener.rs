//! Listening sockets, and who waits there.

use std::collections::VecDeque;

use mtcp_core::{ConnId, FlowKey, ListenerId, Token};

use super::SocketId;
use crate::slab::Slab;

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
    token: Token,
    socket: SocketId,
    /// At most as many as its backlog: the stack lets no more in before one leaves.
    pub(crate) queue: VecDeque<Waiting>,
}

impl Listener {
    /// The connections that wait there.
    pub(crate) fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.queue.iter().map(|waiting| waiting.conn)
    }
}

/// Bits of a token that are the index.
const INDEX_BITS: u32 = 16;

/// All listeners of a context.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    listeners: Slab<Listener>,
    /// Listeners made so far.
    made: u32,
}

impl Listeners {
    /// Makes one for `socket`, which the stack knows by the token. Returns its index.
    pub(crate) fn add(&mut self, socket: SocketId) -> (u32, Token) {
        let index = self.listeners.insert(Listener {
            id: ListenerId {
                slot: 0,
                generation: 0,
            },
            token: Token::NONE,
            socket,
            queue: VecDeque::new(),
        });
        (index, self.rename(index))
    }

    /// The stack knows one by a token that none has had. Returns it.
    fn rename(&mut self, index: u32) -> Token {
        self.made = self.made.wrapping_add(1);
        let token = Token(self.made << INDEX_BITS | index);
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.token = token;
        }
        token
    }

    /// Nobody accepts from one any more: what waits there, and what was announced and comes late,
    /// is not its own.
    pub(crate) fn suspend(&mut self, index: u32) -> VecDeque<Waiting> {
        let listener = self.listeners.get_mut(index);
        listener.map_or_else(VecDeque::new, |listener| {
            listener.token = Token::NONE;
            std::mem::take(&mut listener.queue)
        })
    }

    /// It is accepted from again: its name with the stack, and the token that comes back from now
    /// on.
    pub(crate) fn resume(&mut self, index: u32) -> Option<(ListenerId, Token)> {
        let token = self.rename(index);
        Some((self.get(index)?.id, token))
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Listener> {
        self.listeners.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Listener> {
        self.listeners.get_mut(index)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Listener> {
        self.listeners.remove(index)
    }

    /// The oldest connection that waits there.
    pub(crate) fn front(&self, index: u32) -> Option<Waiting> {
        self.get(index)?.queue.front().copied()
    }

    /// The oldest is not among them any more.
    pub(crate) fn pop(&mut self, index: u32) {
        if let Some(listener) = self.get_mut(index) {
            listener.queue.pop_front();
        }
    }

    /// A connection has come to the listener with this token. Returns its socket; `None`: it was
    /// closed in the meantime.
    pub(crate) fn arrived(&mut self, token: Token, waiting: Waiting) -> Option<SocketId> {
        let index = token.0 & ((1 << INDEX_BITS) - 1);
        let listener = self.listeners.get_mut(index);
        let listener = listener.filter(|listener| listener.token == token)?;
        listener.queue.push_back(waiting);
        Some(listener.socket)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn news_of_a_closed_listener_is_not_its_successors() {
        let local: SocketAddr = "10.0.0.1:80".parse().unwrap();
        let conn = ConnId {
            slot: 3,
            generation: 1,
        };
        let key = FlowKey::new(local, "10.0.0.2:999".parse().unwrap());
        let waiting = Waiting { conn, key };
        let mut listeners = Listeners::default();
        let (index, token) = listeners.add(SocketId(7));
        assert_eq!(listeners.arrived(token, waiting), Some(SocketId(7)));
        assert_eq!(listeners.front(index).unwrap().conn, conn);
        listeners.remove(index);
        assert_eq!(listeners.arrived(token, waiting), None);
        let (again, successor) = listeners.add(SocketId(8));
        assert_eq!(again, index);
        assert_eq!(listeners.arrived(token, waiting), None);
        assert_eq!(listeners.arrived(successor, waiting), Some(SocketId(8)));
    }
}
