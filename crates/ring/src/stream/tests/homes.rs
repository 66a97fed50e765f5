//! Streams of another process: here both ends are in one, over two mappings.
#![allow(clippy::disallowed_methods)] // real threads are the point

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{FallocateFlags, fallocate};

use super::*;
use crate::region::Shared;

/// The end of a program, and the memory that it shares.
pub(super) struct Program {
    home: u32,
    pub(super) app: AppStreams,
    pub(super) memory: HomeMemory,
}

impl Program {
    pub(super) fn new(stack: &mut StackStreams, slots: u32, pool_kib: u32) -> Self {
        let memory = HomeMemory::create("ring-test", &config(slots, pool_kib)).unwrap();
        Self {
            home: stack.homes().add(&memory).unwrap(),
            app: AppStreams::attach(fd(&memory), &memory.plan()).unwrap(),
            memory,
        }
    }

    pub(super) fn slot(&self, slot: u32) -> u32 {
        slot_of(self.home, slot)
    }
}

fn fd(memory: &HomeMemory) -> OwnedFd {
    memory.fd().try_clone_to_owned().unwrap()
}

pub(super) fn stack(homes: u32) -> StackStreams {
    streams_and_homes(None, &config(1, 16), PagePolicy::Small, homes)
        .unwrap()
        .0
}

/// Both ends of a home, and the stack's number of the application's slot 0.
fn shared(slots: u32, pool_kib: u32) -> (StackStreams, AppStreams, u32) {
    let mut stack = stack(2);
    let program = Program::new(&mut stack, slots, pool_kib);
    let base = program.slot(0);
    (stack, program.app, base)
}

/// The bytes arrive, and then the slots are another's.
#[test]
fn a_short_transaction_with_another_process() {
    let (mut stack, mut app, slot) = shared(2, 64);
    stack.turn_to(slot);
    stack.reserve(slot, limits(16 * KIB, 16 * KIB)).unwrap();
    receive(&mut stack, slot, b"GET");
    stack.show();
    assert_eq!((app.holds(0), app.readable(0)), (false, 0), "not accepted");
    stack.turn_to(slot);
    stack.grant(slot).unwrap();
    stack.add_status(slot, Status::EOF);
    stack.show();
    assert_eq!(
        (read_all(&mut app, 0), app.at_eof(0)),
        (b"GET".to_vec(), true)
    );
    assert_eq!(app.write(0, b"200 OK"), 6);
    app.release(0);
    assert_eq!(app.write(0, b"more"), 0);
    stack.turn_to(slot);
    assert_eq!((stack.recv_unread(slot), stack.send_len(slot)), (0, 6));
    assert!(stack.app_released(slot));
    assert_eq!(joined(stack.peek(slot, 4, 99)), b"OK");
    stack.consume(slot, 6);
    assert!(stack.close(slot));
    stack.show();
    app.sweep(2);
    assert_eq!(app.send_bytes_in_use(), 0);
    assert_eq!(stack.recv_pool(slot).in_use, 0);
    assert_eq!(stack.homes().take_disorder(slot >> 16), None);
}

#[test]
fn urgent_bytes_and_wake_ups_pass_between_processes() {
    let (mut stack, mut app, slot) = shared(1, 64);
    stack.turn_to(slot);
    stack.open(slot, limits(16 * KIB, 1000)).unwrap();
    assert!(stack.mark_urgent(slot, 2));
    receive(&mut stack, slot, b"ab!c");
    stack.show();
    assert_eq!(app.read(0, &mut [0; 9]), 2);
    assert_eq!(app.urgent(0), Urgent::Here(b'!'));
    assert!(app.pass_mark(0, false));
    assert_eq!(read_all(&mut app, 0), b"c");
    // The next mark is not taken for the one that was passed.
    stack.turn_to(slot);
    assert!(stack.mark_urgent(slot, 0) && !stack.mark_urgent(slot, 0));
    receive(&mut stack, slot, b"?");
    stack.show();
    assert_eq!(
        (app.read(0, &mut [0; 9]), app.urgent(0)),
        (0, Urgent::Here(b'?'))
    );

    assert_eq!(app.write(0, &[1; 1200]), 1000);
    stack.turn_to(slot);
    assert!(stack.app_is_short(slot) && !stack.app_wants_space(slot));
    stack.consume(slot, 900);
    assert!(stack.app_wants_space(slot) && !stack.app_wants_space(slot));
    // The room is there when the event can be: before the stack turns elsewhere.
    assert_eq!(app.write(0, &[1; 1200]), 900);
}

