//! What the stack tells the application.

use bitflags::bitflags;

use crate::error::Error;
use crate::flow::FlowKey;
use crate::id::{ConnId, Token};

bitflags! {
    /// What became true of a connection since its last event. Events are hints to look: the streams
    /// and their `Status` hold the truth, so that level-triggered readiness never depends on having
    /// seen an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Ready: u8 {
        /// The handshake is complete.
        const CONNECTED = 1 << 0;
        /// Bytes arrived in order.
        const READABLE = 1 << 1;
        /// Room in the send stream after the application had found it full.
        const WRITABLE = 1 << 2;
        /// The peer's FIN was reached: end of file after what is in the stream.
        const EOF = 1 << 3;
        /// The connection failed; the event says why.
        const ERROR = 1 << 4;
        /// Both directions are finished: nothing more will happen.
        const CLOSED = 1 << 5;
        /// All that was written has been acknowledged, FIN included, after `Shutdown` (for
        /// SO_LINGER waits).
        const DRAINED = 1 << 6;
        /// The peer has announced urgent data (RFC 9293 §3.8.5): see `AppStreams::urgent`.
        const URGENT = 1 << 7;
    }
}

/// Something that happened, see [`crate::Stack::poll_event`]. At most one per connection waits at a
/// time: later news is merged into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection waits to be taken with `Command::Accept` (or refused with `Command::Abort`).
    /// Its streams are open, and from now on the application holds them: they have to be released
    /// whatever becomes of the connection. No other event comes before `Accept`.
    Accepted {
        /// Of the listener.
        listener: Token,
        /// The connection.
        conn: ConnId,
        /// Our address and the peer's.
        key: FlowKey,
    },
    /// Something changed on a connection.
    Ready {
        /// The connection.
        conn: ConnId,
        /// Its name with the application.
        token: Token,
        /// What changed.
        ready: Ready,
        /// With `Ready::ERROR`.
        error: Option<Error>,
    },
}
