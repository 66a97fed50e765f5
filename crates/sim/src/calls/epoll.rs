//! `epoll`.

use super::constants::{
    EBADF, EEXIST, EINVAL, ENOENT, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET,
    EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRNORM,
};
use super::descriptors::File;
use super::{Errno, Outcome, Process, Reply, fail};

/// Events with the number that the program gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// EPOLLIN and the like.
    pub events: i32,
    /// `epoll_data`.
    pub data: u64,
}

/// A descriptor that an instance watches.
#[derive(Clone, Copy, Debug)]
struct Entry {
    fd: i32,
    watch: Watch,
    /// The news that were told: an edge is what came after.
    told: Option<News>,
    /// EPOLLONESHOT fired.
    spent: bool,
}

/// How often something happened to a descriptor that wakes who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Readers.
    pub reading: u64,
    /// Writers.
    pub writing: u64,
}

const READING: i32 = EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLPRI;
const WRITING: i32 = EPOLLOUT | EPOLLWRNORM;

impl Entry {
    /// Whether something happened that it waits for and was not told.
    fn is_edge(&self, news: Option<News>) -> bool {
        let (Some(told), Some(news)) = (self.told, news) else {
            return true;
        };
        let wants = |events: i32| self.watch.events & events != 0;
        (wants(READING) && news.reading != told.reading)
            || (wants(WRITING) && news.writing != told.writing)
    }
}

/// An instance.
#[derive(Debug, Default)]
pub(super) struct Epoll {
    /// In the order in which they are reported.
    entries: Vec<Entry>,
}

impl Process {
    pub(super) fn epoll_create(&mut self, _flags: i32) -> Outcome {
        let epoll = File::Epoll(Epoll::default());
        self.table.insert(epoll).map(Reply::of)
    }

    fn entries(&mut self, epoll: i32) -> Result<&mut Vec<Entry>, Errno> {
        match self.table.file_mut(epoll)? {
            File::Epoll(instance) => Ok(&mut instance.entries),
            _ => fail(EINVAL),
        }
    }

    pub(super) fn epoll_control(
        &mut self,
        epoll: i32,
        operation: i32,
        fd: i32,
        watch: Watch,
    ) -> Outcome {
        self.table.file(epoll)?;
        self.table.file(fd).map_err(|_| Errno(EBADF))?;
        if fd == epoll {
            return fail(EINVAL);
        }
        let entries = self.entries(epoll)?;
        let known = entries.iter().position(|entry| entry.fd == fd);
        let entry = Entry {
            fd,
            watch,
            told: None,
            spent: false,
        };
        match (operation, known) {
            (EPOLL_CTL_ADD, None) => entries.push(entry),
            (EPOLL_CTL_ADD, Some(_)) => return fail(EEXIST),
            (EPOLL_CTL_MOD, Some(at)) => {
                if let Some(place) = entries.get_mut(at) {
                    *place = entry;
                }
            }
            (EPOLL_CTL_DEL, Some(at)) => {
                entries.remove(at);
            }
            (EPOLL_CTL_MOD | EPOLL_CTL_DEL, None) => return fail(ENOENT),
            _ => return fail(EINVAL),
        }
        Ok(Reply::default())
    }

    pub(super) fn epoll_wait(&mut self, epoll: i32, max: usize) -> Option<Outcome> {
        let entries = match self.entries(epoll) {
            Ok(_) if max == 0 => return Some(fail(EINVAL)),
            Ok(entries) => entries.clone(),
            Err(error) => return Some(Err(error)),
        };
        let mut events = Vec::new();
        let mut fired = Vec::new();
        for mut entry in entries {
            let ready = self.ready_of(&entry);
            let news = self.news(entry.fd);
            let edge = entry.watch.events & EPOLLET == 0 || entry.is_edge(news);
            if ready != 0 && edge && events.len() < max {
                let data = entry.watch.data;
                events.push(Watch {
                    events: ready,
                    data,
                });
                entry.spent = entry.watch.events & EPOLLONESHOT != 0;
                entry.told = news;
                fired.push(entry);
            }
        }
        // Who was reported goes to the end of the queue, so that all get their turn.
        for entry in fired {
            self.move_last(epoll, entry);
        }
        (!events.is_empty()).then(|| {
            Ok(Reply {
                value: events.len() as i64,
                events,
                ..Reply::default()
            })
        })
    }

    fn ready_of(&mut self, entry: &Entry) -> i32 {
        if entry.spent {
            return 0;
        }
        self.readiness(entry.fd) & (entry.watch.events | EPOLLERR | EPOLLHUP)
    }

    fn move_last(&mut self, epoll: i32, entry: Entry) {
        if let Ok(entries) = self.entries(epoll) {
            entries.retain(|known| known.fd != entry.fd);
            entries.push(entry);
        }
    }

    /// What happened to a descriptor; `None`: nobody counts.
    fn news(&self, fd: i32) -> Option<News> {
        match self.table.file(fd).ok()? {
            File::Socket(socket) => Some(socket.news),
            File::Pipe(end) => self.pipe_news(*end),
            File::Epoll(_) => None,
        }
    }

    pub(super) fn epoll_readiness(&mut self, epoll: i32) -> i32 {
        let entries = self.entries(epoll).map(|entries| entries.clone());
        let entries = entries.unwrap_or_default();
        if entries.iter().any(|entry| self.ready_of(entry) != 0) {
            EPOLLIN | EPOLLRDNORM
        } else {
            0
        }
    }

    /// A closed descriptor is watched by nobody.
    pub(super) fn unwatch(&mut self, fd: i32) {
        for epoll in self.table.all() {
            if let Ok(entries) = self.entries(epoll) {
                entries.retain(|entry| entry.fd != fd);
            }
        }
    }
}
