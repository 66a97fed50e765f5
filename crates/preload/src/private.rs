//! Descriptors of the library's own. Their numbers are those that the program does not use: from
//! its limit on (RLIMIT_NOFILE), which is raised for the moment, so that `dup2` onto them fails as
//! without the library; the highest ones where it cannot be raised.
//!
//! Each is noted where it is made. What opens the link makes many, in crates that know nothing of
//! this: so it runs on a thread whose descriptors are its own (`make`), and what it leaves open
//! moves to numbers that were reserved among the program's before (`carry`).

use std::ffi::{c_int, c_uint};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use mtcp::signals;

use crate::carry::{self, Carrier};
use crate::inside::{self, Side};
use crate::slots::{self, Slot};
use crate::{real, rights};

/// They end at the latest here: a `fork` copies all numbers below the highest one.
const NUMBERS_END: u64 = 16 << 10;
/// Where numbers lie above the limit of the program, which it cannot have otherwise: so many more
/// cost a `fork` half a megabyte.
const LIMIT_RAISED_MAX: u64 = 64 << 10;
/// As many as opening a link may leave: a few for each of many queues ...
const LINK_DESCRIPTORS_MAX: usize = 512;
/// ... and at least, for one queue.
const LINK_DESCRIPTORS_MIN: usize = 24;
/// Numbers that are left for what is made later.
const LATER_DESCRIPTORS: usize = 16;
/// CLOSE_RANGE_UNSHARE of linux/close_range.h.
const UNSHARE: c_int = 2;

/// Makes a descriptor one of the library's own. Returns its number.
pub(crate) fn own(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    let above = Above::program();
    let high = duplicate(fd, above.first);
    if high < 0 {
        slots::set(fd, Slot::Private);
        return fd;
    }
    slots::set(high, Slot::Private);
    // SAFETY: the caller's descriptor, which has another number now.
    unsafe { real::close(fd) };
    high
}

/// Crates below have closed what they had open: those numbers are the program's again.
pub(crate) fn sweep() {
    let private = slots::used(0, c_uint::MAX).filter(|(_, slot)| *slot == Slot::Private);
    private
        .map(|(fd, _)| fd)
        .filter(|fd| !is_open(*fd))
        .for_each(slots::disown);
}

/// Runs `body` on a thread that has its own stack, and descriptors that are its own, of which those
/// that it leaves open become the library's. Returns their numbers, too.
///
/// # Errors
/// No threads, no descriptors, or a kernel that cannot keep them apart.
pub(crate) fn make<T: Send>(body: impl FnOnce() -> T + Send) -> io::Result<(T, Vec<c_int>)> {
    let above = Above::program();
    let reserved = Reserved::new(above.first)?;
    let (near, far) = Carrier::pair(own)?;
    let mut kept = Vec::new();
    // Handlers of the program wait until the thread is done: the engine is not there for them
    // meanwhile.
    let made = signals::without(|| {
        thread::scope(|scope| {
            let (numbers, far) = (&reserved.numbers[..], far.number());
            let opener = thread::Builder::new().name("mtcp-opener".into());
            let open = move || {
                rights::take();
                apart(far, numbers, body)
            };
            let handle = opener.spawn_scoped(scope, open)?;
            let settled = settle_all(&near, &mut kept);
            let made = handle.join().unwrap_or_else(|_| Err(gone()));
            settled.and(made)
        })
    });
    if made.is_err() {
        kept.clear();
    }
    reserved.give_up_but(&kept);
    made.map(|made| (made, kept))
}

