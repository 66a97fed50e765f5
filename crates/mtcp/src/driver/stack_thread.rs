//! The thread that drives the stack of a paired context.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{io, thread};

use mtcp_core::{Command, Error, Event, Reply};
use ring::park::{FdSleeper, Unparker};
use ring::spsc::{Consumer, Producer};

use super::{Doorbell, Wake};
use crate::affinity;
use crate::runner::Runner;
use crate::stats::Snapshot;

/// Bursts per turn at most, so that the application gets its share.
const BURSTS: usize = 4;
/// Doorbells per turn at most, so that frames get their share.
const BELLS: u32 = 4096;
/// Turns without work before sleeping; the application gets the processor between them.
const IDLE_TURNS: u32 = 2;

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // one of them, in a queue of four
pub(super) enum Request {
    Command(Command),
    Snapshot,
}

/// The answer.
#[expect(
    clippy::large_enum_variant,
    reason = "in slots of a queue: a box would be an allocation per call"
)]
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Reply(Result<Reply, Error>),
    /// In [`Shared::snapshot`].
    Snapshot,
}

/// What both threads see besides the queues.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stop: AtomicBool,
    /// Events wait in the stack for room in the queue.
    stalled: AtomicBool,
    failure: OnceLock<String>,
    /// Too large for a queue, and rare.
    snapshot: Mutex<Option<Snapshot>>,
}

impl Shared {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn take_stalled(&self) -> bool {
        // Pairs with the fence in `publish_events`: either the stack thread sees the room just made, or we see that it waits.
        fence(Ordering::SeqCst);
        self.stalled.load(Ordering::Relaxed) && self.stalled.swap(false, Ordering::Relaxed)
    }

    pub(super) fn take_snapshot(&self) -> Option<Snapshot> {
        self.snapshot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn put_snapshot(&self, snapshot: Snapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    pub(super) fn failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

/// All that the thread owns.
#[derive(Debug)]
pub(super) struct StackThread {
    pub(super) runner: Runner,
    pub(super) requests: Consumer<Request>,
    pub(super) answers: Producer<Answer>,
    pub(super) bells: Consumer<Doorbell>,
    pub(super) events: Producer<Event>,
    pub(super) app: Unparker,
    pub(super) sleeper: FdSleeper,
    pub(super) shared: Arc<Shared>,
    pub(super) cpu: Option<usize>,
}

/// Tells the application when the thread ends, however it ends.
struct Obituary {
    shared: Arc<Shared>,
    app: Unparker,
}

impl Drop for Obituary {
    fn drop(&mut self) {
        // Only the first cause is kept.
        let _ = self.shared.failure.set("the stack thread ended".into());
        self.app.unpark();
    }
}

impl StackThread {
    pub(super) fn run(mut self) {
        let obituary = Obituary {
            shared: Arc::clone(&self.shared),
            app: self.app.clone(),
        };
        if let Some(cpu) = self.cpu
            && let Err(error) = affinity::pin(cpu)
        {
            log::warn!("stack thread not pinned to processor {cpu}: {error}");
        }
        if let Err(error) = self.drive() {
            log::error!("link lost: {error}");
            self.runner.receive_rest();
            self.publish_events();
            let _ = self.shared.failure.set(error.to_string());
        }
        drop(obituary);
    }

    fn drive(&mut self) -> io::Result<()> {
        let mut idle_turns = 0;
        while !self.shared.stopped() {
            if self.turn()? {
                idle_turns = 0;
            } else if idle_turns < IDLE_TURNS {
                idle_turns += 1;
                thread::yield_now();
            } else {
                self.sleep()?;
                idle_turns = 0;
            }
        }
        self.turn()?;
        Ok(())
    }

    /// One turn. Returns whether there was work.
    fn turn(&mut self) -> io::Result<bool> {
        self.runner.begin();
        let asked = self.serve();
        let arrived = self.runner.receive(BURSTS);
        let told = self.publish_events();
        if told {
            // The application may answer at once: let it, so that ACKs ride on its data.
            thread::yield_now();
            self.serve();
        }
        self.runner.transmit()?;
        Ok(asked || arrived || told)
    }

    /// Carries out doorbells and a command. Returns whether there were any.
    fn serve(&mut self) -> bool {
        // Looked at first: doorbells published before the command are then all visible, and happen before it.
        let asked = !self.requests.is_empty();
        let mut bells = 0;
        while bells < BELLS || asked {
            let Some(bell) = self.bells.pop() else { break };
            // A refusal means that the connection is gone, which its own event says.
            let _ = self.runner.execute(bell.into());
            bells += 1;
        }
        if asked {
            self.answer();
        }
        asked || bells > 0
    }

    fn answer(&mut self) {
        let Some(request) = self.requests.pop() else {
            return;
        };
        let answer = match request {
            Request::Command(command) => Answer::Reply(self.runner.execute(command)),
            Request::Snapshot => {
                self.shared.put_snapshot(Snapshot::of(&self.runner));
                Answer::Snapshot
            }
        };
        // There is room: the application asks again only after it took the answer.
        let _ = self.answers.push(answer);
        self.app.unpark();
    }

    /// Hands events over as far as they fit. Returns whether there were any.
    fn publish_events(&mut self) -> bool {
        let mut room = self.events.free();
        if room > 0 {
            self.shared.stalled.store(false, Ordering::Relaxed);
        }
        while room > 0 {
            let Some(event) = self.runner.poll_event() else {
                break;
            };
            // There is room.
            let _ = self.events.stage(event);
            room -= 1;
        }
        if room == 0 {
            self.shared.stalled.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        let told = self.events.publish() > 0;
        if told {
            self.app.unpark();
        }
        told
    }

    fn sleep(&mut self) -> io::Result<()> {
        self.sleeper.prepare();
        let work = !self.bells.is_empty()
            || !self.requests.is_empty()
            || self.shared.stopped()
            || self.resumed();
        let slept = if work {
            Ok(Wake::Look)
        } else {
            self.runner.sleep(None, self.sleeper.fd())
        };
        self.sleeper.finish();
        slept.map(drop)
    }

    /// Whether the application made room for events that wait.
    fn resumed(&mut self) -> bool {
        self.shared.stalled.load(Ordering::Relaxed) && self.events.free() > 0
    }
}
