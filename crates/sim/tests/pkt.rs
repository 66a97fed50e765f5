//! Every script under `tests/pkt` passes, each against a stack of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use sim::pkt::{Mode, run, run_file, scripts};

/// There are at least so many: a folder that was not found must not look like success.
const AT_LEAST: usize = 248;

#[test]
fn all_scripts_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pkt");
    let files = scripts(&folder).expect("tests/pkt");
    assert!(
        files.len() >= AT_LEAST,
        "only {} scripts in {}",
        files.len(),
        folder.display()
    );
    let results = files.iter().map(|file| run_file(file, Mode::default()));
    let failures: Vec<String> = results
        .filter_map(|result| result.err().map(|failure| failure.to_string()))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} scripts failed:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
}

/// The line and the reason of a script that must fail.
fn failure(script: &str) -> (usize, String) {
    let error = run(script, Mode::default()).expect_err("the script passed");
    (error.line, error.what)
}

const LISTEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
";

#[track_caller]
fn fails(tail: &str, line: usize, words: &[&str]) {
    let (at, what) = failure(&format!("{LISTEN}{tail}"));
    assert_eq!(at, line, "{what}");
    for word in words {
        assert!(what.contains(word), "no '{word}' in: {what}");
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    fails("+0 < S 0:1(0) win 1\n", 4, &["inconsistent"]);
    fails("+0 < S 0:0(0)\n", 4, &["win"]);
    fails("\n+0 < X 0:0(0) win 1\n", 5, &["unknown TCP flag 'X'"]);
    fails(
        "+0 < S 0:0(0) win 1 <mss 1460,moo>\n",
        4,
        &["unknown TCP option 'moo'"],
    );
    fails("soon close(3) = 0\n", 4, &["expected a time", "soon"]);
    fails(
        "+0 clone(3) = 0\n",
        4,
        &["no call clone() with 1 arguments"],
    );
    fails(
        "+0 shutdown(3, SHUT_UP) = 0\n",
        4,
        &["unknown name 'SHUT_UP'"],
    );
    fails("* close(3) = 0\n", 4, &["open time"]);
    assert_eq!(failure("--moo=1\n0 close(3) = 0").0, 1);
    assert_eq!(failure("--define=mtcp_moo=\"1\"\n0 close(3) = 0").0, 1);
}

#[test]
fn what_the_stack_does_otherwise_is_found_where_it_is() {
    let syn = "+0 < S 0:0(0) win 1000 <mss 1000>\n";
    let with = |tail: &str| format!("{syn}{tail}");
    fails(
        &with("+0 > S. 0:0(0) ack 2 <...>\n"),
        5,
        &["acknowledgment number", "ack 2", "ack 1"],
    );
    fails(
        &with("+0 > S. 0:0(0) ack 1 <mss 9>\n"),
        5,
        &["wrong options", "mss 1460"],
    );
    fails(&with("+0 > S 0:0(0) <...>\n"), 5, &["flags"]);
    fails(
        &with("+.5 > S. 0:0(0) ack 1 <...>\n"),
        5,
        &["timing", "0.500000", "0.000000"],
    );
    fails(
        &with("+0 close(3) = 1\n"),
        5,
        &["expected result 1 but got 0"],
    );
    fails(
        &with("+0 close(9) = -1 EINVAL\n"),
        5,
        &["expected errno EINVAL but got EBADF"],
    );
    fails(&with("+0 accept(3, ..., ...) = 4\n"), 5, &["blocked"]);
    fails(
        &with("+0...0.1 accept(3, ..., ...) = 4\n"),
        5,
        &["did not return by 0.100000"],
    );
    fails(&with("+0 %{ assert 1 == 2 }%\n"), 5, &["assertion failed"]);
    fails(
        &with("+0 close(3) = 0\n"),
        5,
        &["another packet", "S. 0:0(0) ack 1"],
    );
    fails("+0 > . 1:1(0) ack 1\n", 4, &["nothing was sent"]);
}
