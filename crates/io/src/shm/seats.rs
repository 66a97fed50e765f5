//! Who sits where, in words that all processes share: which process has a seat, whether its stack
//! has a queue, and who waits for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ring::region::Shared;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};

use crate::poll::{self, PollFd, PollFlags};

/// Words by seat: the process that has it, 0 if none ...
const HOLDER: usize = 0;
/// ... and whether its stack has a queue.
const CARRIER: usize = 64;
/// By share of the queues: the seat of who had it last, plus one.
const LAST: usize = 128;
/// The process that waits for a queue ...
const WANT: usize = 192;
/// ... and the one that somebody has left a queue to.
const GRANT: usize = 193;

/// See the module.
#[derive(Debug)]
pub(super) struct Seats {
    memory: Arc<Shared>,
    /// Where the words are: a page.
    at: usize,
    count: u8,
    /// Shares of the queues. Where there are twice as many seats, a stack that has left its queue
    /// to another keeps its seat.
    shares: u8,
}

pub(super) fn own_pid() -> u32 {
    getpid().as_raw_nonzero().get().unsigned_abs()
}

fn pid_of(word: u32) -> Option<Pid> {
    i32::try_from(word).ok().and_then(Pid::from_raw)
}

/// Whether a process has ended, perhaps without its parent having noticed.
pub(super) fn is_gone(pid: u32) -> bool {
    let Some(pid) = pid_of(pid) else {
        return true;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            poll::sleep(&mut fds, Some(Duration::ZERO)).is_ok_and(|ended| ended > 0)
        }
        Err(error) => error == Errno::SRCH,
    }
}

impl Seats {
    /// In the page at `at`, which is zero at first.
    pub(super) fn new(memory: Arc<Shared>, at: usize, count: u8, shares: u8) -> Self {
        Self {
            memory,
            at,
            count,
            shares,
        }
    }

    pub(super) fn count(&self) -> u8 {
        self.count
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        let at = self.at + index * size_of::<AtomicU32>();
        let word = self.memory.as_ptr().wrapping_add(at);
        // SAFETY: in the mapping, which has a page behind the rings and lives as long as `self`;
        // aligned, and only accessed atomically.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    fn of(&self, kind: usize, seat: u8) -> &AtomicU32 {
        self.word(kind + usize::from(seat % 64))
    }

    /// This process has the seat, and its stack a queue.
    pub(super) fn take(&self, seat: u8) {
        let share = seat.checked_rem(self.shares).unwrap_or_default();
        self.of(LAST, share)
            .store(u32::from(seat) + 1, Ordering::Relaxed);
        self.of(CARRIER, seat).store(1, Ordering::Release);
        self.of(HOLDER, seat).store(own_pid(), Ordering::Release);
    }

    pub(super) fn leave(&self, seat: u8) {
        self.of(HOLDER, seat).store(0, Ordering::Release);
    }

    /// The stack that sits there has no queue any more.
    pub(super) fn set_guest(&self, seat: u8) {
        self.of(CARRIER, seat).store(0, Ordering::Release);
    }

    pub(super) fn has_queue(&self, seat: u8) -> bool {
        self.of(CARRIER, seat).load(Ordering::Acquire) != 0
    }

    /// Whether somebody has the seat. One whose process is gone has it no more.
    pub(super) fn is_taken(&self, seat: u8, doubtful: bool) -> bool {
        let word = self.of(HOLDER, seat);
        let holder = word.load(Ordering::Acquire);
        let Some(pid) = pid_of(holder) else {
            return false;
        };
        // Asked for frame after frame: what costs least.
        if doubtful && test_kill_process(pid) == Err(Errno::SRCH) {
            let gone = word.compare_exchange(holder, 0, Ordering::AcqRel, Ordering::Relaxed);
            return gone.is_err();
        }
        true
    }

    /// Whether a process that lives has a queue for this seat, or its double.
    pub(super) fn is_served(&self, seat: u8) -> bool {
        let double = (self.count > self.shares).then(|| seat + self.shares);
        [Some(seat), double]
            .into_iter()
            .flatten()
            .any(|seat| seat < self.count && self.has_queue(seat) && self.is_taken(seat, true))
    }

    /// Whether a process that lives asks for a queue.
    pub(super) fn is_wanted(&self) -> bool {
        let asks = pid_of(self.word(WANT).load(Ordering::Acquire));
        asks.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
    }

