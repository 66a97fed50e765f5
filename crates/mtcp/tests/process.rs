//! Set-up of whole processes: links by name, several queues, reports, and what goes wrong.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mtcp::{Config, Context, Domain, Errno, IoSpec, Mode, Mtcp, RecvFlags};
use support::{CLIENT, DEADLINE, SERVER, addr};

fn config(path: &std::path::Path, host: &str, cores: usize) -> Config {
    let mut config = support::config(support::Mode::Inline, &format!("{host}/24"));
    config.io = IoSpec::Shm(path.to_owned());
    config.cores = cores;
    config
}

fn serve(context: Context) {
    serve_and_tell(context, || ());
}

fn serve_and_tell(mut context: Context, listening: impl FnOnce()) {
    let listener = context.socket(Domain::V4).unwrap();
    context.bind(listener, addr(SERVER, 80)).unwrap();
    context.listen(listener, 4).unwrap();
    listening();
    let (socket, _) = context.accept(listener).unwrap();
    let mut buf = [0; 4];
    assert_eq!(context.recv(socket, &mut buf, RecvFlags::WAITALL), Ok(4));
    assert_eq!(context.write(socket, &buf), Ok(4));
    assert_eq!(context.read(socket, &mut buf), Ok(0));
    context.close(socket).unwrap();
    context.drain(Duration::from_secs(5)).unwrap();
}

fn ask(mut context: Context) {
    let socket = context.socket(Domain::V4).unwrap();
    context.connect(socket, addr(SERVER, 80)).unwrap();
    context.write(socket, b"ping").unwrap();
    let mut buf = [0; 4];
    assert_eq!(context.recv(socket, &mut buf, RecvFlags::WAITALL), Ok(4));
    assert_eq!(&buf, b"ping");
    // The other side ends when it has seen this, and its link with it.
    context.close(socket).unwrap();
    let drained = context.drain(Duration::from_secs(5));
    assert!(
        matches!(drained, Ok(true) | Err(Errno::ENETDOWN)),
        "{drained:?}"
    );
}

/// One conversation per queue, each between two threads.
#[test]
fn two_processes_worth_of_contexts_talk_on_two_queues() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    let server = Mtcp::init(config(&path, SERVER, 2)).unwrap();
    let mut threads: Vec<_> = (0..2)
        .map(|core| server.context(core).unwrap())
        .map(|context| thread::spawn(move || serve(context)))
        .collect();
    // The side that made the link takes its peer in as soon as its contexts run.
    let client = Mtcp::init(config(&path, CLIENT, 2)).unwrap();
    assert_eq!((server.cores(), client.cores()), (2, 2));
    for core in 0..2 {
        let context = client.context(core).unwrap();
        threads.push(thread::spawn(move || ask(context)));
    }
    let start = Instant::now();
    for thread in threads {
        while !thread.is_finished() {
            assert!(start.elapsed() < DEADLINE, "a context hangs");
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap();
    }
}

/// Serves one after the other until told to end.
fn serve_many(mut context: Context, conversations: usize) {
    let listener = context.socket(Domain::V4).unwrap();
    context.bind(listener, addr(SERVER, 80)).unwrap();
    context.listen(listener, 64).unwrap();
    for _ in 0..conversations {
        let (socket, _) = context.accept(listener).unwrap();
        let mut buf = [0; 4];
        assert_eq!(context.recv(socket, &mut buf, RecvFlags::WAITALL), Ok(4));
        assert_eq!(context.write(socket, &buf), Ok(4));
        assert_eq!(context.read(socket, &mut buf), Ok(0));
        context.close(socket).unwrap();
    }
    context.drain(Duration::from_secs(5)).unwrap();
}