#[test]
fn a_program_that_is_gone_leaves_what_it_had_written() {
    let mut stack = stack(1);
    let mut program = Program::new(&mut stack, 3, 64);
    let [open, pending, last] = [0, 1, 2].map(|slot| program.slot(slot));
    stack.turn_to(open);
    stack.open(open, limits(1000, 1000)).unwrap();
    stack.turn_to(pending);
    stack.reserve(pending, limits(1000, 1000)).unwrap();
    stack.show();
    assert_eq!(program.app.write(0, b"the last words"), 14);
    let home = program.home;
    stack.homes().app_gone(home);
    assert_eq!(program.app.write(0, b", and more"), 10);
    stack.turn_to(open);
    assert!(stack.app_released(open) && !stack.homes().remove(home));
    stack.turn_to(open);
    assert_eq!(joined(stack.peek(open, 0, 99)), b"the last words");
    stack.turn_to(last);
    assert_eq!(stack.open(last, limits(9, 9)), Err(StreamError::NoSlot));
    for slot in [open, pending] {
        stack.turn_to(slot);
        assert!(stack.close(slot));
    }
    assert!(stack.homes().remove(home) && !stack.homes().remove(home));
    // The next one that gets the number begins anew.
    let next = Program::new(&mut stack, 3, 64);
    assert_eq!(next.home, home);
    stack.turn_to(open);
    stack.open(open, limits(1000, 1000)).unwrap();
    assert_eq!((stack.send_len(open), stack.recv_unread(open)), (0, 0));
}

/// What a program holds and has not read, another reads: the first has its slot back when it lets
/// go of it.
#[test]
fn what_was_received_moves_from_a_program_that_holds_it() {
    let mut stack = stack(2);
    let mut from = Program::new(&mut stack, 1, 64);
    let mut into = Program::new(&mut stack, 2, 64);
    let (old, new) = (from.slot(0), into.slot(0));
    assert_eq!(stack.reserve_in(from.home, 7, limits(9000, 9000)), Ok(old));
    stack.turn_to(old);
    stack.grant(old).unwrap();
    receive(&mut stack, old, &[1; 5000]);
    stack.show();
    assert_eq!(from.app.read(0, &mut [0; 1000]), 1000);
    assert_eq!(stack.reserve_in(into.home, 8, limits(9000, 9000)), Ok(new));
    stack.homes().copy_received(old, new).unwrap();
    stack.homes().abandon(old);
    assert!(stack.homes().owners(from.home).is_empty() && !stack.app_released(old));
    assert!(!stack.homes().close_abandoned(from.home, 0), "it is held");
    stack.turn_to(new);
    stack.grant(new).unwrap();
    stack.show();
    assert_eq!(read_all(&mut into.app, 0), [1; 4000]);
    from.app.release(0);
    assert!(
        stack.homes().close_abandoned(from.home, 0) && !stack.homes().close_abandoned(from.home, 0)
    );
    assert!(!stack.homes().close_abandoned(into.home, 0), "it is in use");
    assert!(stack.homes().remove(from.home));
}

