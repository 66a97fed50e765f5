//! What is known of files of the C library over sockets (`hooks/stdio.rs`).

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The descriptor of each file made here, which `fileno` is to tell.
pub(crate) type Files = Option<HashMap<usize, c_int>>;
static FILES: Mutex<Files> = Mutex::new(None);

pub(crate) fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A standard stream: the program's own file, and the one over a socket, made when it is first
/// needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standard {
    pub(crate) own: usize,
    pub(crate) over_socket: usize,
}

/// Those whose numbers were sockets' once.
static STANDARD: Mutex<[Option<Standard>; 3]> = Mutex::new([None; 3]);

pub(crate) fn standard() -> MutexGuard<'static, [Option<Standard>; 3]> {
    STANDARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this thread has while it forks, so that the child does not find it held by a thread that it
/// has not.
type Held = (
    MutexGuard<'static, [Option<Standard>; 3]>,
    MutexGuard<'static, Files>,
);

thread_local! {
    static FORKING: Cell<Option<Held>> = const { Cell::new(None) };
}

/// This thread is about to fork.
pub(crate) fn before_fork() {
    FORKING.set(Some((standard(), files())));
}

/// It has, and is in either process.
pub(crate) fn after_fork() {
    drop(FORKING.take());
}
