//! Who sits where, in words that all processes share: which process has a seat, whether its stack
//! has a queue, and who waits for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use ring::region::Shared;

use super::process::Process;

/// There are no more.
const SEATS_MAX: usize = 64;
/// Words of 64 bits by seat: the process that has it, if any.
const HOLDER: usize = 0;
/// The process that waits for a queue ...
const WANT: usize = SEATS_MAX;
/// ... and the one that somebody has left a queue to.
const GRANT: usize = WANT + 1;
/// Words of 32 bits behind those, by seat: whether its stack has a queue.
const CARRIER: usize = 2 * (GRANT + 1);
/// By share of the queues: the seat of who had it last, plus one.
const LAST: usize = CARRIER + SEATS_MAX;
/// A holder that is asked for frame after frame is looked at closely once in so many times.
const CLOSE_LOOK: u8 = 64;

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
    /// How often this process has asked for the holder of each seat, wrapping.
    asked: [AtomicU8; SEATS_MAX],
}

/// A process in the page.
#[derive(Debug)]
struct Entry<'a>(&'a AtomicU64);

impl Entry<'_> {
    fn get(&self) -> Process {
        Process::from_word(self.0.load(Ordering::Acquire))
    }

    fn set(&self, process: Process) {
        self.0.store(process.word(), Ordering::Release);
    }

    /// Whether `old` was there, in whose place `new` is now.
    fn replace(&self, old: Process, new: Process) -> bool {
        let (old, new) = (old.word(), new.word());
        let replaced = self
            .0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        replaced.is_ok()
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
            asked: [const { AtomicU8::new(0) }; SEATS_MAX],
        }
    }

    pub(super) fn count(&self) -> u8 {
        self.count
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.memory.as_ptr().wrapping_add(self.at + offset)
    }

    fn of(&self, kind: usize, seat: u8) -> &AtomicU32 {
        let index = kind + usize::from(seat) % SEATS_MAX;
        let word = self.at(index * size_of::<AtomicU32>());
        // SAFETY: in the mapping, which has a page behind the rings and lives as long as `self`;
        // aligned, and only accessed atomically.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    fn process(&self, index: usize) -> Entry<'_> {
        let word = self.at(index * size_of::<AtomicU64>());
        // SAFETY: as above.
        Entry(unsafe { AtomicU64::from_ptr(word.cast()) })
    }

    fn holder(&self, seat: u8) -> Entry<'_> {
        self.process(HOLDER + usize::from(seat) % SEATS_MAX)
    }

    /// This process has the seat, and its stack a queue.
    pub(super) fn take(&self, seat: u8) {
        let share = seat.checked_rem(self.shares).unwrap_or_default();
        self.of(LAST, share)
            .store(u32::from(seat) + 1, Ordering::Relaxed);
        self.of(CARRIER, seat).store(1, Ordering::Release);
        self.holder(seat).set(Process::own());
    }

    pub(super) fn leave(&self, seat: u8) {
        self.holder(seat).set(Process::NONE);
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
        let entry = self.holder(seat);
        let holder = entry.get();
        if holder.is_none() {
            return false;
        }
        // Asked for frame after frame: what costs least, and now and then what says more.
        if doubtful && (holder.is_missing() || (self.is_due(seat) && holder.is_another())) {
            return !entry.replace(holder, Process::NONE);
        }
        true
    }

    /// The same, asked for now and then.
    fn is_held(&self, seat: u8) -> bool {
        let holder = self.holder(seat).get();
        !holder.is_missing() && !holder.is_another()
    }

    /// Whether to look closely at the holder of this seat now.
    fn is_due(&self, seat: u8) -> bool {
        let asked = self.asked.get(usize::from(seat));
        asked.is_none_or(|asked| asked.fetch_add(1, Ordering::Relaxed) % CLOSE_LOOK == 0)
    }

    /// Whether a process that lives has a queue for this seat, or its double.
    pub(super) fn is_served(&self, seat: u8) -> bool {
        let double = (self.count > self.shares).then(|| seat + self.shares);
        [Some(seat), double]
            .into_iter()
            .flatten()
            .any(|seat| seat < self.count && self.has_queue(seat) && self.is_held(seat))
    }

    /// Whether a process that lives asks for a queue.
    pub(super) fn is_wanted(&self) -> bool {
        !self.process(WANT).get().is_gone()
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
        [last, other]
            .into_iter()
            .find(|&seat| seat < self.count && self.holder(seat).get().is_gone())
    }

    /// Asks for a queue, unless another process does, or this one has been left one that is not
    /// free yet.
    pub(super) fn ask(&self) {
        if self.process(GRANT).get().is_own() {
            return;
        }
        let want = self.process(WANT);
        let asks = want.get();
        if asks.is_gone() {
            want.replace(asks, Process::own());
        }
    }

    /// This process has got one, or asks no more.
    pub(super) fn stop_asking(&self) {
        for entry in [self.process(WANT), self.process(GRANT)] {
            let process = entry.get();
            if process.is_own() {
                entry.replace(process, Process::NONE);
            }
        }
    }

    /// Whether a process asks for a queue, and who leaves it the one of `seat` could go on without.
    pub(super) fn is_asked(&self, seat: u8) -> bool {
        self.count > self.shares
            && !self.process(WANT).get().is_none()
            && self.free_for(seat % self.shares).is_some()
    }

    /// Leaves a queue to the process that asks. False: another was faster.
    pub(super) fn grant(&self) -> bool {
        let want = self.process(WANT);
        let asks = want.get();
        let granted = !asks.is_none() && want.replace(asks, Process::NONE) && !asks.is_gone();
        if granted {
            self.process(GRANT).set(asks);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::tests as process;
    use super::*;

    fn seats(count: u8, shares: u8) -> Seats {
        let memory = Arc::new(Shared::create("seats", 4096).unwrap());
        Seats::new(memory, 0, count, shares)
    }

    /// A process that has ended and that nobody has noticed: its parent, this one, has not waited
    /// for it.
    fn ended() -> (std::process::Child, Process) {
        let mut child = process::living();
        let ended = process::of(&child);
        drop(child.stdin.take());
        while !ended.is_gone() {
            std::thread::yield_now();
        }
        (child, ended)
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
        let (mut child, process) = ended();
        seats.holder(1).set(process);
        assert!(seats.is_taken(1, false));
        assert_eq!(seats.free_for(1), Some(1));
        child.wait().unwrap();
    }

    /// Another process has its PID meanwhile.
    #[test]
    fn who_has_the_pid_of_the_holder_has_no_seat() {
        let seats = seats(4, 2);
        let mut child = process::living();
        seats.holder(1).set(process::before(&child));
        assert_eq!(seats.free_for(1), Some(1));
        seats.of(CARRIER, 1).store(1, Ordering::Release);
        assert!(!seats.is_served(1));
        assert!(!seats.is_taken(1, true), "nobody takes what is put there");
        seats.process(WANT).set(process::before(&child));
        assert!(!seats.is_wanted() && !seats.grant());
        seats.holder(1).set(process::of(&child));
        assert!(seats.is_taken(1, true) && seats.free_for(1) == Some(3));
        drop(child.stdin.take());
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
        let (mut child, process) = ended();
        seats.process(WANT).set(process);
        assert!(!seats.grant());
        seats.ask();
        assert!(seats.grant());
        child.wait().unwrap();
    }
}
