//! A server that listens and does something else before it accepts: peers connect all the same, as
//! with the kernel. A master, which forks before long, has no stack.

use std::thread;
use std::time::Duration;

use mtcp::signals;

use crate::engine::{self, Engine};
use crate::inside::{self, Side};
use crate::rules::rules;
use crate::socket::{Body, Socket};
use crate::{log, private};

/// How long a server may listen without a stack.
const SOON: Duration = Duration::from_millis(500);

impl Engine {
    /// Whether the program listens.
    pub(crate) fn has_listener(&self) -> bool {
        let listens = |socket: &Socket| matches!(socket.body, Body::Listener { .. });
        self.sockets.iter().any(|(_, socket)| listens(socket))
    }

    /// Has the stack listen for the listeners that it does not listen for.
    pub(crate) fn listen_everywhere(&mut self) {
        let listeners: Vec<u32> = self
            .sockets
            .iter()
            .filter(|(_, socket)| matches!(socket.body, Body::Listener { ours: None, .. }))
            .map(|(index, _)| index)
            .collect();
        for index in listeners {
            if let Err(error) = self.listen(index) {
                log::line(format_args!("cannot listen on the stack: {}", error.text()));
            }
        }
    }

    /// Has a thread start the stack, unless the program waits for something of it, or forks, before
    /// that.
    pub(crate) fn start_soon(&mut self) {
        if self.starts_soon || self.has_children || !self.is_idle() {
            return;
        }
        let starter = thread::Builder::new().name("mtcp-starter".into());
        // Without it, peers wait for the program.
        self.starts_soon = signals::without(|| starter.spawn(run)).is_ok();
    }
}

impl Engine {
    /// A server that has its listeners and gives up privileges is about to serve, itself or by a
    /// child: does what takes them.
    pub(crate) fn arm(&mut self) {
        if self.has_listener() {
            self.arm_early();
        }
    }

    /// The same for a program that gives up what opening the link takes and keeps what listening
    /// takes: it is about to.
    pub(crate) fn arm_early(&mut self) {
        if self.is_borrowed() || rules().is_none() || !self.is_idle() {
            return;
        }
        // What fails here fails again when the stack starts, which tells.
        if self.prepare().is_ok()
            && let Some(prepared) = &mut self.prepared
        {
            let _ = private::make(|| prepared.arm());
        }
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
