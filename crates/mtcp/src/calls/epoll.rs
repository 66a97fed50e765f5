//! Epoll instances and who is registered there.

use super::Sockets;
use crate::epoll::Levels;
use crate::socket::table::{Body, Flags, NONE};
use crate::{Ctl, EpollEvent, Errno, Interest, Result, SocketId};

impl Sockets {
    pub(crate) fn epoll_create(&mut self) -> Result<SocketId> {
        let instance = self.watch.create();
        let id = self.table.add(Body::Epoll(instance), Flags::empty());
        if id.is_err() {
            self.watch.destroy(instance);
        }
        id
    }

    pub(crate) fn epoll_ctl(
        &mut self,
        ep: SocketId,
        ctl: Ctl,
        id: SocketId,
        interest: Interest,
    ) -> Result<()> {
        self.table.get(ep)?;
        let socket = *self.table.get(id)?;
        let instance = self.table.instance(ep)?;
        if matches!(socket.body, Body::Epoll(_)) {
            return Err(Errno::EINVAL);
        }
        let is_silent = self.levels().is_silent(&socket);
        let watched = (id, socket.watchers);
        let first = self
            .watch
            .control(instance, ctl, watched, interest, is_silent)?;
        self.table.get_mut(id)?.watchers = first;
        Ok(())
    }

    /// Reports what is ready in `instance`: looks once at each queued entry.
    pub(crate) fn harvest(&mut self, instance: u32, events: &mut [EpollEvent]) -> usize {
        let Self {
            settings,
            transport,
            table,
            watch,
            listeners,
            pipes,
            ..
        } = self;
        let one = settings.one_event_per_entry;
        let mut levels = Levels {
            table,
            listeners,
            pipes,
            transport,
            as_original: one,
        };
        watch.harvest(instance, events, one, |id, armed| {
            levels.reported(id, armed)
        })
    }

    /// Whether `epoll_wait` on `instance` would report something now.
    pub(crate) fn has_ready(&mut self, instance: u32) -> bool {
        let queue = self.watch.queue_of(instance);
        let mut levels = self.levels();
        let mut any = false;
        for (id, armed) in queue {
            any |= !levels.ready(id, armed).is_empty();
        }
        any
    }

    /// Removes a socket that is being closed from every instance.
    pub(super) fn unwatch(&mut self, id: SocketId) {
        if let Ok(socket) = self.table.get_mut(id) {
            let first = std::mem::replace(&mut socket.watchers, NONE);
            self.watch.remove_all(first);
        }
    }

    /// Removes an instance that is being closed.
    pub(super) fn close_epoll(&mut self, instance: u32) {
        for (entry, id) in self.watch.members(instance) {
            if let Ok(socket) = self.table.get_mut(id) {
                socket.watchers = self.watch.remove(entry, socket.watchers);
            }
        }
        self.watch.destroy(instance);
    }
}
