//! `FILE*` over a socket: the C library reads and writes descriptors of a `FILE` by itself, so ours get one that calls us.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::FILE;

use super::descriptor::close;
use super::hooks;
use super::stream::{read, write};
use crate::{real, slots};

/// `cookie_io_functions_t` of the C library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    read: extern "C" fn(*mut c_void, *mut c_char, usize) -> isize,
    write: extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: *const c_void,
    close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// The descriptor of each file made here, which `fileno` is to tell.
static FILES: Mutex<Option<HashMap<usize, c_int>>> = Mutex::new(None);

fn files() -> MutexGuard<'static, Option<HashMap<usize, c_int>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

hooks! {
    /// fdopen(3).
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if !slots::is_socket(fd) {
            // SAFETY: the same arguments.
            return unsafe { real::fdopen(fd, mode) };
        }
        let functions = Functions {
            read: receive,
            write: transmit,
            seek: ptr::null(),
            close: end,
        };
        // SAFETY: the cookie is a number, which the functions take for one.
        let file = unsafe { fopencookie(ptr::without_provenance_mut(fd.unsigned_abs() as usize), mode, functions) };
        if !file.is_null() {
            files().get_or_insert_default().insert(file.addr(), fd);
        }
        file
    }

    /// fileno(3).
    fn fileno(file: *mut FILE) -> c_int {
        let known = files().as_ref().and_then(|files| files.get(&file.addr()).copied());
        // SAFETY: the same argument.
        known.unwrap_or_else(|| unsafe { real::fileno(file) })
    }

    /// fileno_unlocked(3).
    fn fileno_unlocked(file: *mut FILE) -> c_int {
        // SAFETY: the same argument.
        unsafe { fileno(file) }
    }
}

fn number(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

extern "C" fn receive(cookie: *mut c_void, buffer: *mut c_char, len: usize) -> isize {
    // SAFETY: the C library's buffer.
    unsafe { read(number(cookie), buffer.cast(), len) }
}

extern "C" fn transmit(cookie: *mut c_void, buffer: *const c_char, len: usize) -> isize {
    // SAFETY: the C library's buffer.
    let n = unsafe { write(number(cookie), buffer.cast(), len) };
    // Zero is what fopencookie(3) wants to hear of a failure.
    n.max(0)
}

extern "C" fn end(cookie: *mut c_void) -> c_int {
    let fd = number(cookie);
    if let Some(files) = files().as_mut() {
        files.retain(|_, other| *other != fd);
    }
    // SAFETY: no memory is involved.
    unsafe { close(fd) }
}
