#![allow(clippy::unwrap_used)] // tests

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use mtcp::{Config, Context, Domain, Events, IoSpec, Mode, Mtcp};

use super::*;
use crate::lock::Lock;

/// Longer than anything here takes.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// An end of a link over shared memory.
fn end(link: &Path, address: &str) -> (Mtcp, Context) {
    let mut config = Config {
        io: IoSpec::Shm(link.to_owned()),
        mode: Mode::Inline,
        cores: 1,
        huge_pages: false,
        ..Config::default()
    };
    config.set("addr", address).unwrap();
    let mtcp = Mtcp::init(config).unwrap();
    let context = mtcp.context(0).unwrap();
    (mtcp, context)
}

/// Both ends: the one that made the link takes the other in while its stack runs.
fn ends(link: &Path) -> ((Mtcp, Context), (Mtcp, Context)) {
    let mut theirs = end(link, "10.0.0.2/24");
    let ours = thread::scope(|scope| {
        let ours = scope.spawn(|| end(link, "10.0.0.1/24"));
        while !ours.is_finished() {
            theirs.1.poll().unwrap();
            thread::yield_now();
        }
        ours.join().unwrap()
    });
    (ours, theirs)
}

/// Has the stack run as a thread of the program does that waits, or as the background thread, until
/// that is `over`. Without the lock only while it sleeps.
fn run(lock: &Lock<Engine>, background: bool, over: &AtomicBool) {
    let mut engine = lock.lock().unwrap();
    while !over.load(Ordering::Relaxed) {
        engine.turn();
        let pause = (Some(WAIT_MAX), ptr::null());
        sleep(&mut engine, Want::Nothing, &mut [], pause, background).unwrap();
    }
}

/// Ends the sleep in a waiter.
fn wake(lock: &Lock<Engine>, waiter: usize) {
    let mut engine = lock.lock().unwrap();
    engine.waiters.wake(waiter);
}

/// Whether the other end refuses a connection, which takes one who runs it.
fn refuses(context: &mut Context) -> bool {
    let socket = context.socket(Domain::V4).unwrap();
    context.set_nonblocking(socket, true).unwrap();
    let begun = context.connect(socket, "10.0.0.1:80".parse().unwrap());
    assert_eq!(begun, Err(Errno::EINPROGRESS));
    let start = Instant::now();
    while context.ready(socket, Events::OUT).is_empty() {
        if start.elapsed() > WAIT_MAX {
            return false;
        }
        context.poll().unwrap();
        thread::yield_now();
    }
    true
}

fn until(lock: &Lock<Engine>, holds: impl Fn(&mut Engine) -> bool) {
    let start = Instant::now();
    while !holds(&mut lock.lock().unwrap()) {
        assert!(start.elapsed() < WAIT_MAX, "it never comes to that");
        thread::yield_now();
    }
}

/// The background thread has slept on the link before a thread of the program came, and wakes after
/// that: for a time that was due then, or for a frame of which both hear.
#[test]
fn a_background_thread_that_was_relieved_leaves_the_link_to_who_sleeps_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let ((mtcp, context), (_theirs, mut theirs)) = ends(&folder.path().join("link"));
    let lock = &Lock::new(Engine::running(mtcp, context));
    let [relieved, over] = [const { AtomicBool::new(false) }; 2];
    thread::scope(|scope| {
        let background = scope.spawn(|| run(lock, true, &relieved));
        until(lock, |engine| engine.waiters.is_driven());
        scope.spawn(|| run(lock, false, &over));
        until(lock, |engine| engine.waiters.is_driven_by_program());
        relieved.store(true, Ordering::Relaxed);
        // The thread that came first is the first waiter.
        wake(lock, 0);
        background.join().unwrap();
        let mut engine = lock.lock().unwrap();
        let driven = (engine.waiters.is_driven_by_program(), engine.is_attended());
        drop(engine);
        let refused = refuses(&mut theirs);
        over.store(true, Ordering::Relaxed);
        wake(lock, 1);
        assert_eq!(driven, (true, true), "others know who sleeps on the link");
        assert!(refused, "the peer was notified");
    });
}