/// What was left behind of a program that is gone keeps its memory no longer.
#[test]
fn slots_that_were_left_behind_end_with_their_program() {
    let mut stack = stack(1);
    let program = Program::new(&mut stack, 1, 64);
    let slot = program.slot(0);
    stack.reserve_in(program.home, 7, limits(9, 9)).unwrap();
    stack.turn_to(slot);
    stack.grant(slot).unwrap();
    stack.homes().abandon(slot);
    assert!(!stack.homes().remove(program.home));
    stack.homes().app_gone(program.home);
    assert!(stack.homes().remove(program.home));
}

#[test]
fn what_was_not_agreed_on_is_refused() {
    let mut stack = stack(1);
    let memory = HomeMemory::create("ring-test", &config(2, 64)).unwrap();
    let plan = memory.plan();
    for wrong in [
        HomePlan {
            layout: plan.layout ^ 1,
            ..plan
        },
        HomePlan { slots: 200, ..plan },
        HomePlan {
            recv_pool_bytes: 96 << 10,
            ..plan
        },
        HomePlan {
            send_pool_bytes: u64::MAX,
            ..plan
        },
        HomePlan {
            send_pool_bytes: plan.send_pool_bytes * 2,
            ..plan
        },
    ] {
        assert!(
            AppStreams::attach(fd(&memory), &wrong).is_err(),
            "{wrong:?}"
        );
    }
    let home = stack.homes().add(&memory).unwrap();
    let again = stack.homes().add(&memory).unwrap_err();
    assert_eq!(
        again.kind(),
        std::io::ErrorKind::OutOfMemory,
        "no more homes"
    );
    for slot in [slot_of(home, 2), slot_of(home + 1, 0), u32::MAX] {
        stack.turn_to(slot);
        assert_eq!(stack.reserve(slot, limits(9, 9)), Err(StreamError::NoSlot));
        assert_eq!(
            stack.write_at(slot, 0, b"x"),
            Err(StreamError::NoSlot).or(stack.write_at(slot, 0, b"x"))
        );
        assert!(!stack.close(slot) && stack.peek(slot, 0, 9).is_empty());
    }
    let large = StreamsConfig {
        send_pool_bytes: 3 << 30,
        ..config(1, 16)
    };
    assert!(HomeMemory::create("ring-test", &large).is_err());
    assert!(streams_and_homes(None, &config(1, 16), PagePolicy::Small, u32::MAX).is_err());
}

/// What cannot be is not believed, and the stack says whose it was.
#[test]
fn words_that_cannot_be_are_not_believed() {
    let mut stack = stack(1);
    let mut program = Program::new(&mut stack, 2, 64);
    let slot = program.slot(1);
    stack.turn_to(slot);
    stack.open(slot, limits(4000, 4000)).unwrap();
    receive(&mut stack, slot, &[7; 100]);
    stack.show();
    assert_eq!(program.app.write(1, &[8; 100]), 100);
    stack.turn_to(slot);
    assert_eq!((stack.recv_unread(slot), stack.send_len(slot)), (100, 100));
    stack.show();
    let memory = Shared::from_fd(fd(&program.memory), usize::MAX).unwrap();
    let word = |at: usize, value: u32| assert!(memory.write_at(64 + at, &value.to_le_bytes()));
    let (tail, buffer) = (
        offset(|record| &record.app.send.tail),
        offset(|record| &record.app.send.buffer),
    );
    let head = offset(|record| &record.app.recv.head);
    for (at, value) in [
        (tail, 99),
        (tail, 5000),
        (tail, u32::MAX),
        (head, 101),
        (head, u32::MAX),
    ] {
        let mut before = [0; 4];
        assert!(memory.read_at(64 + at, &mut before));
        word(at, value);
        stack.turn_to(slot);
        assert_eq!((stack.recv_unread(slot), stack.send_len(slot)), (100, 100));
        assert_eq!(stack.homes().take_disorder(program.home), Some(slot));
        word(at, u32::from_le_bytes(before));
        stack.turn_to(slot);
        assert_eq!(stack.homes().take_disorder(program.home), None);
    }
    // A block outside, none, one that is no size, or one that is too small: with more bytes.
    for descriptor in [0, 257, u32::MAX, 1 << 31, 1 << 30 | 1 << 29] {
        word(buffer, descriptor);
        word(tail, 700);
        stack.turn_to(slot);
        assert_eq!(joined(stack.peek(slot, 0, 9999)), [8; 100]);
        assert_eq!(
            stack.homes().take_disorder(program.home),
            Some(slot),
            "{descriptor:#x}"
        );
    }
}

