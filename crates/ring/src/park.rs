//! Sleeping and waking.
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
/// A pair for one sleeping thread (futex).
pub fn parker() -> (Parker, Unparker) {
    todo!()
}
/// The sleeper's end.
#[derive(Debug)]
pub struct Parker(());
/// The waker's end.
#[derive(Debug, Clone)]
pub struct Unparker(());
impl Parker {
    /// Announces sleep. Check for work once more after this, then `park` or `cancel`.
    pub fn prepare(&mut self) {
        todo!()
    }
    /// Work was found after all.
    pub fn cancel(&mut self) {
        todo!()
    }
    /// Sleeps until woken since `prepare` (true), or `timeout` has passed or a signal came (false).
    pub fn park(&mut self, timeout: Option<Duration>) -> bool {
        todo!()
    }
}
impl Unparker {
    /// Wakes the sleeper if it announced sleep; call after publishing work. True when a system call was made.
    pub fn unpark(&self) -> bool {
        todo!()
    }
}
/// A pair for one thread that sleeps in `ppoll` (eventfd).
/// # Errors
/// No descriptor left.
pub fn wake_fd() -> io::Result<(FdSleeper, FdWaker)> {
    todo!()
}
/// The sleeper's end.
#[derive(Debug)]
pub struct FdSleeper(());
/// The waker's end.
#[derive(Debug, Clone)]
pub struct FdWaker(());
impl FdSleeper {
    /// Announces sleep. Check for work once more after this, then poll `fd` and call `finish`.
    pub fn prepare(&mut self) {
        todo!()
    }
    /// Awake again: takes the announcement and the wake-up back. True when woken through the descriptor.
    pub fn finish(&mut self) -> bool {
        todo!()
    }
    /// Readable when woken.
    pub fn fd(&self) -> BorrowedFd<'_> {
        todo!()
    }
}
impl FdWaker {
    /// Wakes the sleeper if it announced sleep; call after publishing work. True when a system call was made.
    pub fn wake(&self) -> bool {
        todo!()
    }
}