/// Takes what the thread sends, all of it, so that it can end.
fn settle_all(near: &Carrier, kept: &mut Vec<c_int>) -> io::Result<()> {
    let mut all = Ok(());
    loop {
        match near.receive() {
            Ok(Some(parcel)) => match parcel.settle() {
                Ok(number) => kept.push(number),
                Err(error) => all = Err(error),
            },
            Ok(None) => return all,
            Err(error) => {
                near.stop();
                return Err(error);
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that opens the link ended")
}

/// What the thread does.
fn apart<T>(far: c_int, numbers: &[c_int], body: impl FnOnce() -> T) -> io::Result<T> {
    inside::go(Side::Apart);
    let result =
        isolate(numbers).and_then(|()| catch_unwind(AssertUnwindSafe(body)).map_err(|_| gone()));
    let sent = match &result {
        Ok(_) => send_all(far, numbers),
        Err(_) => Ok(()),
    };
    let ended = carry::end(far);
    sent.and(ended).and(result)
}

/// Gives the thread a table of descriptors of its own: with those that the library has, none of the
/// program's, and in which these numbers are the next that are free.
fn isolate(numbers: &[c_int]) -> io::Result<()> {
    let last = *numbers.last().ok_or(io::ErrorKind::InvalidInput)?;
    let private = slots::used(3, c_uint::MAX).filter(|(_, slot)| *slot == Slot::Private);
    let reserved = |fd: &c_int| numbers.binary_search(fd).is_ok();
    let kept: Vec<c_int> = private
        .map(|(fd, _)| fd)
        .filter(|fd| !reserved(fd))
        .collect();
    if close_between(c_int::MAX, c_int::MAX, UNSHARE) < 0 {
        // Before Linux 5.9. The other call may be forbidden where this one is not.
        // SAFETY: no memory is involved.
        check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    }
    let starts = [3].into_iter().chain(kept.iter().map(|fd| fd + 1));
    let ends = kept.iter().map(|fd| fd - 1).chain([c_int::MAX]);
    for (start, end) in starts.zip(ends) {
        // Where the call is not known, the thread keeps them for as long as it lives.
        close_between(start, end, 0);
    }
    // SAFETY: the thread's own descriptors; no memory is involved.
    unsafe {
        for number in numbers {
            real::close(*number);
        }
        // Something that may be written to: it may come to stand for stderr.
        let filler = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        let has =
            |number: &c_int| *number < 3 || *number == filler || kept.binary_search(number).is_ok();
        for number in (0..=last).filter(|number| !reserved(number) && !has(number)) {
            check(real::dup3(filler, number, libc::O_CLOEXEC))?;
        }
        for number in (0..3).filter(|number| !is_open(*number)) {
            check(real::dup3(filler, number, libc::O_CLOEXEC))?;
        }
        if reserved(&filler) {
            real::close(filler);
        }
    }
    Ok(())
}

/// Closes descriptors of this thread.
fn close_between(first: c_int, last: c_int, flags: c_int) -> c_int {
    if first > last {
        return 0;
    }
    // SAFETY: no memory is involved.
    unsafe { real::close_range(first.cast_unsigned(), last.cast_unsigned(), flags) }
}

/// Sends what is open, and refuses if there is more than numbers.
fn send_all(far: c_int, numbers: &[c_int]) -> io::Result<()> {
    // The last of the numbers is free, if there were enough.
    if numbers.last().is_some_and(|last| is_open(*last)) {
        return Err(io::Error::other(
            "the link takes more descriptors than the process may have: raise its limit (ulimit -n)",
        ));
    }
    for number in numbers.iter().copied().filter(|fd| is_open(*fd)) {
        carry::send(far, number)?;
    }
    Ok(())
}

/// Numbers among the program's descriptors for those that a thread makes apart.
#[derive(Debug)]
struct Reserved {
    /// In ascending order.
    numbers: Vec<c_int>,
}

impl Reserved {
    fn new(above: c_int) -> io::Result<Self> {
        // SAFETY: makes a descriptor; no memory is involved.
        let any = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        let any = own(any);
        let mut reserved = Self {
            numbers: Vec::with_capacity(LINK_DESCRIPTORS_MAX),
        };
        while reserved.numbers.len() < LINK_DESCRIPTORS_MAX {
            match duplicate(any, above) {
                number if number >= 0 && slots::set(number, Slot::Private) => {
                    reserved.numbers.push(number);
                }
                _ => break,
            }
        }
        // SAFETY: made above.
        unsafe { real::close(any) };
        // Other threads close descriptors meanwhile: what comes next may be lower.
        reserved.numbers.sort_unstable();
        if reserved.numbers.len() < LINK_DESCRIPTORS_MIN {
            reserved.give_up_but(&[]);
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let later = reserved
            .numbers
            .len()
            .saturating_sub(LATER_DESCRIPTORS)
            .max(LINK_DESCRIPTORS_MIN);
        if reserved.numbers.len() < LINK_DESCRIPTORS_MAX {
            reserved.numbers.drain(later..).for_each(free);
        }
        Ok(reserved)
    }

    /// Frees the numbers that nothing took.
    fn give_up_but(self, kept: &[c_int]) {
        let unused = self.numbers.into_iter().filter(|fd| !kept.contains(fd));
        unused.for_each(free);
    }
}

fn free(number: c_int) {
    // SAFETY: a placeholder of the library's own.
    unsafe { real::close(number) };
}

/// Room for numbers above those of the program, for as long as this lives.
#[derive(Debug)]
struct Above {
    /// Where they begin.
    first: c_int,
    /// The limit of the program, and the one that took its place.
    limits: Option<[libc::rlimit; 2]>,
}

impl Above {
    fn program() -> Self {
        let Some(program) = limit() else {
            return Self::below(NUMBERS_END);
        };
        let soft = program.rlim_cur;
        let room = soft.saturating_add(LINK_DESCRIPTORS_MAX as u64 + LATER_DESCRIPTORS as u64);
        let raised = libc::rlimit {
            rlim_cur: room.min(program.rlim_max),
            ..program
        };
        let is_enough = raised.rlim_cur - soft >= (LINK_DESCRIPTORS_MIN + LATER_DESCRIPTORS) as u64;
        if soft <= LIMIT_RAISED_MAX && is_enough && set_limit(&raised) {
            return Self {
                first: number(soft),
                limits: Some([program, raised]),
            };
        }
        Self::below(soft)
    }

    /// The highest ones below a limit, which is not raised.
    fn below(limit: u64) -> Self {
        let end = limit.min(NUMBERS_END);
        let least = end.saturating_sub((LINK_DESCRIPTORS_MIN + LATER_DESCRIPTORS + 4) as u64);
        let first = end
            .saturating_sub(2 * LINK_DESCRIPTORS_MAX as u64)
            .max(end / 2)
            .min(least);
        Self {
            first: number(first),
            limits: None,
        }
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        if let Some([program, raised]) = &self.limits
            // Unless the program has set it meanwhile.
            && limit().is_some_and(|now| now.rlim_cur == raised.rlim_cur)
        {
            set_limit(program);
        }
    }
}

/// Whether a number is none that the program may have.
pub(crate) fn is_beyond(fd: c_int) -> bool {
    limit().is_some_and(|limit| u64::try_from(fd).is_ok_and(|fd| fd >= limit.rlim_cur))
}

fn number(value: u64) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for a limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    known.then_some(limit)
}

fn set_limit(limit: &libc::rlimit) -> bool {
    // SAFETY: a limit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, std::ptr::from_ref(limit)) == 0 }
}

fn duplicate(fd: c_int, above: c_int) -> c_int {
    // SAFETY: duplicates a descriptor; no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_DUPFD_CLOEXEC, i64::from(above).cast_unsigned()) }
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: asks for a flag; no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_GETFD, 0) >= 0 }
}

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn what_is_made_apart_becomes_the_librarys() {
        let (file, kept) = inside::run(|| make(|| File::open("/proc/version"))).unwrap();
        let mut file = file.unwrap();
        assert_eq!(kept, [file.as_raw_fd()]);
        assert!(is_beyond(file.as_raw_fd()) || file.as_raw_fd() >= Above::program().first);
        assert_eq!(slots::look(file.as_raw_fd()), Slot::Private);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Linux"));
        slots::disown(file.as_raw_fd());
    }

    #[test]
    fn a_panic_apart_is_an_error() {
        let made = inside::run(|| make(|| -> u32 { panic!("a test of panics") }));
        assert!(made.is_err());
    }
}