fn offset(field: impl Fn(&record::Record) -> &crate::sync::AtomicU32) -> usize {
    let record = record::Record::default();
    std::ptr::from_ref(field(&record)).addr() - std::ptr::from_ref(&record).addr()
}

/// Holes in the memory of a program, and whatever words, while the stack works on it: the stack and
/// the program beside it go on.
#[test]
fn a_hostile_thread_spoils_nothing_but_its_own() {
    let mut stack = stack(2);
    let hostile = Program::new(&mut stack, 4, 64);
    let beside = Program::new(&mut stack, 1, 64);
    let slot = beside.slot(0);
    stack.turn_to(slot);
    stack.open(slot, limits(9000, 9000)).unwrap();
    stack.show();
    let done = &AtomicBool::new(false);
    let memory = &Shared::from_fd(fd(&hostile.memory), usize::MAX).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = threads::Lcg(5);
            while !done.load(Ordering::Relaxed) {
                let at = match random.below(4) {
                    0 => random.below(memory.len() as u32 / 4),
                    _ => random.below(4 * 16),
                };
                let value = match random.below(3) {
                    0 => random.below(1 << 30) * 4 + random.below(4),
                    _ => random.below(5000),
                };
                memory.write_at(at as usize * 4, &value.to_le_bytes());
                if random.below(100) == 0 {
                    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    let at = u64::from(at) / 1024 * 4096;
                    fallocate(memory.fd(), hole, at, 8192).unwrap();
                }
            }
        });
        let other = thread::spawn(move || threads::run_app(beside.app, 1 << 20));
        let mut random = threads::Lcg(6);
        let mut turn = |stack: &mut StackStreams| {
            let slot = hostile.slot(random.below(4));
            let n = random.below(3000);
            stack.turn_to(slot);
            match random.below(8) {
                0 => drop(stack.open(slot, limits(n, n * 3))),
                1 => drop(stack.close(slot)),
                2 => stack.commit(slot, n),
                3 => drop(stack.write_at(slot, n, &[7; 900])),
                4 => stack.consume(slot, n),
                5 => stack.sweep(2),
                6 => drop(stack.app_wants_space(slot)),
                _ => assert!(joined(stack.peek(slot, n / 2, n)).len() <= n as usize),
            }
            stack.show();
        };
        threads::run_stack(&mut stack, slot, 1 << 20, &mut turn);
        other.join().unwrap();
        done.store(true, Ordering::Relaxed);
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]

    #[test]
    fn a_hostile_program_spoils_nothing_but_its_own(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..4000),
    ) {
        crate::fuzzing::hostile_program(&bytes);
    }
}

