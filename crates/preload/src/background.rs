//! The thread that runs the stack while no thread of the program waits for it: timers fire and
//! peers get their ACKs while the program computes, or waits for something else.

use std::thread::{self, Thread};

use mtcp::signals;

/// What the others know of it.
#[derive(Debug)]
pub(crate) struct Background {
    thread: Option<Thread>,
    /// It sleeps until `attend`.
    parked: bool,
}

impl Background {
    pub(crate) const fn new() -> Self {
        Self {
            thread: None,
            parked: false,
        }
    }

    /// Starts the thread, which does `run`.
    pub(crate) fn start(run: fn()) -> Self {
        let started = signals::without(|| {
            thread::Builder::new()
                .name("mtcp-background".into())
                .spawn(run)
        });
        Self {
            // Without it, timers wait for the program.
            thread: started.ok().map(|handle| handle.thread().clone()),
            parked: false,
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.thread.is_some()
    }

    /// It is about to sleep until [`attend`](Self::attend).
    pub(crate) fn park(&mut self) {
        self.parked = true;
    }

    /// The program stopped sleeping on the stack: someone must look after it.
    #[inline]
    pub(crate) fn attend(&mut self) {
        if self.parked
            && let Some(thread) = &self.thread
        {
            self.parked = false;
            thread.unpark();
        }
    }
}
