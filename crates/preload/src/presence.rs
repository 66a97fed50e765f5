//! What a thread of the program has noted of itself while it sleeps in a call: that it waits for
//! the stack, or that only the kernel can wake it. A handler may never return (siglongjmp): its
//! thread could not take that back then, and others would rely on it. So it is taken back before a
//! handler of the program runs, and noted again if that returns (`handlers`). Where a handler was
//! not called by ours, it is taken back as soon as its thread has the lock (`engine`).

use std::cell::Cell;

/// The place of a waiter (`waiters`), for one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitEntry {
    pub(crate) waiter: usize,
    pub(crate) serial: u64,
}

/// What a thread has noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It waits for the stack there.
    Waits(WaitEntry),
    /// It waits in the kernel for this epoll instance alone.
    InKernel(u32),
    /// It waits for the end of a child.
    ForChild,
}

thread_local! {
    static NOTE: Cell<Option<Note>> = const { Cell::new(None) };
}

/// What this thread has noted.
#[inline]
pub(crate) fn noted() -> Option<Note> {
    NOTE.get()
}

/// This thread is about to sleep.
pub(crate) fn note(note: Note) {
    NOTE.set(Some(note));
}

/// What this thread has noted, which it has not any more.
pub(crate) fn take() -> Option<Note> {
    NOTE.take()
}
