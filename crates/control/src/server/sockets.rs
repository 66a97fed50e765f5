//! Lists of sockets: the stacks make them piece by piece, on threads of their own, and the server
//! waits for none of it.

use rustix::io::Errno;

use super::{ClientId, DropReason, Server, Stacks};
use crate::Error;
use crate::message::Reply;

impl<S: Stacks> Server<S> {
    /// A program asks for sockets; it may not ask again before it has an answer.
    pub(super) fn ask_for_sockets(&mut self, id: ClientId, from: u64) -> Result<(), DropReason> {
        let Some(connected) = self.clients.find(id) else {
            return Ok(());
        };
        if std::mem::replace(&mut connected.awaits_sockets, true) {
            return Err(DropReason::Malformed);
        }
        let of = Self::seen_by(&connected.client.credentials);
        self.stacks.list_sockets(of, from, self.pages.answer_to(id));
        Ok(())
    }

    /// Sends on what the stacks have answered.
    pub(super) fn pass_sockets_on(&mut self) {
        while let Some((id, page)) = self.pages.next() {
            // It may have gone meanwhile.
            let Some(connected) = self.clients.find(id) else {
                continue;
            };
            connected.awaits_sockets = false;
            let sent = match page {
                Some((sockets, next)) => self.reply(id, &Reply::Sockets { sockets, next }, &[]),
                None => self.deny(id, &gone()),
            };
            if let Err(reason) = sent {
                self.drop_client(id, Some(reason));
            }
        }
    }
}

fn gone() -> Error {
    let cause = "a stack of the daemon has ended";
    Error::new(Errno::SHUTDOWN, cause, "start the daemon again")
}
