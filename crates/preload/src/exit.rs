//! The end of the process: what was written still goes out, as it would from the kernel.

use std::sync::Once;
use std::time::Duration;

use crate::engine::{self, Engine};
use crate::socket::Socket;

/// How long to wait for peers to take what was written.
const LINGER: Duration = Duration::from_secs(3);

/// Has the end of the program close what is open.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    // Fails without memory only.
    // SAFETY: the function may run at the end of the program.
    ONCE.call_once(|| unsafe {
        libc::atexit(finish);
    });
}

/// Closes the connections and lets them end, within bounds.
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
        if let Some(context) = self.context() {
            let _ = context.drain(LINGER);
        }
    }
}
