#![allow(clippy::disallowed_methods)] // real threads are the point

use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::spsc;

#[test]
fn without_prepare_nobody_sleeps_or_is_woken() {
    let (mut sleeper, waker) = parker();
    assert!(!waker.unpark());
    assert!(!sleeper.park(None), "returns at once");
    sleeper.prepare();
    assert!(waker.is_asleep());
    sleeper.cancel();
    assert!(!waker.unpark());
}

#[test]
fn woken_between_prepare_and_park() {
    let (mut sleeper, waker) = parker();
    sleeper.prepare();
    assert!(waker.unpark());
    assert!(!waker.clone().unpark(), "once is enough");
    assert!(sleeper.park(None));
    sleeper.prepare();
    assert!(!sleeper.park(Some(Duration::from_millis(1))), "timed out");
    sleeper.prepare();
    waker.unpark();
    assert!(sleeper.park(Some(Duration::MAX)), "no time is too long");
}

#[test]
fn no_wake_up_is_lost_between_threads() {
    const COUNT: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let (mut sender, mut receiver) = spsc::channel(1);
    let (mut sleeping_sender, wake_sender) = parker();
    let (mut sleeping_receiver, wake_receiver) = parker();
    let producer = thread::spawn(move || {
        for value in 0..COUNT {
            while sender.push(value).is_err() {
                sleeping_sender.prepare();
                if sender.free() > 0 {
                    sleeping_sender.cancel();
                } else {
                    sleeping_sender.park(None);
                }
            }
            wake_receiver.unpark();
        }
    });
    for expected in 0..COUNT {
        let value = loop {
            if let Some(value) = receiver.pop() {
                break value;
            }
            sleeping_receiver.prepare();
            if receiver.is_empty() {
                sleeping_receiver.park(None);
            } else {
                sleeping_receiver.cancel();
            }
        };
        assert_eq!(value, expected);
        wake_sender.unpark();
    }
    producer.join().unwrap();
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&now),
    )
    .unwrap()
        == 1
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
fn the_descriptor_is_readable_only_after_a_wake_up() {
    let (mut sleeper, waker) = wake_fd().unwrap();
    assert!(!waker.wake() && !readable(sleeper.fd()), "nobody sleeps");
    sleeper.prepare();
    assert!(waker.wake() && readable(sleeper.fd()));
    assert!(!waker.clone().wake(), "once is enough");
    assert!(sleeper.finish() && !readable(sleeper.fd()));
    sleeper.prepare();
    assert!(!sleeper.finish());
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
fn no_wake_up_through_the_descriptor_is_lost() {
    const COUNT: u32 = 5_000;
    let (mut sender, mut receiver) = spsc::channel(COUNT as usize);
    let (mut sleeper, waker) = wake_fd().unwrap();
    let producer = thread::spawn(move || {
        for value in 0..COUNT {
            sender.push(value).unwrap();
            waker.wake();
        }
    });
    let mut expected = 0;
    while expected < COUNT {
        while let Some(value) = receiver.pop() {
            assert_eq!(value, expected);
            expected += 1;
        }
        sleeper.prepare();
        if receiver.is_empty() && expected < COUNT {
            poll(
                &mut [PollFd::from_borrowed_fd(sleeper.fd(), PollFlags::IN)],
                None,
            )
            .unwrap();
        }
        sleeper.finish();
    }
    producer.join().unwrap();
}

/// A handler sleeps within a sleep: the wake-up of the first is not left in the descriptor, which
/// would end every sleep from then on.
#[test]
fn a_sleep_within_a_sleep_leaves_no_wake_up() {
    let (mut sleeper, waker) = wake_fd().unwrap();
    sleeper.prepare();
    assert!(waker.wake());
    sleeper.prepare();
    assert!(!sleeper.finish(), "nothing since then");
    let mut read = [0; 8];
    let left = rustix::io::read(sleeper.fd(), &mut read);
    assert_eq!(left, Err(rustix::io::Errno::AGAIN));
    sleeper.prepare();
    assert!(waker.wake() && sleeper.finish());
    assert!(rustix::io::read(sleeper.fd(), &mut read).is_err());
}
