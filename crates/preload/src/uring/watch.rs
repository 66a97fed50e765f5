//! Sockets of the stack that entries wait for.

use std::collections::BTreeMap;
use std::ffi::c_int;

use libc::{POLLIN, POLLNVAL, pollfd};
use mtcp::{Ctl, EpollEvent, Errno, Events, Interest, Result, SocketId};

use super::work;
use crate::engine::{self, Engine};
use crate::kernel;
use crate::lock::Guard;
use crate::wait::{self, Look, Pause};
use crate::waiters::Want;

/// Reports at a time.
const REPORTS: usize = 32;

/// Which they are, and who waits for each, in the order of their coming.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// What watches them in the stack; `None`: no stack, or none yet.
    instance: Option<SocketId>,
    sockets: BTreeMap<u32, Vec<u64>>,
}

impl Watch {
    /// `job` waits for a socket of the engine. Returns whether the stack has it: else it is to be
    /// looked at again.
    pub(super) fn add(&mut self, index: u32, job: u64) -> bool {
        let jobs = self.sockets.entry(index).or_default();
        if !jobs.contains(&job) {
            jobs.push(job);
        }
        engine::lock().is_ok_and(|mut engine| self.register(&mut engine, index))
    }

    fn register(&mut self, engine: &mut Engine, index: u32) -> bool {
        let ours = work::ours(engine, index);
        let (Some(id), Some(context)) = (ours, engine.context()) else {
            return false;
        };
        let instance = match self.instance {
            Some(instance) => Ok(instance),
            None => context.epoll_create(),
        };
        let Ok(instance) = instance else {
            return false;
        };
        self.instance = Some(instance);
        let interest = Interest {
            events: Events::IN | Events::OUT | Events::RDHUP | Events::ET,
            data: index.into(),
        };
        // What is there already is reported, too, or was.
        let added = context.epoll_ctl(instance, Ctl::Add, id, interest);
        matches!(added, Ok(()) | Err(Errno::EEXIST))
    }

    /// `job` does not wait for the socket any more.
    pub(super) fn remove(&mut self, index: u32, job: u64) {
        let Some(jobs) = self.sockets.get_mut(&index) else {
            return;
        };
        jobs.retain(|other| *other != job);
        if !jobs.is_empty() {
            return;
        }
        self.sockets.remove(&index);
        if let (Some(instance), Ok(mut engine)) = (self.instance, engine::lock())
            && let (Some(id), Some(context)) = (work::ours(&engine, index), engine.context())
        {
            // One that is gone is not watched.
            let _ = context.epoll_ctl(instance, Ctl::Del, id, Interest::default());
        }
    }

    /// Who waits for a socket.
    pub(super) fn jobs(&self, index: u32) -> Vec<u64> {
        self.sockets.get(&index).cloned().unwrap_or_default()
    }

    /// Waits until sockets, which it returns, or one of these descriptors of the kernel have
    /// something.
    ///
    /// # Errors
    /// `EBADF`: the program has closed them.
    pub(super) fn wait(&mut self, fds: [c_int; 2]) -> Result<Vec<u32>> {
        let mut kernel = fds.map(|fd| pollfd {
            fd,
            events: POLLIN,
            revents: 0,
        });
        let engine = match self.sockets.is_empty() {
            true => None,
            false => engine::lock().ok(),
        };
        let Some(mut engine) = engine else {
            // Interrupted or not, who calls looks.
            let _ = kernel::ppoll(&mut kernel, None, std::ptr::null());
            return are_open(&kernel).map(|()| Vec::new());
        };
        let ready = self.wait_for_both(&mut engine, &mut kernel);
        are_open(&kernel).map(|()| ready)
    }

    fn wait_for_both(&mut self, engine: &mut Guard<'_, Engine>, kernel: &mut [pollfd]) -> Vec<u32> {
        let pause = Pause {
            timeout: None,
            mask: std::ptr::null(),
            restarts: true,
        };
        let instance = self.instance;
        let waited = wait::wait_until(engine, pause, kernel, |engine, kernel| {
            let taken = take(engine, instance);
            let has_news = kernel.iter().any(|fd| fd.revents != 0);
            match (taken, instance) {
                (Some(ready), _) if ready.is_empty() && !has_news => {
                    Look::Sleep(instance.map_or(Want::Nothing, Want::Epoll))
                }
                (Some(ready), _) => Look::Done(Some(ready)),
                // The stack has ended; what begins next knows nothing.
                (None, Some(_)) => Look::Done(None),
                (None, None) if has_news => Look::Done(Some(Vec::new())),
                (None, None) => Look::Sleep(Want::Nothing),
            }
        });
        match waited {
            Ok(Some(Some(ready))) => ready,
            Ok(Some(None)) => {
                self.instance = None;
                self.sockets.keys().copied().collect()
            }
            Ok(None) | Err(_) => Vec::new(),
        }
    }
}

fn are_open(fds: &[pollfd]) -> Result<()> {
    let closed = fds.iter().any(|fd| fd.revents & POLLNVAL != 0);
    if closed { Err(Errno::EBADF) } else { Ok(()) }
}

/// What the stack reports. `None`: there is nothing that could.
fn take(engine: &mut Engine, instance: Option<SocketId>) -> Option<Vec<u32>> {
    let mut reports = [EpollEvent::default(); REPORTS];
    let n = engine.context()?.epoll_take(instance?, &mut reports).ok()?;
    let taken = reports.iter().take(n);
    Some(taken.map(|event| event.data as u32).collect())
}
