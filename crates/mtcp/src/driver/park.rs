//! The sleep of a background driver while the application waits in a call.
//!
//! It ends some time after the call has returned. If it ended at once, the processor would turn to
//! the background driver first, twice 5 us in which the application, which has something to answer,
//! could have answered it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// See the module. One thread sleeps, another wakes it.
#[derive(Debug)]
pub(super) struct Park {
    /// Runs out when the sleep is over.
    timer: OwnedFd,
    /// Somebody sleeps, and the timer is not set.
    sleeps: AtomicBool,
}

impl Park {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        Ok(Self {
            timer,
            sleeps: AtomicBool::new(false),
        })
    }

    /// Sleeps until it is woken, unless `may_sleep` says at last that there is no reason to. May
    /// return early.
    pub(super) fn sleep(&self, may_sleep: impl FnOnce() -> bool) {
        // Announced before looking, sequentially consistent as what is looked at: who changes that
        // later sees it.
        self.sleeps.store(true, Ordering::SeqCst);
        if may_sleep() {
            // What a signal interrupts has slept long enough.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        }
        self.sleeps.store(false, Ordering::SeqCst);
    }

    /// Wakes who sleeps after `delay`, counted from when this was first asked for.
    pub(super) fn wake_after(&self, delay: Duration) {
        if self.sleeps.load(Ordering::SeqCst) && self.sleeps.swap(false, Ordering::SeqCst) {
            self.set(delay);
        }
    }

    /// Wakes who sleeps, or is about to.
    pub(super) fn wake(&self) {
        self.set(Duration::from_nanos(1));
    }

    fn set(&self, delay: Duration) {
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(delay).unwrap_or_default(),
        };
        // Nothing is wrong with the timer or the time.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_sleep_ends_after_the_delay_or_at_once() {
        let park = Park::new().unwrap();
        let delay = Duration::from_millis(20);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| park.sleep(|| true));
            while !park.sleeps.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            let start = Instant::now();
            park.wake_after(delay);
            // It counts from the first time.
            park.wake_after(Duration::from_secs(3600));
            sleeper.join().unwrap();
            assert!(start.elapsed() >= delay);
        });
        // Woken before it sleeps.
        park.wake();
        park.sleep(|| true);
        // Nobody sleeps: nothing is set that would end the next sleep.
        park.wake_after(Duration::from_nanos(1));
        park.sleep(|| false);
        assert!(!park.sleeps.load(Ordering::SeqCst));
    }
}
