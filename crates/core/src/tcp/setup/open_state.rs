//! What a connection needs of set-up until its handshake is complete.

use crate::info::State;
use crate::tcp::setup::fast_open::FastOpen;

/// The set-up part of `tcb::Cold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct OpenState {
    /// Window scale that we offer in a SYN.
    pub wscale: u8,
    /// Our SYN went out again at once: the peer still had an earlier connection, or refused what
    /// the SYN asked for.
    pub syn_repeated: bool,
    pub fast_open: FastOpen,
}

const _: () = assert!(size_of::<OpenState>() == 3);

impl OpenState {
    #[inline(always)]
    pub fn new(wscale: u8) -> Self {
        Self {
            wscale,
            syn_repeated: false,
            fast_open: FastOpen::Off,
        }
    }

    /// Whether a cookie opened the connection, and its handshake is not complete.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        matches!(self.fast_open, FastOpen::Pending { .. })
    }

    /// Whether data may go before the handshake is complete (RFC 7413 §4.2.2), in this `state`.
    #[inline(always)]
    pub fn may_send_early(&self, state: State) -> bool {
        state == State::SynReceived && self.is_pending()
    }

    /// Whether a SYN was sent that was not answered, with so many `retries` of a timer.
    #[inline]
    pub fn syn_went_before(&self, retries: u8) -> bool {
        retries > 0 || self.syn_repeated
    }

    /// The application wrote, or will not: whether a SYN waited for that.
    pub fn release(&mut self) -> bool {
        let waits = self.fast_open == FastOpen::Waiting;
        if waits {
            self.fast_open = FastOpen::Sending;
        }
        waits
    }
}
