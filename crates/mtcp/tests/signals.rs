//! Signal handlers end calls that sleep, as in Linux. One test at a time: handlers belong to the
//! process.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mtcp::{Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, Result, SocketId};
use support::{DEADLINE, Mode, SERVER, addr, contexts};

const MODES: [Mode; 2] = [Mode::Inline, Mode::Paired];

static HANDLED: AtomicU32 = AtomicU32::new(0);
static ALONE: Mutex<()> = Mutex::new(());

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Installs the handler of SIGUSR1 for one test.
fn handle(flags: libc::c_int) -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: zeros are a valid action; the handler is async-signal-safe.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(installed, 0);
    alone
}

/// Sends the signal to a thread, which has not ended.
fn kill(thread: libc::pthread_t) {
    // SAFETY: the thread has not ended.
    assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
}

/// Runs `call` in a thread, which gets signals until it returns. A signal before it sleeps is not
/// seen: so there are several.
fn interrupted<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let (ended, end) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        // SAFETY: no conditions.
        tell.send((unsafe { libc::pthread_self() }, None)).unwrap();
        let result = call();
        // SAFETY: no conditions.
        tell.send((unsafe { libc::pthread_self() }, Some(result)))
            .unwrap();
        // Stays until no signal comes any more.
        let _ = end.recv();
    });
    let (thread, _) = told.recv().unwrap();
    let start = Instant::now();
    let result = loop {
        match told.recv_timeout(Duration::from_millis(20)) {
            Ok((_, result)) => break result.unwrap(),
            Err(_) => kill(thread),
        }
        assert!(start.elapsed() < DEADLINE, "signals do not end the call");
    };
    drop(ended);
    sleeper.join().unwrap();
    result
}

/// A connection between two contexts, blocking.
fn connection(client: Mode) -> (Context, SocketId, Context, SocketId) {
    let (mut client, mut server) = contexts(client, Mode::Paired);
    let listener = server.socket(Domain::V4).unwrap();
    server.bind(listener, addr(SERVER, 80)).unwrap();
    server.listen(listener, 4).unwrap();
    let socket = client.socket(Domain::V4).unwrap();
    client.connect(socket, addr(SERVER, 80)).unwrap();
    let (accepted, _) = server.accept(listener).unwrap();
    (client, socket, server, accepted)
}

fn watch(context: &mut Context, id: SocketId) -> SocketId {
    let ep = context.epoll_create().unwrap();
    let interest = Interest {
        events: Events::IN,
        data: 0,
    };
    context.epoll_ctl(ep, Ctl::Add, id, interest).unwrap();
    ep
}

fn wait(context: &mut Context, ep: SocketId, timeout: Option<Duration>) -> Result<usize> {
    context.epoll_wait(ep, &mut [EpollEvent::default()], timeout)
}

#[test]
fn epoll_wait_ends_whatever_the_handler_says() {
    for flags in [0, libc::SA_RESTART] {
        let _alone = handle(flags);
        for mode in MODES {
            for timeout in [None, Some(DEADLINE * 2)] {
                let (mut client, _server) = contexts(mode, Mode::Inline);
                let listener = client.socket(Domain::V4).unwrap();
                client.listen(listener, 4).unwrap();
                let ep = watch(&mut client, listener);
                let result = interrupted(move || wait(&mut client, ep, timeout));
                assert_eq!(result, Err(Errno::EINTR), "{mode:?} {timeout:?}");
            }
        }
    }
}

#[test]
fn blocking_calls_end_and_can_be_made_again() {
    let _alone = handle(0);
    for mode in MODES {
        let (mut client, socket, mut server, accepted) = connection(mode);
        let (mut client, result) = interrupted(move || {
            let result = client.read(socket, &mut [0; 4]);
            (client, result)
        });
        assert_eq!(result, Err(Errno::EINTR), "{mode:?} read");
        server.write(accepted, b"late").unwrap();
        let mut buf = [0; 4];
        assert_eq!(client.read(socket, &mut buf), Ok(4));
        assert_eq!(&buf, b"late");

        let (mut client, result) = interrupted(move || {
            let listener = client.socket(Domain::V4).unwrap();
            client.listen(listener, 4).unwrap();
            let result = client.accept(listener).map(drop);
            (client, result)
        });
        assert_eq!(result, Err(Errno::EINTR), "{mode:?} accept");

        // Nobody has this address: it is asked for in vain.
        let result = interrupted(move || {
            let socket = client.socket(Domain::V4).unwrap();
            client.connect(socket, addr("10.0.0.77", 80))
        });
        assert_eq!(result, Err(Errno::EINTR), "{mode:?} connect");
    }
}

