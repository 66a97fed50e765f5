//! Who is to be woken, and when: at once, or in turn.
//!
//! Each thread that wakes takes the lock of the engine. Many at a time find it taken: they sleep a
//! second time, for the lock, or take the processor from the one that has it. So a few are woken,
//! and as each of them has come, it wakes another.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::Duration;

use crate::kernel::nanos;
use crate::presence::WaitEntry;

/// Threads that are woken at a time for each processor, ...
const FOR_EACH_PROCESSOR: usize = 2;
/// ... and at most.
const AT_A_TIME_MAX: usize = 32;

/// For how long others wait for threads that were woken and do not come, because the program's
/// priorities or the kernel let other threads run.
pub(super) const OVERDUE: Duration = Duration::from_millis(4);

/// How long after it was woken a thread is taken to come at once.
const FRESH: Duration = Duration::from_micros(200);

/// Doorbells to be notified once the lock is given back: a thread that wakes up needs it at once.
#[derive(Debug)]
pub(crate) struct Doorbells {
    list: [c_int; AT_A_TIME_MAX],
    count: usize,
}

impl Doorbells {
    const fn new() -> Self {
        Self {
            list: [-1; AT_A_TIME_MAX],
            count: 0,
        }
    }

    /// Those before it are notified with the lock where there is no room.
    fn add(&mut self, doorbell: c_int) {
        if self.count == AT_A_TIME_MAX {
            self.notify();
        }
        if let Some(place) = self.list.get_mut(self.count) {
            *place = doorbell;
            self.count += 1;
        }
    }

    pub(crate) fn notify(&mut self) {
        for doorbell in self.list.iter().take(self.count) {
            let one = 1u64;
            // SAFETY: 8 bytes are there.
            unsafe { libc::syscall(libc::SYS_write, *doorbell, &raw const one, 8usize) };
        }
        self.count = 0;
    }
}

impl Drop for Doorbells {
    fn drop(&mut self) {
        self.notify();
    }
}

/// Processors that the program may use.
fn processors() -> usize {
    // SAFETY: all zeros is a set, of none, into which the kernel writes; it is counted.
    let count = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        libc::CPU_COUNT(&set)
    };
    usize::try_from(count).unwrap_or(0)
}

/// See the module. Times are those of the monotonic clock, in nanoseconds.
#[derive(Debug)]
pub(super) struct Wakes {
    doorbells: Doorbells,
    /// They are woken in this order.
    queue: VecDeque<WaitEntry>,
    /// So many were woken and have not come.
    coming: usize,
    /// So many may be; 0: not asked for yet.
    most: usize,
    /// When one was woken last.
    rung: u64,
}

impl Wakes {
    pub(super) const fn new() -> Self {
        Self {
            doorbells: Doorbells::new(),
            queue: VecDeque::new(),
            coming: 0,
            most: 0,
            rung: 0,
        }
    }

    /// It is woken in its turn.
    pub(super) fn add(&mut self, entry: WaitEntry) {
        if self.most == 0 {
            self.most = (processors() * FOR_EACH_PROCESSOR).clamp(2, AT_A_TIME_MAX);
        }
        self.queue.push_back(entry);
    }

    /// One is woken as soon as the lock is given back.
    pub(super) fn ring(&mut self, doorbell: c_int, now: fn() -> u64) {
        self.coming += 1;
        self.rung = now();
        self.doorbells.add(doorbell);
    }

    /// One that was woken has come, or one that others waited for too long.
    pub(super) fn came(&mut self) {
        self.coming = self.coming.saturating_sub(1);
    }

    /// Whose turn it is, if another may be woken.
    pub(super) fn next(&mut self) -> Option<WaitEntry> {
        if self.coming < self.most {
            self.queue.pop_front()
        } else {
            None
        }
    }

    /// Others wait no more for those that were woken long ago and have not come.
    pub(super) fn go_on(&mut self, now: fn() -> u64) {
        let is_overdue = |rung| now().saturating_sub(rung) >= nanos(OVERDUE);
        if !self.queue.is_empty() && is_overdue(self.rung) {
            self.coming = 0;
        }
    }

    /// Whether some wait for their turn when the lock is given back.
    pub(super) fn some_stay(&self) -> bool {
        self.queue.len() > self.most.saturating_sub(self.coming)
    }

    /// Whether threads were woken that will come at once.
    pub(super) fn are_coming(&self, now: fn() -> u64) -> bool {
        self.coming > 0 && now().saturating_sub(self.rung) < nanos(FRESH)
    }

    pub(super) fn take_doorbells(&mut self) -> Doorbells {
        std::mem::replace(&mut self.doorbells, Doorbells::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(waiter: usize) -> WaitEntry {
        WaitEntry { waiter, serial: 1 }
    }

    /// Wakes whose turn it is. Returns how many.
    fn wake(wakes: &mut Wakes) -> usize {
        std::iter::from_fn(|| wakes.next().map(|_| wakes.ring(-1, || 0))).count()
    }

    /// However many are ready, a few are woken, and each that comes wakes one more.
    #[test]
    fn each_that_comes_wakes_another() {
        let mut wakes = Wakes::new();
        (0..100).for_each(|waiter| wakes.add(entry(waiter)));
        wakes.most = 4;
        assert!(wakes.some_stay());
        assert_eq!(wake(&mut wakes), 4);
        assert_eq!(wake(&mut wakes), 0);
        for _ in 0..96 {
            wakes.came();
            assert_eq!(wake(&mut wakes), 1);
        }
        assert!(!wakes.some_stay());
        wakes.came();
        assert_eq!(wake(&mut wakes), 0, "there is nobody else");
    }

    /// A thread of low priority may not come for as long as others use the processor.
    #[test]
    fn who_does_not_come_keeps_others_for_a_moment_only() {
        let mut wakes = Wakes::new();
        (0..100).for_each(|waiter| wakes.add(entry(waiter)));
        wakes.most = 4;
        assert_eq!(wake(&mut wakes), 4);
        assert!(wakes.are_coming(|| nanos(FRESH) - 1) && !wakes.are_coming(|| nanos(FRESH)));
        wakes.go_on(|| nanos(OVERDUE) - 1);
        assert_eq!(wake(&mut wakes), 0);
        wakes.go_on(|| nanos(OVERDUE));
        assert_eq!(wake(&mut wakes), 4);
        (0..4).for_each(|_| wakes.came());
        assert_eq!(wake(&mut wakes), 4, "those come");
    }

    #[test]
    fn the_processors_say_how_many() {
        let mut wakes = Wakes::new();
        wakes.add(entry(0));
        assert!(processors() > 0);
        assert!((2..=AT_A_TIME_MAX).contains(&wakes.most));
    }
}
