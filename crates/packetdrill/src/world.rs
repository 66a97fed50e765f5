//! The stack as the threads of the tool see it.
//!
//! Two threads call: one plays the script, the other makes the calls that wait. One that waits
//! really sleeps. The stack's own thread (`machine`) moves time, and whenever that ends a call,
//! time stands still until the thread that waited has come back and read the clock.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libc::{EIO, EMFILE};
use mtcp::Errno;
use mtcp_core::Config;
use pkt::{Kind, Outcome, Reply};
use wire::time::Instant;

pub use crate::machine::Waited;

use crate::machine::{self, Request, Wish};
use crate::numbers::Numbers;

/// A stack in virtual time, for several threads.
#[derive(Debug)]
pub struct World {
    /// `None` when it ends.
    requests: Option<Sender<Request>>,
    numbers: Mutex<Numbers>,
    thread: Option<JoinHandle<()>>,
}

/// What a call that succeeds does to the numbers of descriptors.
#[derive(Clone, Copy, Debug)]
enum Effect {
    None,
    Opens,
    OpensPair,
    Closes(i32),
}

impl World {
    /// A stack that has opened nothing. The calling thread plays the script.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory could not be reserved.
    pub fn new(config: Config) -> io::Result<Self> {
        let (requests, queue) = channel();
        let (ready, booted) = channel();
        let main = thread::current().id();
        let thread = thread::Builder::new()
            .name("stack".to_owned())
            .spawn(move || machine::run(config, main, queue, &ready))?;
        booted.recv().map_err(io::Error::other)??;
        Ok(Self {
            requests: Some(requests),
            numbers: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// `None`: the stack has failed.
    fn tell(&self, wish: Wish) -> Option<()> {
        let thread = thread::current().id();
        let request = Request { thread, wish };
        self.requests.as_ref()?.send(request).ok()
    }

    fn ask<T>(&self, wish: impl FnOnce(Sender<T>) -> Wish) -> Option<T> {
        let (reply, answer) = channel();
        self.tell(wish(reply))?;
        answer.recv().ok()
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call; returns when it is over.
    ///
    /// # Errors
    /// As the call of Linux; `EIO`: the stack has failed.
    pub fn call(&self, mut kind: Kind) -> Outcome {
        let effect = effect(&kind);
        self.numbers().translate(&mut kind);
        let outcome = self.ask(|reply| Wish::Call(kind, reply));
        self.apply(effect, outcome.unwrap_or(Err(Errno(EIO))))
    }

    /// Descriptors become the tool's numbers.
    fn apply(&self, effect: Effect, outcome: Outcome) -> Outcome {
        let reply = outcome?;
        let mut numbers = self.numbers();
        let mut give = |inner| numbers.give(inner).ok_or(Errno(EMFILE));
        match (effect, reply.pipe) {
            (Effect::Opens, _) => Ok(Reply {
                value: give(reply.value as i32)?.into(),
                ..reply
            }),
            (Effect::OpensPair, Some((reader, writer))) => Ok(Reply {
                pipe: Some((give(reader)?, give(writer)?)),
                ..reply
            }),
            (Effect::Closes(number), _) => {
                numbers.take_back(number);
                Ok(reply)
            }
            _ => Ok(reply),
        }
    }

    /// Whether a descriptor is one of ours.
    pub fn knows(&self, number: i32) -> bool {
        self.numbers().contains(number)
    }

    /// The time. It moves a little with each look.
    pub fn now(&self) -> Instant {
        self.ask(Wish::Now).unwrap_or(Instant::ZERO)
    }

    /// Lets time pass.
    pub fn sleep(&self, time: Duration) {
        self.ask(|reply| Wish::Sleep(time, None, reply));
    }

    /// An IP packet arrives; it is processed before anything else that is asked for.
    pub fn deliver(&self, packet: &[u8]) {
        self.tell(Wish::Deliver(packet.to_vec()));
    }

    /// The next IP packet that the stack sent. If there is none, time moves on until it sends one,
    /// as long as anything is due.
    pub fn next_packet(&self) -> Waited {
        self.ask(Wish::Packet).unwrap_or(Waited::Never)
    }
}

fn effect(kind: &Kind) -> Effect {
    match kind {
        Kind::Socket { .. } | Kind::Accept { .. } | Kind::EpollCreate { .. } => Effect::Opens,
        Kind::Pipe { .. } => Effect::OpensPair,
        Kind::Close { fd } => Effect::Closes(*fd),
        _ => Effect::None,
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The numbers are the tool's.
        self.numbers().abandon();
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
