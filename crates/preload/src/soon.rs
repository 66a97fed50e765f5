//! A server that listens and does something else before it accepts: peers connect all the same, as with the kernel. A master, which forks
//! before long, has no stack.

use std::thread;
use std::time::Duration;

use mtcp::signals;

use crate::engine::{self, Engine};
use crate::inside::{self, Side};

/// How long a server may listen without a stack.
const SOON: Duration = Duration::from_millis(500);

impl Engine {
    /// Has a thread start the stack, unless the program waits for something of it, or forks, before that.
    pub(crate) fn start_soon(&mut self) {
        if self.starts_soon || self.has_children || !self.is_idle() {
            return;
        }
        let starter = thread::Builder::new().name("mtcp-starter".into());
        // Without it, peers wait for the program.
        self.starts_soon = signals::without(|| starter.spawn(run)).is_ok();
    }
}

fn run() {
    inside::go(Side::Library);
    thread::sleep(SOON);
    let Ok(mut engine) = engine::lock() else {
        return;
    };
    engine.starts_soon = false;
    if !engine.has_children && engine.has_listener() {
        engine.start();
    }
}
