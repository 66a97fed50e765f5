//! `FILE*` over a socket: the C library reads and writes descriptors of a `FILE` by itself, so ours
//! get one that calls us.

use std::ffi::{c_char, c_int};

use libc::FILE;

use super::descriptor::CALLS;
use super::hooks;
use crate::streams::{files, over_socket};
use crate::{inside, real, slots};

hooks! {
    /// fdopen(3).
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if !slots::is_socket(fd) {
            // SAFETY: the same arguments.
            return unsafe { real::fdopen(fd, mode) };
        }
        inside::run(|| over_socket(fd, mode, CALLS))
    }

    /// fileno(3).
    fn fileno(file: *mut FILE) -> c_int {
        let known = inside::run(|| files().as_ref().and_then(|files| files.get(&file.addr()).copied()));
        // SAFETY: the same argument.
        known.unwrap_or_else(|| unsafe { real::fileno(file) })
    }

    /// fileno_unlocked(3).
    fn fileno_unlocked(file: *mut FILE) -> c_int {
        // SAFETY: the same argument.
        unsafe { fileno(file) }
    }
}
