//! CPython's own tests of sockets over TCP, on the kernel's loopback and on one of mTCP: what
//! passes on the one passes on the other.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use applications::process;
use applications::site::spell;
use interop::{Gate, Namespace, programs};

/// Debian's interpreter, for which the tests are a package.
const PYTHON: &str = "/usr/bin/python3";
/// A module takes so long at most, on a machine that has much else to do.
const WITHIN: Duration = Duration::from_secs(400);

/// Test and verdict.
type Verdicts = BTreeMap<String, String>;

/// The verdicts on these modules, classes or tests.
fn verdicts(mut command: Command, names: &[String]) -> Verdicts {
    let suite = programs::repository().join("tests/preload/programs/python_suite.py");
    command.arg(spell(&suite)).args(names);
    // Where the tests have their files.
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let finished = process::finish(command, WITHIN);
    assert!(
        finished.stdout.lines().next_back() == Some("done"),
        "{names:?} did not end (are the tests installed? scripts/setup.sh): {finished}"
    );
    finished
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(test, verdict)| (test.to_owned(), verdict.to_owned()))
        .collect()
}

fn on_kernel(names: &[String]) -> Verdicts {
    verdicts(Namespace::new().command(PYTHON), names)
}

/// Segments that the kernel has sent over TCP in this namespace.
fn segments(place: &Namespace) -> u64 {
    let table = place.run("cat", "/proc/net/snmp");
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let mut columns = names.split(' ').zip(values.split(' '));
    let sent = columns.find(|(name, _)| *name == "OutSegs");
    sent.unwrap().1.parse().unwrap()
}

fn on_ours(names: &[String]) -> Verdicts {
    let place = Namespace::new();
    let mut command = place.command(programs::mtcp());
    command.args(["run", "--io", "loop:lo", "--addr", "127.0.0.1/8,::1/128"]);
    command.args(["--", PYTHON]);
    let verdicts = verdicts(command, names);
    assert_eq!(segments(&place), 0, "the kernel had a part in {names:?}");
    verdicts
}

/// Those that passed in `kernel` and did not in `ours`.
fn worse(kernel: &Verdicts, ours: &Verdicts) -> Vec<String> {
    let passed = |verdicts: &Verdicts, test: &str| verdicts.get(test).is_some_and(|v| v == "ok");
    let tests = kernel.keys().filter(|test| passed(kernel, test));
    tests.filter(|test| !passed(ours, test)).cloned().collect()
}

fn compare(module: &str) {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    let names = [module.to_owned()];
    let kernel = on_kernel(&names);
    let good = kernel.values().filter(|verdict| *verdict == "ok").count();
    assert!(good > 0, "nothing passes on the kernel: {kernel:#?}");
    let doubtful: Vec<String> = worse(&kernel, &on_ours(&names));
    if !doubtful.is_empty() {
        // Some have limits of time that a busy machine does not keep: once more, with nothing of
        // theirs beside them.
        let different = worse(&on_kernel(&doubtful), &on_ours(&doubtful));
        assert!(different.is_empty(), "{different:#?}");
    }
    applications::note(&format!("{module}: {good} tests of CPython pass"));
}

macro_rules! modules {
    ($($name:ident: $module:expr;)*) => {
        $(#[test]
        fn $name() {
            compare($module);
        })*
    };
}

modules! {
    socket: "test_socket";
    selectors: "test_selectors";
    asyncio_buffers: "test_asyncio.test_buffered_proto";
    asyncio_events: "test_asyncio.test_events";
    asyncio_streams: "test_asyncio.test_streams";
    asyncio_server: "test_asyncio.test_server";
    asyncio_sockets: "test_asyncio.test_sock_lowlevel";
    asyncio_sendfile: "test_asyncio.test_sendfile";
    asyncio_tls: "test_asyncio.test_ssl";
}
