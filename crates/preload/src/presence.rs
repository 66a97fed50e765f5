//! What a thread of the program has noted of itself while it sleeps in a call: that it lies in a
//! bed, or that only the kernel can wake it. Who never comes back from a handler (siglongjmp) could
//! not take that back, and others would rely on it. So it is taken back before a handler of the
//! program runs, and noted again if that returns (`handlers`); where a handler was not called by
//! ours, it is taken back as soon as its thread has the lock (`engine`).

use std::cell::Cell;

/// A bed, for one sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bunk {
    pub(crate) bed: usize,
    pub(crate) serial: u64,
}

/// What a thread has noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It sleeps in this bed.
    InBed(Bunk),
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
