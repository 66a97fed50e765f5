//! Connections that another program is to have, by `exec` or because they are passed to it: from
//! then on they are sockets of the kernel here, too, and the daemon that has the stack passes on
//! what comes and what is written.

use std::ffi::c_int;

use super::fork::{replace, set_waiting};
use super::state::Engine;
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::Body;
use crate::{lent, real};

impl Engine {
    /// Makes the connection of a socket one of the kernel's. False: it stays ours, since there is
    /// no daemon that could pass anything on.
    #[cold]
    #[inline(never)]
    pub(crate) fn pair_off(&mut self, index: u32) -> bool {
        if !rules().is_some_and(Rules::is_attached) || self.is_borrowed() {
            return false;
        }
        self.sockets.share_listener(index);
        let Some(socket) = self.sockets.get(index).cloned() else {
            return false;
        };
        let (Body::Stream(id), Some(context)) = (socket.body, self.stack.context()) else {
            return false;
        };
        let (Ok(local), Ok(remote)) = (context.local_addr(id), context.peer_addr(id)) else {
            return false;
        };
        let Some(mut pair) = lent::pair(socket.domain, [local, remote]) else {
            return false;
        };
        let given = pair.give(context, id);
        let fds: Vec<c_int> = slots::used(0, u32::MAX)
            .filter(|(_, slot)| *slot == Slot::Socket(index))
            .map(|(fd, _)| fd)
            .collect();
        let name = (index, socket.number);
        let watchers = self.epolls.watchers(context, name, id, &fds);
        if given {
            set_waiting(pair.theirs, !socket.nonblocking);
            fds.iter().for_each(|&fd| replace(fd, pair.theirs));
        }
        for fd in [pair.ours, pair.theirs] {
            // SAFETY: descriptors of the library's own: the daemon has the one, and the other has
            // the program's numbers.
            unsafe { real::close(fd) };
        }
        if !given {
            return false;
        }
        watchers.into_iter().for_each(|watcher| watcher.watch());
        self.sockets.remove(index);
        self.forget(index);
        self.end(&socket);
        if let Some(context) = self.context() {
            // The daemon hears of it before anybody else has the connection.
            let _ = context.poll();
        }
        true
    }
}
