//! One thread sleeps for all, and calls of others go on meanwhile.

use std::thread;
use std::time::Duration;

use ::io::loopback::LoopPort;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;

use crate::service::on_thread;
use crate::{Config, Domain};

const PROMPT: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// The doorbell that another thread's call heard in place of the one that sleeps: that one looks
/// for itself, or nobody would hear what comes next.
#[test]
fn who_sleeps_looks_when_another_call_has_heard_the_doorbell() {
    let mut config = Config::default();
    config.set("addr", "10.0.0.2/24").unwrap();
    let mut context = on_thread(LoopPort::new(), &config).unwrap();
    let at = "10.0.0.2:80".parse().unwrap();
    let listener = context.socket(Domain::V4).unwrap();
    context.bind(listener, at).unwrap();
    context.listen(listener, 5).unwrap();
    let mut fds = Vec::new();
    while context.prepare_sleep(&mut fds).unwrap().is_some() {
        context.end_sleep().unwrap();
        context.poll().unwrap();
        fds.clear();
    }
    // Longer than until a call looks whether the daemon is there.
    thread::sleep(Duration::from_millis(5));
    context.poll().unwrap();
    // SAFETY: the context has them open until its next call.
    let borrowed = fds.iter().map(|&fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let mut slept: Vec<_> = borrowed
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    assert!(poll(&mut slept, Some(&PROMPT)).unwrap() > 0);
    context.end_sleep().unwrap();
}
