//! What the background thread does (`background`).
//!
//! While the program runs it looks from time to time whether anybody has run the stack since. While
//! the program sleeps on the stack it sleeps too, until the program wakes. While there is no stack
//! it sleeps until there is one again.

use std::thread;
use std::time::Duration;

use mtcp::Result;

use super::state::Engine;
use crate::inside::{self, Side};
use crate::lock::Guard;
use crate::wait;
use crate::waiters::Want;

/// How long the stack may go without a turn before the background thread runs it.
const TICK: Duration = Duration::from_millis(4);

/// Runs for as long as the process lives.
pub(super) fn run(lock: fn() -> Result<Guard<'static, Engine>>) {
    inside::go(Side::Library);
    let mut seen = 0;
    while let Ok(mut engine) = lock() {
        let idle = engine.turns == seen;
        seen = engine.turns;
        if !idle {
            drop(engine);
            thread::sleep(TICK);
        } else if engine.context().is_none() || engine.waiters.is_driven_by_program() {
            engine.background.park();
            drop(engine);
            thread::park();
        } else {
            engine.turn();
            seen = engine.turns;
            // Ends at the latest when a frame comes; errors are the driver's to tell, which this is
            // not.
            let pause = (None, std::ptr::null());
            let notified = wait::sleep(&mut engine, Want::Nothing, &mut [], pause, true);
            if notified == Ok(true) {
                // Whoever notifies it leaves the link to it: it does not look first whether others
                // run the stack.
                seen = engine.turns;
            }
        }
    }
}
