//! The end of the process: what was written still goes out, as it would from the kernel.

use std::sync::Once;
use std::time::Duration;

use mtcp::Undelivered;

use crate::engine::{self, Engine};
use crate::log;
use crate::socket::Socket;

/// How long to wait for peers that take nothing of what was written.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Has the end of the program close what is open.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    // Fails without memory only.
    // SAFETY: the function may run at the end of the program.
    ONCE.call_once(|| unsafe {
        libc::atexit(finish);
    });
}

/// Closes the connections and sees what was written off, within bounds. Peers may end theirs when
/// they like.
pub(crate) extern "C" fn finish() {
    if let Ok(mut engine) = engine::lock() {
        engine.finish();
    }
}

impl Engine {
    fn finish(&mut self) {
        if self.is_borrowed() {
            return;
        }
        // A descriptor that is used after this is one of a thread that the process takes along.
        let open: Vec<Socket> = self
            .sockets
            .iter()
            .map(|(_, socket)| socket.clone())
            .collect();
        for socket in &open {
            self.end(socket);
        }
        if self.pumps.look_at_all() {
            // What children have written goes out, too.
            self.turn();
        }
        let deliver = |context: &mut mtcp::Context| context.deliver(ANSWER_TIMEOUT).ok();
        if let Some(left) = self.context().and_then(deliver) {
            tell(left);
        }
        if let (true, Some(prepared)) = (self.context().is_some(), &self.prepared) {
            prepared.retire();
        }
    }
}

fn tell(Undelivered { connections, bytes }: Undelivered) {
    if connections > 0 {
        log::line(format_args!(
            "the program ends, and {connections} of its connections with it: their peers have not acknowledged {bytes} bytes and the end \
             within {} s",
            ANSWER_TIMEOUT.as_secs()
        ));
    }
}
