//! The C library's own functions, which ours stand in front of.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, epoll_event, fd_set, gid_t, id_t, idtype_t, ifaddrs, iovec, loff_t, mmsghdr, msghdr,
    nfds_t, off_t, pid_t, pollfd, pthread_t, rlimit, rusage, sighandler_t, siginfo_t, sigset_t,
    sockaddr, socklen_t, timespec, timeval, uid_t,
};

use crate::inside::{self, Side};
use crate::rights::{Header, Sets};
use crate::slots;

/// Finds the next definition of `name` after this library's.
#[cold]
fn resolve(name: &CStr, into: &AtomicPtr<c_void>) -> *mut c_void {
    // SAFETY: `name` ends with a NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let found = if found.is_null() {
        missing as *mut c_void
    } else {
        found
    };
    into.store(found, Ordering::Relaxed);
    found
}

/// Where the C library's vfork(2) is: who calls it returns twice, so nobody may stand between.
#[cfg(all(not(test), target_arch = "x86_64"))]
pub(crate) fn vfork() -> *mut c_void {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let next = NEXT.load(Ordering::Relaxed);
    match next.is_null() {
        true => resolve(c"vfork", &NEXT),
        false => next,
    }
}

/// Stands in for what this C library does not have.
extern "C" fn missing() -> isize {
    mtcp::posix::call::set_errno(libc::ENOSYS);
    -1
}

macro_rules! real {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The C library's.
            #[inline]
            #[allow(non_snake_case)]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
                let mut next = NEXT.load(Ordering::Relaxed);
                if next.is_null() {
                    next = resolve(NAME, &NEXT);
                }
                // SAFETY: the function of this name has this type. Variable arguments go where
                // fixed ones do, on the machines we run on.
                let next: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { std::mem::transmute(next) };
                // SAFETY: the caller's promises are those of the function.
                unsafe { next($($argument),*) }
            }
        )*
    };
}

real! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn read(fd: c_int, buf: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, buf: *const c_void, len: usize) -> isize;
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> isize;
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> isize;
    fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
    fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
    fn recvfrom(fd: c_int, buf: *mut c_void, len: usize, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> isize;
    fn sendto(fd: c_int, buf: *const c_void, len: usize, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> isize;
    fn __read_chk(fd: c_int, buf: *mut c_void, len: usize, room: usize) -> isize;
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: usize, room: usize, flags: c_int) -> isize;
    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: usize, room: usize, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> isize;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> isize;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> isize;
    fn splice(from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, len: usize, flags: c_uint) -> isize;
    fn closefrom(first: c_int) -> ();
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    fn sockatmark(fd: c_int) -> c_int;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fileno(file: *mut FILE) -> c_int;
    fn fileno_unlocked(file: *mut FILE) -> c_int;
    fn getifaddrs(list: *mut *mut ifaddrs) -> c_int;
    fn freeifaddrs(list: *mut ifaddrs) -> ();
    fn vdprintf(fd: c_int, format: *const c_char, rest: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, rest: *mut c_void) -> c_int;
    fn wait(status: *mut c_int) -> pid_t;
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int;
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    fn execve(path: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execv(path: *const c_char, words: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, words: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, new: c_int) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int;
    fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int;
    fn getrlimit(resource: c_uint, limit: *mut rlimit) -> c_int;
    fn getrlimit64(resource: c_uint, limit: *mut rlimit) -> c_int;
    fn prlimit(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    fn prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE;
    fn capset(header: *mut Header, data: *const Sets) -> c_int;
    fn setuid(uid: uid_t) -> c_int;
    fn setgid(gid: gid_t) -> c_int;
    fn setreuid(real: uid_t, effective: uid_t) -> c_int;
    fn setregid(real: gid_t, effective: gid_t) -> c_int;
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int;
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int;
    fn setgroups(count: usize, groups: *const gid_t) -> c_int;
    fn initgroups(user: *const c_char, group: gid_t) -> c_int;
    fn _exit(status: c_int) -> ();
    fn _Exit(status: c_int) -> ();
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: usize) -> c_int;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: usize) -> c_int;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn pthread_cancel(thread: pthread_t) -> c_int;
    fn daemon(keeps_folder: c_int, keeps_files: c_int) -> c_int;
    fn setsid() -> pid_t;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn io_uring_setup(entries: c_uint, params: *mut c_void) -> c_int;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void) -> c_int;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, memory: *mut c_void, size: usize) -> c_int;
    fn io_uring_queue_init_try_nosqarr(entries: c_uint, ring: *mut c_void, params: *mut c_void, memory: *mut c_void, size: usize) -> c_int;
    fn io_uring_queue_exit(ring: *mut c_void) -> ();
    fn io_uring_get_probe() -> *mut c_void;
    fn io_uring_mlock_size(entries: c_uint, flags: c_uint) -> isize;
    fn io_uring_mlock_size_params(entries: c_uint, params: *mut c_void) -> isize;
}

/// Those that the library does something of its own with.
mod plain {
    use super::{AtomicPtr, CStr, Ordering, c_int, c_void, ptr, resolve};

    real! {
        fn close(fd: c_int) -> c_int;
    }
}

/// The C library's. A number that was the library's own is free then.
#[inline]
pub(crate) unsafe fn close(fd: c_int) -> c_int {
    if matches!(inside::side(), Side::Library | Side::Forks) {
        slots::disown(fd);
    }
    // SAFETY: the caller's promises.
    unsafe { plain::close(fd) }
}

/// Leaves the process at once.
pub(crate) fn exit_group(status: c_int) -> ! {
    loop {
        // SAFETY: ends the process; touches no memory.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
