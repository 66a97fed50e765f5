//! What is left of programs: whether a stack is needed by anybody still.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use mtcp_core::Undelivered;

use super::{Host, HostHandle, Order};

/// Within what the loop answers, unless it has no processor.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What somebody needs a stack for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// A program is attached, or processes have a listener or a connection by a socket of the
    /// kernel.
    pub is_used: bool,
    /// Else what peers have still to acknowledge of what programs have closed.
    pub undelivered: Undelivered,
}

impl Leftover {
    /// Nobody needs it.
    pub fn is_nothing(&self) -> bool {
        !self.is_used && self.undelivered.connections == 0
    }
}

impl Host {
    pub(super) fn leftover(&self) -> Leftover {
        let is_attached = self.channels.iter().any(Option::is_some);
        if is_attached || !self.kept.is_empty() || !self.pairs.is_empty() {
            return Leftover {
                is_used: true,
                undelivered: Undelivered::default(),
            };
        }
        // Looks at each connection.
        Leftover {
            is_used: false,
            undelivered: self.runner.stack().undelivered(),
        }
    }

    pub(super) fn say_leftover(&self, answer: &Sender<Leftover>) {
        // Who asked may have gone.
        let _ = answer.send(self.leftover());
    }
}

impl HostHandle {
    /// What is left of programs; nothing, if the loop has ended. Waits for the loop: one that does
    /// not come to answer is at work.
    pub fn leftover(&self) -> Leftover {
        let (answer, answered) = channel();
        if self.order(Order::Leftover(answer)).is_err() {
            return Leftover::default();
        }
        match answered.recv_timeout(ANSWER_TIMEOUT) {
            Ok(leftover) => leftover,
            Err(RecvTimeoutError::Disconnected) => Leftover::default(),
            Err(RecvTimeoutError::Timeout) => Leftover {
                is_used: true,
                ..Leftover::default()
            },
        }
    }
}
