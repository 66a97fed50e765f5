//! The contract between a link and the runner that drives it.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use wire::frame::{Capabilities, FrameSink, MacAddr, RxFrame};
use wire::steering::Steering;
use wire::syn_offload::SynOffload;
use wire::time::Instant;

/// When a coalescing delay is better than a wake-up, or a look, for each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesce {
    /// Never: no frames gather meanwhile.
    Never,
    /// Where round trips are so long that a delay makes no difference to peers: a wake-up costs
    /// little.
    WhenFar,
    /// Where frames come densely: each sleep that a frame may end costs more than a delay.
    Always,
}

/// One queue of one interface, driven by one thread.
///
/// A turn is `begin`, `receive` until it answers 0 or the budget is spent, any number of `send`s,
/// `flush`. Frames never leave their port: `receive` lends them to a closure and recycles them when
/// it returns, `send` lends a free one to be filled in place. A frame address is always in exactly
/// one of: fill ring, hand-out, free list, tx ring, completion ring. Nothing but [`Port::wait`]
/// blocks. On a link that has a choice only `wait`, [`Port::flush`], [`Port::wake_peer`] and a
/// `send` that publishes a long GSO frame may make a system call.
pub trait Port: FrameSink {
    /// Starts a turn at `now`: what wrappers stamp frames with and delay them by. Never earlier
    /// than in the turn before.
    fn begin(&mut self, now: Instant) {
        let _ = now;
    }

    /// Lends the next burst, at most [`wire::frame::BURST`] frames, to `each`, and recycles it.
    /// Returns the number of frames; `each` is not called when there are none.
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize;

    /// Whether a turn may have something to do on this port: to receive, or to send once more what
    /// the link did not take. A look that costs next to nothing, for who looks again and again; a
    /// port that has none says true.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Frames will most likely be sent at once: wakes the other side, if it sleeps, so that it
    /// wakes while they are made. Only a hint.
    fn wake_peer(&mut self) {}

    /// When to let frames gather for a moment before the thread wakes up.
    fn coalesce(&self) -> Coalesce {
        Coalesce::Never
    }

    /// Publishes what was sent since the last flush and wakes the other side, at most once. A link
    /// on which the other side can read while we write may have published long GSO frames before.
    ///
    /// # Errors
    /// The link is gone (peer closed, interface removed); says which and why.
    fn flush(&mut self) -> io::Result<()>;

    /// Sleeps until a frame may be there, `wake` is readable, `timeout` has passed (`None`: no
    /// limit) or a signal came. Returns at once when frames are waiting already. May wake early.
    ///
    /// # Errors
    /// The link is gone, as in [`Port::flush`]. Or it is not, and a signal handler ran:
    /// [`io::ErrorKind::Interrupted`].
    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()>;

    /// For who sleeps by other means than [`Port::wait`]: adds the descriptors that become readable
    /// when a frame may be there, and says how long that sleep may be at most, zero when there is
    /// something to do at once. After it, `wait` with a timeout of zero does what is to do at the
    /// end of a sleep.
    ///
    /// # Errors
    /// The link is gone, as in [`Port::wait`].
    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>>;

    /// Whether the link is gone for now, and the port waits until it is there again: what is sent
    /// is lost.
    fn is_away(&self) -> bool {
        false
    }

    /// From now on it opens what comes later (the link that is there again, more queues, peers)
    /// when told to ([`Port::look_again`]), and not by itself: for who has to know which
    /// descriptors are made by that.
    fn look_when_asked(&mut self) {}

    /// Whether [`Port::look_again`] has something to open: the link may be there again, or there is
    /// more of it.
    fn wants_look(&self) -> bool {
        false
    }

    /// Opens what there is to open, unless it looked for that a moment ago.
    fn look_again(&mut self, now: Instant) {
        let _ = now;
    }

    /// When the port itself has work to do next (a wrapper that holds delayed frames), if at all.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// What answers SYNs for the stack where they arrive, if the link can do that: for one stack at
    /// a time. A wrapper does not say what its link says, as it would not see the answers.
    fn syn_offload(&mut self) -> Option<Box<dyn SynOffload>> {
        None
    }

    /// What steers frames to the stack, where the kernel has its addresses, too: for one stack at a
    /// time, and gone with it.
    fn steering(&mut self) -> Option<Box<dyn Steering>> {
        None
    }

    /// What the link can do.
    fn capabilities(&self) -> Capabilities;

    /// Our hardware address on the link.
    fn mac(&self) -> MacAddr;

    /// Frames lost by the link itself, as far as it says: (received and dropped, not sent).
    fn losses(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// In the `Port` of a wrapper: what it leaves to the port within, `inner`, whatever it does to
/// frames. A wrapper that forgets one of these would hide from the stack that the link is gone, or
/// that there is more of it.
macro_rules! leave_to_inner {
    () => {
        fn coalesce(&self) -> $crate::Coalesce {
            self.inner.coalesce()
        }

        fn is_away(&self) -> bool {
            self.inner.is_away()
        }

        fn look_when_asked(&mut self) {
            self.inner.look_when_asked();
        }

        fn wants_look(&self) -> bool {
            self.inner.wants_look()
        }

        fn look_again(&mut self, now: ::wire::time::Instant) {
            self.inner.look_again(now);
        }

        fn steering(&mut self) -> Option<Box<dyn ::wire::steering::Steering>> {
            self.inner.steering()
        }

        fn mac(&self) -> ::wire::frame::MacAddr {
            self.inner.mac()
        }
    };
}

pub(crate) use leave_to_inner;
