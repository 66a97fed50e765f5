//! The thread that runs the stack while no thread of the program waits for it: timers fire and
//! peers get their ACKs while the program computes, or waits for something else.
//!
//! While the program runs it looks from time to time whether anybody has run the stack since. While
//! the program sleeps on the stack it sleeps too, until the program wakes. While there is no stack
//! it sleeps until there is one again.

use std::thread::{self, Thread};
use std::time::Duration;

use mtcp::signals;

use crate::engine;
use crate::inside::{self, Side};
use crate::wait::{self, Want};

/// How long the stack may go without a turn before the background thread runs it.
const TICK: Duration = Duration::from_millis(4);

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

    pub(crate) fn is_there(&self) -> bool {
        self.thread.is_some()
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

/// Starts the thread.
pub(crate) fn start() -> Background {
    let started = signals::without(|| {
        thread::Builder::new()
            .name("mtcp-background".into())
            .spawn(run)
    });
    Background {
        // Without it, timers wait for the program.
        thread: started.ok().map(|handle| handle.thread().clone()),
        parked: false,
    }
}

fn run() {
    inside::go(Side::Library);
    let mut seen = 0;
    while let Ok(mut engine) = engine::lock() {
        let idle = engine.turns == seen;
        seen = engine.turns;
        if !idle {
            drop(engine);
            thread::sleep(TICK);
        } else if engine.context().is_none() || engine.waiters.is_driven_by_program() {
            engine.background.parked = true;
            drop(engine);
            thread::park();
        } else {
            engine.turn();
            seen = engine.turns;
            // Ends at the latest when a frame comes; errors are the driver's to tell, which this is
            // not.
            let pause = (None, std::ptr::null());
            let rung = wait::sleep(&mut engine, Want::Nothing, &mut [], pause, true);
            if rung == Ok(true) {
                // Who rings leaves the link to it: it does not look first whether others run the
                // stack.
                seen = engine.turns;
            }
        }
    }
}
