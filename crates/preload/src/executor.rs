//! The process that goes on with the connections of this program if it is killed
//! (`mtcp::executor`), started when the program listens, once for it and the children that it
//! forks. The program must not notice: it has no child more, no signal, and no descriptor that it
//! could close. So a child that announces nothing starts the executor, and ends at once.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use mtcp::{Prepared, SetupError, signals};

use crate::real;
use crate::rules::Rules;

/// What `mtcp` is to do, and where it finds what it needs.
const WORDS: [&CStr; 2] = [c"mtcp", c"executor"];
/// Its descriptors: nothing, three times; then two memories, and the end of a pipe.
const NULL: c_int = 0;
const FIRST: c_int = 3;
const GIVEN: usize = 3;
const BEYOND: c_int = FIRST + GIVEN as c_int;
/// Bytes of the stack of a child that is to call `exec`.
const STACK: usize = 16 << 10;
/// As many as the kernel has.
const SIGNALS: c_int = 64;

/// What the children need, which have this memory and must not allocate in it.
struct Plan {
    program: *const c_char,
    words: [*const c_char; WORDS.len() + 1],
    environment: [*const c_char; 2],
    null: c_int,
    given: [c_int; GIVEN],
    /// Of the second child; the first one is on another.
    stack: *mut c_void,
}

/// Does what takes privileges. For a program that serves an executor is started, if `mtcp run` has
/// said where it is and there is something that it can go on with; a descriptor is left open that
/// each process of the program is to keep.
///
/// # Errors
/// As [`Prepared::new`].
pub(crate) fn prepare(rules: &Rules, serves: bool) -> Result<Prepared, SetupError> {
    let config = rules.config.clone();
    let mut prepared = if serves {
        Prepared::for_server(config)?
    } else {
        Prepared::new(config)?
    };
    // Without that, a child that finds no queue looks time and again.
    let _ = prepared.note_owners();
    if serves && let (Some(program), Some(bequests)) = (&rules.executor, prepared.bequests()) {
        // Without it, what the program has written ends with it.
        let _ = start(program, &rules.settings, bequests);
    }
    Ok(prepared)
}

fn start(program: &CStr, settings: &CStr, bequests: [BorrowedFd<'_>; 2]) -> Option<()> {
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.ok()?;
    let mut lifeline = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(lifeline.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return None;
    }
    let [near, _far] = lifeline;
    let [memory, plots] = bequests.map(|fd| fd.as_raw_fd());
    let [mut first, mut second] = [0; 2].map(|_| vec![0_u128; STACK / size_of::<u128>()]);
    let [program_word, task] = WORDS.map(CStr::as_ptr);
    let mut plan = Plan {
        program: program.as_ptr(),
        words: [program_word, task, ptr::null()],
        environment: [settings.as_ptr(), ptr::null()],
        null: null.as_raw_fd(),
        given: [memory, plots, near],
        stack: top(&mut second),
    };
    signals::without(|| spawn(top(&mut first), &mut plan));
    // SAFETY: made above; nobody else knows it.
    unsafe { real::close(near) };
    Some(())
}

/// Stacks grow downwards.
fn top(stack: &mut [u128]) -> *mut c_void {
    stack.as_mut_ptr_range().end.cast()
}

/// Starts the first child, and waits until it has ended.
fn spawn(stack: *mut c_void, plan: &mut Plan) {
    // The children must not look for functions.
    call(libc::SYS_getpid, 0, 0, 0);
    let errno = mtcp::posix::call::errno();
    // SAFETY: the stack and the plan are the children's alone while this thread sleeps, which it
    // does until they have called `exec` or ended.
    let child = unsafe { libc::clone(intermediate, stack, SHARING, ptr::from_mut(plan).cast()) };
    if child > 0 {
        // SAFETY: no memory is involved. Only who asks for such children learns of this one.
        unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WCLONE) };
    }
    mtcp::posix::call::set_errno(errno);
}

/// Memory is shared and the parent sleeps, as with vfork(2). No signal tells of the end.
const SHARING: c_int = libc::CLONE_VM | libc::CLONE_VFORK;

/// Ends at once, so that the executor is nobody's child here.
extern "C" fn intermediate(plan: *mut c_void) -> c_int {
    // SAFETY: as in `spawn`: `plan` is one, and its stack is unused.
    unsafe {
        let stack = (*plan.cast::<Plan>()).stack;
        libc::clone(become_executor, stack, SHARING, plan);
    }
    0
}

extern "C" fn become_executor(plan: *mut c_void) -> c_int {
    // SAFETY: as in `spawn`. What is called allocates nothing and takes no lock; descriptors,
    // handlers and the mask are this child's own.
    unsafe {
        let plan = &*plan.cast::<Plan>();
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        if arrange(plan) {
            forget_signals();
            let [program, words, environment] = [
                plan.program.addr(),
                plan.words.as_ptr().addr(),
                plan.environment.as_ptr().addr(),
            ]
            .map(usize::cast_signed);
            // No hook is to see it.
            real::syscall(
                libc::SYS_execve,
                program as c_long,
                words as c_long,
                environment as c_long,
                0,
                0,
                0,
            );
        }
    }
    1
}

/// Gives the descriptors their numbers, and closes all others. Returns whether that was possible.
fn arrange(plan: &Plan) -> bool {
    let above = libc::F_DUPFD.into();
    let mut given = [0; GIVEN];
    for (high, fd) in given.iter_mut().zip(plan.given) {
        *high = call(libc::SYS_fcntl, fd.into(), above, BEYOND.into());
    }
    let null = call(libc::SYS_fcntl, plan.null.into(), above, BEYOND.into());
    let standard = (NULL..FIRST).map(|number| (null, number));
    let rest = given.into_iter().zip(FIRST..);
    let mut all = standard.chain(rest);
    all.all(|(fd, number)| call(libc::SYS_dup3, fd, number.into(), 0) >= 0)
        && call(libc::SYS_close_range, BEYOND.into(), c_int::MAX.into(), 0) >= 0
}

/// Each signal does what it does by itself, and none is blocked.
///
/// # Safety
/// Where nobody shares handlers and mask.
unsafe fn forget_signals() {
    // SAFETY: all zero is a value of both: the default, and none.
    unsafe {
        let usual: libc::sigaction = std::mem::zeroed();
        for signal in 1..=SIGNALS {
            libc::sigaction(signal, &raw const usual, ptr::null_mut());
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// A system call with numbers only.
fn call(number: c_long, a: c_long, b: c_long, c: c_long) -> c_long {
    // SAFETY: those used here touch no memory.
    unsafe { real::syscall(number, a, b, c, 0, 0, 0) }
}