/// What was taken before the signal is what the call returns.
#[test]
fn a_write_says_how_far_it_came() {
    let _alone = handle(0);
    for mode in MODES {
        let (mut client, socket, mut server, accepted) = connection(mode);
        let bytes = support::pattern(0, 16 << 20);
        let all = bytes.clone();
        let (client, written) = interrupted(move || {
            let written = client.write(socket, &bytes);
            (client, written)
        });
        let written = written.unwrap();
        assert!(written > 0 && written < all.len(), "{mode:?}: {written}");
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            let mut buf = vec![0; 65_536];
            while got.len() < written {
                let n = server.read(accepted, &mut buf).unwrap();
                assert!(n > 0, "end of file after {} of {written}", got.len());
                got.extend_from_slice(&buf[..n]);
            }
            // The link goes with it.
            (got, server)
        });
        let mut client = client;
        let start = Instant::now();
        while !reader.is_finished() {
            assert!(start.elapsed() < DEADLINE, "bytes are missing");
            client.poll().unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        assert!(reader.join().unwrap().0 == all[..written]);
    }
}

#[test]
fn a_read_goes_on_after_a_handler_that_asks_for_it() {
    let _alone = handle(libc::SA_RESTART);
    for mode in MODES {
        let (mut client, socket, mut server, accepted) = connection(mode);
        let (tell, told) = mpsc::channel();
        let reader = thread::spawn(move || {
            // SAFETY: no conditions.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            let mut buf = [0; 4];
            let result = client.read(socket, &mut buf);
            // Stays until no signal comes any more.
            (result, buf, tell)
        });
        let thread = told.recv().unwrap();
        let before = HANDLED.load(Ordering::SeqCst);
        let start = Instant::now();
        while HANDLED.load(Ordering::SeqCst) < before + 5 {
            assert!(start.elapsed() < DEADLINE && !reader.is_finished());
            kill(thread);
            thread::sleep(Duration::from_millis(10));
        }
        server.write(accepted, b"data").unwrap();
        let (result, buf, _) = reader.join().unwrap();
        assert_eq!((result, &buf), (Ok(4), b"data"), "{mode:?}");
    }
}

/// Both kinds of end at once are one.
#[test]
fn one_interruption_is_reported_once() {
    let _alone = handle(0);
    for mode in MODES {
        let (mut client, _server) = contexts(mode, Mode::Inline);
        let listener = client.socket(Domain::V4).unwrap();
        client.listen(listener, 4).unwrap();
        let ep = watch(&mut client, listener);
        let waker = client.wake_handle();
        let again = interrupted(move || {
            waker.interrupt();
            assert_eq!(wait(&mut client, ep, None), Err(Errno::EINTR));
            wait(&mut client, ep, Some(Duration::ZERO))
        });
        assert_eq!(again, Ok(0), "{mode:?}");
    }
}

/// Handlers of the program run on its own threads only.
#[test]
fn stack_threads_take_no_signals() {
    let (_client, _server) = contexts(Mode::Paired, Mode::Inline);
    // The thread names itself, when it first runs.
    let deadline = Instant::now() + DEADLINE;
    while stack_threads() == 0 {
        assert!(Instant::now() < deadline, "no thread");
        thread::sleep(Duration::from_millis(1));
    }
}

/// How many there are. None takes signals of the program.
fn stack_threads() -> usize {
    let mut seen = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // A thread of another test may have ended meanwhile.
        let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].trim().to_owned()
        };
        // One that is ending has no signals any more, and the kernel says 0 for all of them.
        if field("Name:") != "mtcp-0" || field("Threads:") == "0" {
            continue;
        }
        seen += 1;
        let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM] {
            assert!(blocked >> (signal - 1) & 1 == 1, "{signal} of {blocked:x}");
        }
        assert_eq!(blocked >> (libc::SIGSEGV - 1) & 1, 0);
    }
    seen
}
