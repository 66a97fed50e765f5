//! What the loop does when there is nothing to do.

use std::hint;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use mtcp_core::Acks;

use super::{BATCH, Host};
use crate::runner::Runner;

/// How long the loop leaves its processor, and what comes on the link, to a program that it has
/// told something there.
const PAUSE: Duration = Duration::from_micros(200);

impl Host {
    /// There is nothing to do: leaves the processor to a program that was told something, or looks
    /// for more for as long as that is better than to sleep.
    pub(in crate::service) fn rest(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.handed_over) && self.is_awaited() {
            // Beside others a program could delay what comes for them.
            let is_alone = self.channels.iter().flatten().count() == 1;
            return if is_alone { self.pause() } else { self.sleep() };
        }
        if self.runner.spins() {
            hint::spin_loop();
            return Ok(());
        }
        self.sleep()
    }

    /// Nothing is due that it would be woken for.
    #[cfg(test)]
    pub(in crate::service) fn is_at_rest(&self) -> bool {
        self.runner.due(None).is_none()
    }

    /// The next rest leaves the processor to a program, if that has not slept again.
    #[cfg(test)]
    pub(in crate::service) fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// There is nothing to do: sleeps until there is.
    pub(in crate::service) fn sleep(&mut self) -> io::Result<()> {
        let now = self.runner.now();
        let answers = self.told + BATCH;
        let deadline = match self.runner.is_settled() {
            true => None,
            // Programs may answer in a moment, and what they say carries the ACKs.
            false if now < answers => Some(answers),
            false => {
                self.runner.transmit(Acks::All)?;
                None
            }
        };
        let dues = [deadline, self.kept.due(), self.runner.stall_due()];
        let deadline = dues.into_iter().flatten().min();
        self.sleep_with(|runner, wake| runner.sleep(deadline, wake).map(drop))
    }

    /// Whether a program that was woken on this processor has still to go to sleep again.
    fn is_awaited(&mut self) -> bool {
        let mut is_awaited = false;
        for channel in self.channels.iter_mut().flatten() {
            let was_woken = std::mem::take(&mut channel.handed_over);
            is_awaited |= was_woken && !channel.end.other_sleeps();
        }
        is_awaited
    }

    /// Sleeps until a program has said something, and no longer than programs take as a rule for
    /// what they were told. What comes on the link waits: it would wake this side before they are
    /// done.
    fn pause(&mut self) -> io::Result<()> {
        let end = self.runner.now() + PAUSE;
        self.sleep_with(|runner, wake| runner.pause(end, wake))
    }

    /// Says in each channel that this side sleeps, and does, unless there is something to do.
    fn sleep_with(
        &mut self,
        sleep: impl FnOnce(&mut Runner, BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sleeper.prepare();
        let mut quiet = true;
        for channel in self.channels.iter_mut().flatten() {
            quiet &= channel.end.begin_sleep();
        }
        // A channel that is new has not heard that we sleep.
        quiet &= !self.take_orders() && !self.list_some() && !self.stopped;
        let slept = match quiet {
            true => sleep(&mut self.runner, self.wakes.fd()),
            false => Ok(()),
        };
        let mut rung = false;
        for channel in self.channels.iter_mut().flatten() {
            if channel.end.end_sleep() {
                rung = true;
                // Who is gone is seen by the next look.
                channel.end.drain();
            }
        }
        self.sleeper.finish();
        if !rung {
            self.drop_gone();
        }
        slept
    }
}
