//! io_uring of the program: its rings are the kernel's, and the kernel does what is not about
//! sockets of the stack.
//!
//! Calls of io_uring pass no library. `mtcp run` forbids them by a filter (`mtcp::filter`); what
//! opens the door again is the first call that the library does see: `syscall`, or a function of
//! liburing that makes a ring ([`arm`]). Then a thread of the library hears each submission before
//! the kernel does ([`notice`]), takes out of the ring what the stack has to do ([`queue`]), for
//! which the kernel finds entries that do nothing, and does it as a program would that does not
//! wait: by the library's own calls ([`work`]). Where that would wait it waits for all of them, and
//! runs the stack meanwhile ([`serve`]). The kernel puts the completions into the program's ring
//! when the library's ring tells it to (IORING_OP_MSG_RING, [`helper`]): who waits for them, by
//! whatever call, wakes as by any other.
//!
//! All state is that thread's. A program that makes no ring has neither the thread nor the second
//! filter. The filter is heard by one process: after `exec`, and in children of a process that
//! hears, there is no io_uring.

mod abi;
pub(crate) mod armed;
mod buffers;
mod helper;
mod job;
mod memory;
mod notice;
mod progress;
mod queue;
mod register;
mod serve;
mod watch;
mod work;

use std::io;
use std::thread;

use mtcp::{filter, signals};

use crate::rules::rules;
use crate::{engine, log};
use helper::Helper;
use notice::Listener;
use serve::Server;

/// The program is about to make a ring.
#[cold]
pub(crate) fn arm() {
    if rules().is_none() || armed::is_armed() {
        return;
    }
    let Ok(mut engine) = engine::lock() else {
        return;
    };
    if armed::is_armed() || engine.is_borrowed() {
        return;
    }
    if is_forbidden() {
        engine.begin();
        if let Err(error) = start() {
            log::line(format_args!(
                "io_uring is not there for the program (ENOSYS): {}",
                reason(&error)
            ));
        }
    }
    armed::note();
}

/// Whether `mtcp run` has set its filter, and nobody hears what it forbids.
fn is_forbidden() -> bool {
    // SAFETY: no memory is involved: no entries, no parameters.
    let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, 0) };
    made < 0 && mtcp::posix::call::errno() == libc::ENOSYS
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EBUSY) => "the process that this one was forked by uses it".to_owned(),
        Some(libc::ESRCH) => "threads of the program have filters of their own".to_owned(),
        _ if error.kind() == io::ErrorKind::Unsupported => {
            "serving it takes Linux 6.3 or later".to_owned()
        }
        _ => error.to_string(),
    }
}

fn start() -> io::Result<()> {
    let helper = Helper::new()?;
    let (listener, gave_up) = filter::hear_io_uring()?;
    if gave_up {
        log::line(format_args!(
            "io_uring is served, for which set-user-ID programs started by this one get no rights: start it as root, or give --allow \
             io-uring"
        ));
    }
    let listener = Listener::new(listener);
    let thread = thread::Builder::new().name("mtcp-uring".into());
    signals::without(|| thread.spawn(move || Server::new(listener, helper).run())).map(drop)
}
