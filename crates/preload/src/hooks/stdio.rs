//! `FILE*` over a socket: the C library reads and writes descriptors of a `FILE` by itself, so ours
//! get one that calls us. So do stdin, stdout and stderr while their numbers name sockets (shells,
//! inetd).

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::FILE;

use super::descriptor::close;
use super::hooks;
use super::stream::{read, write};
use crate::streams::{Standard, files, standard};
use crate::{inside, real, slots};

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
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// A number may name a socket now, or no socket any more: the C library's standard stream of that
/// number follows.
pub(super) fn follow(fd: c_int) {
    let at = match fd {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        2 => &raw mut stderr,
        _ => return,
    };
    inside::run(|| follow_at(fd, at));
}

fn follow_at(fd: c_int, at: *mut *mut FILE) {
    let mut all = standard();
    let Some(known) = all.get_mut(fd.unsigned_abs() as usize) else {
        return;
    };
    // SAFETY: the C library's variable. As with its other calls that change it, it is the program's
    // business not to use it meanwhile.
    let now = unsafe { at.read() };
    let next = match (slots::is_socket(fd), *known) {
        (false, Some(known)) if now.addr() == known.over_socket => known.own,
        (true, Some(known)) if now.addr() == known.own => known.over_socket,
        (true, None) if !now.is_null() => {
            let file = over_socket(fd, if fd == 0 { c"r" } else { c"w" }.as_ptr());
            if file.is_null() {
                return;
            }
            if fd == 2 {
                // SAFETY: a file that nobody has yet.
                unsafe { libc::setvbuf(file, ptr::null_mut(), libc::_IONBF, 0) };
            }
            *known = Some(Standard {
                own: now.expose_provenance(),
                over_socket: file.expose_provenance(),
            });
            file.addr()
        }
        _ => return,
    };
    // SAFETY: as above.
    unsafe { at.write(ptr::with_exposed_provenance_mut(next)) };
}

/// A file whose bytes go through the calls of this library. NULL: there is no memory.
fn over_socket(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions {
        read: receive,
        write: transmit,
        seek: ptr::null(),
        close: end,
    };
    let cookie = ptr::without_provenance_mut(fd.unsigned_abs() as usize);
    // SAFETY: the cookie is a number, which the functions take for one.
    let file = unsafe { fopencookie(cookie, mode, functions) };
    if !file.is_null() {
        files().get_or_insert_default().insert(file.addr(), fd);
    }
    file
}

hooks! {
    /// fdopen(3).
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if !slots::is_socket(fd) {
            // SAFETY: the same arguments.
            return unsafe { real::fdopen(fd, mode) };
        }
        inside::run(|| over_socket(fd, mode))
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
    inside::run(|| {
        if let Some(files) = files().as_mut() {
            files.retain(|_, other| *other != fd);
        }
        if let Some(known) = standard().get_mut(fd.unsigned_abs() as usize) {
            *known = None;
        }
    });
    // SAFETY: no memory is involved.
    unsafe { close(fd) }
}