/// A link has two queues and one context that lives: the other was never made, or has ended. What
/// comes to its queue is not lost, asleep or awake, whichever queue the peer sends through.
#[test]
fn a_queue_without_a_context_is_another_contexts() {
    for (mode, was_made) in [
        (Mode::Inline, false),
        (Mode::Inline, true),
        (Mode::Paired, false),
        (Mode::Paired, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let with_mode = |host| Config {
            mode,
            ..config(&path, host, 2)
        };
        let server = Mtcp::init(with_mode(SERVER)).unwrap();
        let context = server.context(0).unwrap();
        let other = was_made.then(|| server.context(1).unwrap());
        let serving = thread::spawn(move || serve_many(context, 10));
        let client = Mtcp::init(with_mode(CLIENT)).unwrap();
        let asking = thread::spawn(move || {
            for core in [0, 1] {
                // While the other one is there, and asks nothing.
                let _idle = client.context(1 - core).unwrap();
                drop(client.context(core).unwrap());
            }
            for round in 0..10 {
                ask_once(client.context(round % 2).unwrap());
            }
        });
        drop(other);
        let start = Instant::now();
        for thread in [asking, serving] {
            while !thread.is_finished() {
                assert!(start.elapsed() < DEADLINE, "{mode:?}: a context hangs");
                thread::sleep(Duration::from_millis(1));
            }
            thread.join().unwrap();
        }
    }
}

/// One conversation, which must not take until something is sent again.
fn ask_once(mut context: Context) {
    let start = Instant::now();
    let socket = context.socket(Domain::V4).unwrap();
    context.connect(socket, addr(SERVER, 80)).unwrap();
    context.write(socket, b"ping").unwrap();
    let mut buf = [0; 4];
    assert_eq!(context.recv(socket, &mut buf, RecvFlags::WAITALL), Ok(4));
    context.close(socket).unwrap();
    let _ = context.drain(Duration::from_secs(5));
    assert!(
        start.elapsed() < Duration::from_millis(800),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_core_has_one_context() {
    let dir = tempfile::tempdir().unwrap();
    let mtcp = Mtcp::init(config(&dir.path().join("link"), SERVER, 1)).unwrap();
    let _context = mtcp.context(0).unwrap();
    assert!(
        mtcp.context(0)
            .unwrap_err()
            .to_string()
            .contains("one per core")
    );
    assert!(
        mtcp.context(1)
            .unwrap_err()
            .to_string()
            .contains("num_cores")
    );
    assert!(mtcp.pin(1).is_err());
}

/// One conversation after the other over the same link, each between contexts of its own.
#[test]
fn a_core_can_have_another_context_later() {
    const ROUNDS: usize = 3;
    for mode in [Mode::Inline, Mode::Paired] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let with_mode = |host| Config {
            mode,
            ..config(&path, host, 1)
        };
        let server = Mtcp::init(with_mode(SERVER)).unwrap();
        let (tell, listening) = mpsc::channel();
        let (done, next) = mpsc::channel();
        let serving = move || {
            for _ in 0..ROUNDS {
                let context = server.context(0).unwrap();
                assert!(server.context(0).is_err());
                serve_and_tell(context, || tell.send(()).unwrap());
                next.recv().unwrap();
            }
        };
        let client = with_mode(CLIENT);
        let asking = move || {
            listening.recv().unwrap();
            let client = Mtcp::init(client).unwrap();
            for round in 1..=ROUNDS {
                ask(client.context(0).unwrap());
                done.send(()).unwrap();
                if round < ROUNDS {
                    listening.recv().unwrap();
                }
            }
        };
        support::on_threads(asking, serving);
    }
}

/// Whoever waits in a backlog learns at once that nobody will come.
#[test]
fn a_context_that_ends_resets_who_waits_to_be_accepted() {
    for mode in [Mode::Inline, Mode::Paired] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let with_mode = |host| Config {
            mode,
            ..config(&path, host, 1)
        };
        let server = Mtcp::init(with_mode(SERVER)).unwrap();
        let (tell, listening) = mpsc::channel();
        let (connected, end) = mpsc::channel::<()>();
        let (done, over) = mpsc::channel::<()>();
        let serving = move || {
            let mut context = server.context(0).unwrap();
            let listener = context.socket(Domain::V4).unwrap();
            context.bind(listener, addr(SERVER, 80)).unwrap();
            context.listen(listener, 4).unwrap();
            tell.send(()).unwrap();
            while end.try_recv().is_err() {
                context.poll().unwrap();
                thread::sleep(Duration::from_micros(100));
            }
            drop(context);
            // The link stays.
            over.recv().unwrap();
        };
        let client = with_mode(CLIENT);
        let asking = move || {
            listening.recv().unwrap();
            let client = Mtcp::init(client).unwrap();
            let mut context = client.context(0).unwrap();
            let socket = context.socket(Domain::V4).unwrap();
            context.connect(socket, addr(SERVER, 80)).unwrap();
            connected.send(()).unwrap();
            assert_eq!(context.read(socket, &mut [0; 4]), Err(Errno::ECONNRESET));
            done.send(()).unwrap();
        };
        support::on_threads(asking, serving);
    }
}

#[test]
fn a_context_outlives_its_process_handle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    let mtcp = Mtcp::init(config(&path, SERVER, 1)).unwrap();
    let mut context = mtcp.context(0).unwrap();
    drop(mtcp);
    context.poll().unwrap();
    drop(context);
    // Nobody has the link any more: it can be opened again.
    let mtcp = Mtcp::init(config(&path, SERVER, 1)).unwrap();
    mtcp.context(0).unwrap().poll().unwrap();
}

