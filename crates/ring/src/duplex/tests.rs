use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;
use crate::sync::Ordering::Relaxed;

const SHAPE: Shape = Shape {
    to_daemon: 8,
    to_program: 16,
};

fn pair() -> (Duplex, Duplex) {
    let daemon = Duplex::make(SHAPE).unwrap();
    let fd = daemon.memory().try_clone_to_owned().unwrap();
    let program = Duplex::join(fd, SHAPE).unwrap();
    (daemon, program)
}

#[test]
fn each_side_hears_what_the_other_says() {
    let (mut daemon, mut program) = pair();
    let said: Vec<Unit> = (0..8).map(|n| [n, !n]).collect();
    assert!(program.stage(&said[..5]));
    assert!(daemon.is_empty());
    assert!(program.publish());
    assert!(!program.publish());
    // All or none.
    assert!(!program.stage(&said[..4]));
    assert!(!program.has_staged());
    assert!(program.stage(&said[5..]));
    assert!(program.publish());
    let answers = [[7, 7]; 16];
    assert!(daemon.stage(&answers));
    assert!(daemon.publish());

    let mut heard = [[0; 2]; 5];
    assert!(daemon.take(&mut heard));
    assert_eq!(heard, said[..5]);
    assert!(!daemon.take(&mut heard), "three are left");
    for n in 5..8 {
        assert_eq!(daemon.pop(), Some([n, !n]));
    }
    assert_eq!(daemon.pop(), None);
    assert!((0..16).all(|_| program.pop() == Some([7, 7])));
    assert!(program.is_empty() && !program.is_corrupt());
}

#[test]
fn only_memory_of_the_same_shape_is_joined() {
    let daemon = Duplex::make(SHAPE).unwrap();
    let join = |shape| {
        let fd = daemon.memory().try_clone_to_owned().unwrap();
        Duplex::join(fd, shape).map(drop)
    };
    join(SHAPE).unwrap();
    for (to_daemon, to_program) in [(8, 8), (16, 16), (7, 16), (0, 16), (1 << 21, 16)] {
        let shape = Shape {
            to_daemon,
            to_program,
        };
        assert!(join(shape).is_err(), "{shape:?}");
    }
    // Unsealed memory could be cut short under us.
    let unsealed = Shared::create("unsealed", SHAPE.bytes().unwrap()).unwrap();
    let fd = unsealed.fd().as_fd().try_clone_to_owned().unwrap();
    assert!(Duplex::join(fd, SHAPE).is_err());
}

#[test]
fn a_sleep_is_taken_once() {
    let (daemon, program) = pair();
    assert!(!program.take_announcement());
    daemon.announce_sleep();
    assert!(program.take_announcement());
    assert!(!program.take_announcement());
    assert!(daemon.end_sleep());
    daemon.announce_sleep();
    assert!(!daemon.end_sleep());
    assert!(!program.take_announcement());
    // The words are two.
    program.announce_sleep();
    assert!(!program.take_announcement());
    assert!(daemon.take_announcement());
}

#[test]
fn a_side_that_slept_on_this_processor_is_beside() {
    let (daemon, program) = pair();
    assert!(
        !program.is_beside() && !daemon.is_beside(),
        "none has slept"
    );
    assert!(!program.other_sleeps());
    let home = sched_getaffinity(None).unwrap();
    let all = (0..CpuSet::MAX_CPU).filter(|&cpu| home.is_set(cpu));
    let cpus: Vec<usize> = all.take(2).collect();
    let pin = |cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
    };
    pin(cpus[0]);
    daemon.announce_sleep();
    assert!(program.other_sleeps() && program.is_beside());
    assert!(program.take_announcement());
    assert!(!program.other_sleeps() && program.is_beside());
    assert!(daemon.end_sleep());
    assert!(program.is_beside());
    assert!(!daemon.is_beside(), "the program has not slept");
    if let Some(&other) = cpus.get(1) {
        pin(other);
        assert!(!program.is_beside());
        daemon.announce_sleep();
        assert!(program.is_beside());
    }
}

/// Everything said arrives in order, whichever side sleeps when.
#[test]
fn nothing_is_lost_between_two_that_sleep() {
    const TURNS: u64 = 20_000;
    let (mut daemon, mut program) = pair();
    let (ring, rings) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..TURNS {
                while !program.stage(&[[n, 0]]) {
                    thread::yield_now();
                }
                program.publish();
                if program.take_announcement() {
                    ring.send(()).unwrap();
                }
            }
        });
        let mut expected = 0;
        while expected < TURNS {
            if let Some([n, _]) = daemon.pop() {
                assert_eq!(n, expected);
                expected += 1;
                continue;
            }
            daemon.announce_sleep();
            if daemon.is_empty() {
                rings.recv().unwrap();
                assert!(daemon.end_sleep());
            } else if daemon.end_sleep() {
                rings.recv().unwrap();
            }
        }
    });
}

/// An index that cannot be makes the ring useless, and nothing else.
#[test]
fn a_program_in_disorder_is_noticed() {
    let (mut daemon, program) = pair();
    let index = program.memory.as_ptr().cast::<u32>();
    // SAFETY: inside the mapping.
    unsafe { AtomicU32::from_ptr(index) }.store(9, Relaxed);
    assert_eq!(daemon.pop(), None);
    assert!(daemon.is_corrupt());
    assert!(!daemon.take(&mut [[0; 2]; 1]));
}
