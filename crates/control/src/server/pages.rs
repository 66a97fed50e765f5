//! Answers of the stacks on their way to the server, and through it to programs.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::client::ClientId;
use super::waker::Waker;
use crate::message::SocketRow;

/// What has been answered, and to whom. `None`: who was to answer is gone.
pub(super) type Page = (ClientId, Option<(Vec<SocketRow>, u64)>);

/// Answers that have come, for the server to send on.
#[derive(Debug)]
pub(super) struct Pages {
    sender: Sender<Page>,
    come: Receiver<Page>,
    wake: Waker,
}

impl Pages {
    pub(super) fn new(wake: Waker) -> Self {
        let (sender, come) = channel();
        Self { sender, come, wake }
    }

    /// What a program asks for is to come here.
    pub(super) fn answer_to(&self, to: ClientId) -> SocketsAnswer {
        SocketsAnswer {
            to,
            sender: self.sender.clone(),
            wake: self.wake.clone(),
            is_sent: false,
        }
    }

    /// The next that has come.
    pub(super) fn next(&self) -> Option<Page> {
        self.come.try_recv().ok()
    }
}

/// To whom sockets are answered. Where it is dropped without, the program is told that the stack is
/// gone.
#[derive(Debug)]
pub struct SocketsAnswer {
    to: ClientId,
    sender: Sender<Page>,
    wake: Waker,
    is_sent: bool,
}

impl SocketsAnswer {
    /// These, and where to go on; 0: these were the last.
    pub fn send(mut self, sockets: Vec<SocketRow>, next: u64) {
        self.put(Some((sockets, next)));
    }

    fn put(&mut self, page: Option<(Vec<SocketRow>, u64)>) {
        self.is_sent = true;
        // With the server, its programs have gone.
        if self.sender.send((self.to, page)).is_ok() {
            self.wake.wake();
        }
    }
}

impl Drop for SocketsAnswer {
    fn drop(&mut self) {
        if !self.is_sent {
            self.put(None);
        }
    }
}