    /// The seat for who has this share of the queues: that of the one before, who may have left
    /// something there, unless he still has it.
    pub(super) fn free_for(&self, share: u8) -> Option<u8> {
        if self.count == self.shares {
            return Some(share);
        }
        let last = self.of(LAST, share).load(Ordering::Relaxed);
        let last = u8::try_from(last).ok()?.checked_sub(1).unwrap_or(share);
        let other = (last + self.shares) % self.count;
        [last, other].into_iter().find(|&seat| {
            seat < self.count && is_gone(self.of(HOLDER, seat).load(Ordering::Acquire))
        })
    }

    /// Asks for a queue, unless another process does, or this one has been left one that is not
    /// free yet.
    pub(super) fn ask(&self) {
        let own = own_pid();
        if self.word(GRANT).load(Ordering::Acquire) == own {
            return;
        }
        let want = self.word(WANT);
        let asks = want.load(Ordering::Acquire);
        if asks == 0 || (asks != own && is_gone(asks)) {
            let _ = want.compare_exchange(asks, own, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// This process has got one, or asks no more.
    pub(super) fn stop_asking(&self) {
        for word in [self.word(WANT), self.word(GRANT)] {
            let _ = word.compare_exchange(own_pid(), 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Whether a process asks for a queue, and who leaves it the one of `seat` could go on without.
    pub(super) fn is_asked(&self, seat: u8) -> bool {
        self.count > self.shares
            && self.word(WANT).load(Ordering::Acquire) != 0
            && self.free_for(seat % self.shares).is_some()
    }

    /// Leaves a queue to the process that asks. False: another was faster.
    pub(super) fn grant(&self) -> bool {
        let want = self.word(WANT);
        let asks = want.load(Ordering::Acquire);
        let taken = want.compare_exchange(asks, 0, Ordering::AcqRel, Ordering::Relaxed);
        let granted = asks != 0 && taken.is_ok() && !is_gone(asks);
        if granted {
            self.word(GRANT).store(asks, Ordering::Release);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(count: u8, shares: u8) -> Seats {
        let memory = Arc::new(Shared::create("seats", 4096).unwrap());
        Seats::new(memory, 0, count, shares)
    }

    /// A process that has ended and that nobody has noticed: its parent, this one, has not waited
    /// for it.
    fn ended() -> (std::process::Child, u32) {
        let child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while !is_gone(pid) {
            std::thread::yield_now();
        }
        (child, pid)
    }

    #[test]
    fn the_seat_of_the_one_before_is_free_when_it_ends() {
        let seats = seats(4, 2);
        assert_eq!(seats.free_for(1), Some(1));
        seats.take(1);
        assert_eq!(seats.free_for(1), Some(3));
        assert_eq!(seats.free_for(0), Some(0));
        seats.take(3);
        assert_eq!(seats.free_for(1), None);
        seats.leave(1);
        assert_eq!(seats.free_for(1), Some(1));
        seats.leave(3);
        assert_eq!(seats.free_for(1), Some(3));
    }

    #[test]
    fn who_has_ended_has_no_seat() {
        let seats = seats(4, 2);
        let (mut child, pid) = ended();
        seats.of(HOLDER, 1).store(pid, Ordering::Relaxed);
        assert!(seats.is_taken(1, false));
        assert_eq!(seats.free_for(1), Some(1));
        child.wait().unwrap();
    }

    #[test]
    fn where_there_is_one_seat_each_it_is_for_who_has_the_queue() {
        let seats = seats(2, 2);
        seats.take(1);
        assert_eq!(seats.free_for(1), Some(1));
        seats.ask();
        assert!(!seats.is_asked(1));
    }

    #[test]
    fn one_queue_is_left_to_one_that_asks() {
        let seats = seats(4, 2);
        seats.take(0);
        assert!(!seats.is_asked(0));
        seats.ask();
        assert!(seats.is_asked(0));
        assert!(seats.grant());
        // Until it has it, it does not ask for another.
        seats.ask();
        assert!(!seats.is_asked(0) && !seats.grant());
        seats.stop_asking();
        seats.ask();
        assert!(seats.is_asked(0));
        seats.stop_asking();
        assert!(!seats.is_asked(0));
    }

    #[test]
    fn who_has_ended_asks_no_more() {
        let seats = seats(4, 2);
        let (mut child, pid) = ended();
        seats.word(WANT).store(pid, Ordering::Relaxed);
        assert!(!seats.grant());
        seats.ask();
        assert!(seats.grant());
        child.wait().unwrap();
    }
}
