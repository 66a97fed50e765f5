//! Files of the C library over sockets (`hooks/stdio.rs`): those that programs make, and stdin,
//! stdout and stderr while their numbers name sockets (shells, inetd).

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::FILE;

use crate::{inside, slots};

/// The descriptor of each file made here, which `fileno` is to tell.
pub(crate) type Files = Option<HashMap<usize, c_int>>;
static FILES: Mutex<Files> = Mutex::new(None);

pub(crate) fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A standard stream: the program's own file, and the one over a socket, made when it is first
/// needed.
#[derive(Clone, Copy, Debug)]
struct Standard {
    own: usize,
    over_socket: usize,
}

/// Those whose numbers were sockets' once.
static STANDARD: Mutex<[Option<Standard>; 3]> = Mutex::new([None; 3]);

fn standard() -> MutexGuard<'static, [Option<Standard>; 3]> {
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

/// `cookie_io_functions_t` of the C library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) read: extern "C" fn(*mut c_void, *mut c_char, usize) -> isize,
    pub(crate) write: extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    pub(crate) seek: *const c_void,
    pub(crate) close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// A number may name a socket now, or no socket any more: the C library's standard stream of that
/// number follows.
pub(crate) fn follow(fd: c_int, calls: Functions) {
    let at = match fd {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        2 => &raw mut stderr,
        _ => return,
    };
    inside::run(|| follow_at(fd, at, calls));
}

fn follow_at(fd: c_int, at: *mut *mut FILE, calls: Functions) {
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
            let file = over_socket(fd, if fd == 0 { c"r" } else { c"w" }.as_ptr(), calls);
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

/// A file whose bytes go through these calls. NULL: there is no memory.
pub(crate) fn over_socket(fd: c_int, mode: *const c_char, calls: Functions) -> *mut FILE {
    let cookie = ptr::without_provenance_mut(fd.unsigned_abs() as usize);
    // SAFETY: the cookie is a number, which the functions take for one.
    let file = unsafe { fopencookie(cookie, mode, calls) };
    if !file.is_null() {
        files().get_or_insert_default().insert(file.addr(), fd);
    }
    file
}

/// The program closes the file over the socket `fd`.
pub(crate) fn forget(fd: c_int) {
    inside::run(|| {
        if let Some(files) = files().as_mut() {
            files.retain(|_, other| *other != fd);
        }
        if let Some(known) = standard().get_mut(fd.unsigned_abs() as usize) {
            *known = None;
        }
    });
}