/// What a fuzzer once found stays fixed.
#[test]
fn the_corpus_of_hostile_programs_passes() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = corpus.join("../../fuzz/corpus/hostile_program");
    let mut count = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        crate::fuzzing::hostile_program(&std::fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

/// What was received goes to another program, or to the application here, as if it had come there.
#[test]
fn what_was_received_goes_on_in_another_home() {
    let mut stack = streams_and_homes(None, &config(4, 256), PagePolicy::Small, 2);
    let (stack, own) = stack.as_mut().unwrap();
    let mut a = Program::new(stack, 2, 256);
    let mut b = Program::new(stack, 2, 256);
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let from = a.slot(1);
    stack.turn_to(from);
    stack.open(from, limits(128 * KIB, 1000)).unwrap();
    receive(stack, from, &bytes[..70_000]);
    assert!(stack.mark_urgent(from, 5_000));
    // There is a hole before it.
    stack.write_at(from, 10_000, &bytes[80_000..]).unwrap();
    stack.add_status(from, Status::CONNECTED);
    stack.show();
    let mut read = vec![0; 30_000];
    assert_eq!(a.app.read(1, &mut read), 30_000);
    a.app.release(1);
    for to in [b.slot(0), 3] {
        stack.turn_to(to);
        assert_eq!(
            stack.homes().copy_received(from, to),
            Err(StreamError::NotOpen)
        );
        stack.turn_to(to);
        stack.reserve(to, limits(128 * KIB, 1000)).unwrap();
        stack.homes().copy_received(from, to).unwrap();
        assert_eq!(stack.recv_unread(to), 40_000);
        stack.write_at(to, 0, &bytes[70_000..80_000]).unwrap();
        stack.commit(to, 30_000);
        stack.grant(to).unwrap();
        stack.show();
        let (app, slot) = match to {
            3 => (&mut *own, 3),
            _ => (&mut b.app, 0),
        };
        assert_eq!(app.status(slot), Status::CONNECTED | Status::URGENT);
        let mut read = vec![0; 100_000];
        assert_eq!(app.read(slot, &mut read), 45_000);
        assert_eq!(read[..45_000], bytes[30_000..75_000]);
        assert_eq!(app.urgent(slot), Urgent::Here(bytes[75_000]));
        assert!(app.pass_mark(slot, true));
        assert_eq!(read_all(app, slot), bytes[75_000..]);
    }
    stack.turn_to(from);
    assert!(stack.close(from));
}

/// What a program was told of is taken once: by itself, or back by the stack. In each life of the
/// slot anew, and in one process by the program alone.
#[test]
fn either_the_program_or_the_stack_takes_what_waits() {
    let (mut stack, mut app, slot) = shared(2, 64);
    let open = |stack: &mut StackStreams| {
        stack.turn_to(slot);
        stack.open(slot, limits(16 * KIB, 16 * KIB)).unwrap();
        stack.show();
    };
    open(&mut stack);
    assert!(app.accept(0) && !stack.homes().withdraw(slot));
    assert!(app.accept(0) && !app.is_withdrawn(0));
    app.release(0);
    stack.turn_to(slot);
    assert!(stack.close(slot));
    open(&mut stack);
    assert!(!app.is_withdrawn(0) && stack.homes().withdraw(slot));
    assert!(app.is_withdrawn(0) && !app.accept(0) && stack.homes().withdraw(slot));
    assert!(!app.accept(9) && !stack.homes().withdraw(slot + 9));
    let (mut stack, mut own) = pair(1, 64);
    stack.open(0, limits(16 * KIB, 16 * KIB)).unwrap();
    assert!(!stack.homes().withdraw(0) && own.accept(0) && !own.is_withdrawn(0));
}

/// Both at once: exactly one of them gets it.
#[test]
fn who_takes_what_waits_at_the_same_time_is_one() {
    let (mut stack, mut app, slot) = shared(1, 64);
    let ready = AtomicBool::new(false);
    let mut both = [0; 2];
    for _ in 0..2_000 {
        stack.turn_to(slot);
        stack.open(slot, limits(KIB, KIB)).unwrap();
        stack.show();
        let withdrawn = thread::scope(|scope| {
            let taken = scope.spawn(|| {
                while !ready.swap(false, Ordering::Acquire) {
                    thread::yield_now();
                }
                app.accept(0)
            });
            ready.store(true, Ordering::Release);
            let withdrawn = stack.homes().withdraw(slot);
            assert_ne!(taken.join().unwrap(), withdrawn);
            withdrawn
        });
        both[usize::from(withdrawn)] += 1;
        app.release(0);
        stack.turn_to(slot);
        assert!(stack.close(slot));
    }
    println!("the program {}, the stack {}", both[0], both[1]);
}
