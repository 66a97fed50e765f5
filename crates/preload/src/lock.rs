//! The lock of the process. One of our own making because `fork` must be able to take it and to
//! make it anew, and because who gives it back must know whether another thread waits for it.

use std::cell::UnsafeCell;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mtcp::{Errno, Result};

use crate::cancel;
use crate::inside::{self, Side};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep until it is given back.
const WANTED: u32 = 2;

/// How often to look before sleeping: about as long as a call takes.
const SPINS: u32 = 100;

/// What the lock protects.
pub(crate) trait Shared {
    /// What is left to do once the lock is given back.
    type After;

    /// The lock is about to be given back, to another thread that waits for it if `is_wanted`.
    fn part(&mut self, is_wanted: bool) -> Self::After;
}

/// A value that one thread at a time uses, for short.
#[derive(Debug)]
pub(crate) struct Lock<T: Shared> {
    word: AtomicU32,
    /// Threads that wait: they spin or sleep.
    waiting: AtomicU32,
    /// The thread that has it; 0: none.
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only reached through a guard, and `word` lets one exist.
unsafe impl<T: Shared + Send> Sync for Lock<T> {}

impl<T: Shared> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            waiting: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the others.
    ///
    /// # Errors
    /// `EDEADLK`: this thread has it, below a signal handler.
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>> {
        if self.is_mine() {
            return Err(Errno(libc::EDEADLK));
        }
        // Before it has it: handlers wait from now on.
        let from = inside::go(Side::Library);
        self.take();
        Ok(Guard { lock: self, from })
    }

    fn take(&self) {
        if !self.try_take(HELD) {
            self.wait();
        }
        self.owner.store(inside::name(), Ordering::Relaxed);
        cancel::enter();
    }

    fn try_take(&self, as_what: u32) -> bool {
        let taken = self
            .word
            .compare_exchange(FREE, as_what, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let spun = (0..SPINS).any(|_| {
            hint::spin_loop();
            self.word.load(Ordering::Relaxed) == FREE && self.try_take(HELD)
        });
        if !spun {
            // Who slept takes it as wanted: others may sleep still.
            while self.word.swap(WANTED, Ordering::Acquire) != FREE {
                self.futex(libc::FUTEX_WAIT, WANTED);
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// futex(2) about the word, past the C library. What it fails with the caller finds out by
    /// looking again.
    fn futex(&self, operation: i32, value: u32) {
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the word lives as long as the lock; no time limit.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                none,
            );
        }
    }

    /// Whether this thread has it.
    pub(crate) fn is_mine(&self) -> bool {
        // Only this thread writes its own name there, so it reads the truth about itself.
        self.owner.load(Ordering::Relaxed) == inside::name()
    }

    /// Whether another thread waits for it. It will have the lock after this one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether a thread has it.
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// The guard that was forgotten, in a thread of the program.
    ///
    /// # Safety
    /// This thread took the lock and nothing refers to the value any more.
    pub(crate) unsafe fn held(&self) -> Guard<'_, T> {
        Guard {
            lock: self,
            from: Side::Program,
        }
    }

    /// Gives it back. Returns what is left to do without it.
    ///
    /// # Safety
    /// As for [`held`](Self::held).
    unsafe fn give_back(&self) -> T::After {
        // SAFETY: the caller's promise.
        let after = unsafe { &mut *self.value.get() }.part(self.is_wanted());
        self.owner.store(0, Ordering::Relaxed);
        if self.word.swap(FREE, Ordering::Release) == WANTED {
            self.futex(libc::FUTEX_WAKE, 1);
        }
        after
    }

    /// Gives it back, and does what is left to do. What that is lies on the stack of none of the
    /// calls that go on.
    ///
    /// # Safety
    /// As for [`held`](Self::held).
    #[inline(never)]
    unsafe fn part(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.give_back() });
    }

    /// Makes the lock anew, in the child of a `fork` whose parent had it.
    ///
    /// # Safety
    /// No other thread is there.
    pub(crate) unsafe fn renew(&self) {
        self.word.store(FREE, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// The value, until it is dropped. The thread is in the library meanwhile.
#[derive(Debug)]
pub(crate) struct Guard<'a, T: Shared> {
    lock: &'a Lock<T>,
    /// Where the thread was before.
    from: Side,
}

impl<T: Shared> Guard<'_, T> {
    /// Runs `sleep` without the lock. Handlers that run meanwhile are in the program.
    pub(crate) fn unlocked<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        // SAFETY: this thread has it, and `&mut self` says that nothing refers to the value.
        unsafe { self.lock.part() };
        inside::go(self.from);
        let result = sleep();
        inside::go(Side::Library);
        // It was ours before, so it is not a deadlock now.
        self.lock.take();
        result
    }
}

impl<T: Shared> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard says that this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: Shared> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: Shared> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the guard says that this thread has the lock.
        // What is left to do is done before handlers run that were put off: one may not return.
        unsafe { self.lock.part() };
        inside::go(self.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count, and how often another thread waited when it was parted with.
    #[derive(Debug, Default)]
    struct Count {
        uses: u64,
        wanted: u64,
    }

    impl Shared for Count {
        type After = ();

        fn part(&mut self, is_wanted: bool) {
            self.wanted += u64::from(is_wanted);
        }
    }

    #[test]
    fn one_thread_at_a_time_has_it_and_none_is_forgotten() {
        let lock = Lock::new(Count::default());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        lock.lock().unwrap().uses += 1;
                    }
                });
            }
        });
        assert_eq!(lock.lock().unwrap().uses, 80_000);
        assert!(!lock.is_wanted());
    }

    /// What one leaves to the next is not left lying: there is a next.
    #[test]
    fn who_gives_it_back_knows_whether_another_follows() {
        let lock = Lock::new(Count::default());
        let guard = lock.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| lock.lock().map(drop).unwrap());
            while !lock.is_wanted() {
                hint::spin_loop();
            }
            drop(guard);
        });
        assert_eq!(lock.lock().unwrap().wanted, 1);
    }

    #[test]
    fn who_has_it_is_told() {
        let lock = Lock::new(Count::default());
        let mut guard = lock.lock().unwrap();
        assert_eq!(lock.lock().map(drop), Err(Errno(libc::EDEADLK)));
        guard.unlocked(|| lock.lock().map(drop)).unwrap();
        assert_eq!(lock.lock().map(drop), Err(Errno(libc::EDEADLK)));
        drop(guard);
        lock.lock().map(drop).unwrap();
    }
}