#[test]
fn the_report_says_what_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    let mtcp = Mtcp::init(config(&path, SERVER, 0)).unwrap();
    let report = mtcp.report();
    let line = |what: &str| {
        report
            .lines
            .iter()
            .find(|line| line.0 == what)
            .map(|line| line.1.clone())
    };
    assert_eq!(line("io"), Some(format!("shm:{}", path.display())));
    assert_eq!(line("contexts").as_deref(), Some("1"));
    assert_eq!(line("mtu").as_deref(), Some("1500"));
    assert_eq!(line("mode").as_deref(), Some("inline"));
}

#[test]
fn what_cannot_be_opened_is_said_in_one_line() {
    let text = |config| Mtcp::init(config).unwrap_err().to_string();
    let missing = std::path::Path::new("/nonexistent/dir/link");
    let mut cases = vec![text(config(missing, SERVER, 1))];
    assert!(cases[0].contains("/nonexistent/dir"), "{}", cases[0]);
    cases.push(text(Config::default()));
    assert!(cases[1].contains("addr"), "{}", cases[1]);
    let mut afxdp = config(missing, SERVER, 1);
    afxdp.io = IoSpec::Afxdp("no-such-if0".into());
    cases.push(text(afxdp));
    assert!(cases[2].contains("no-such-if0"), "{}", cases[2]);
    let dir = tempfile::tempdir().unwrap();
    let mut fault = config(&dir.path().join("link"), SERVER, 1);
    fault.fault = Some("gremlins=5".into());
    cases.push(text(fault));
    assert!(cases[3].contains("gremlins"), "{}", cases[3]);
    let mut mask = config(&dir.path().join("link"), SERVER, 1);
    mask.core_list = vec![100_000];
    cases.push(text(mask));
    assert!(cases[4].contains("core_mask"), "{}", cases[4]);
    assert!(cases.iter().all(|case| !case.contains('\n')), "{cases:?}");
}

#[test]
fn a_capture_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut with_capture = config(&dir.path().join("link"), SERVER, 1);
    let file = dir.path().join("x.pcapng");
    with_capture.pcap = Some(file.clone());
    let mtcp = Mtcp::init(with_capture).unwrap();
    let mut context = mtcp.context(0).unwrap();
    let socket = context.socket(Domain::V4).unwrap();
    context.set_nonblocking(socket, true).unwrap();
    assert_eq!(
        context.connect(socket, addr(CLIENT, 80)),
        Err(Errno::EINPROGRESS)
    );
    context.poll().unwrap();
    drop((context, mtcp));
    // Section header, interface, and the ARP request at least.
    let bytes = std::fs::read(file).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.len() > 150, "{} bytes", bytes.len());
}
