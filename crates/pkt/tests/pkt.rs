//! Every script under `tests/pkt` passes, each against a stack of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use pkt::{Mode, run, run_file, scripts};

/// There are at least so many: a folder that was not found must not look like success.
const AT_LEAST: usize = 490;

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

/// A connection with an MSS of 1000, and `tail`.
fn established(options: &str, tail: &str) -> Result<(), String> {
    let script = format!(
        "{options}{LISTEN}+0 < S 0:0(0) win 9000 <mss 1000,sackOK,TS val 5 ecr 0>
+0 > S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 100 ecr 5>
+.1 < . 1:1(0) ack 1 win 9000 <nop,nop,TS val 6 ecr 100>
+0 accept(3, ..., ...) = 4
{tail}"
    );
    run(&script, Mode::default())
        .map(drop)
        .map_err(|error| error.what)
}

#[test]
fn a_line_may_stand_for_several_segments() {
    // 988 bytes fit beside the timestamps.
    let two = "+0 write(4, ..., 1976) = 1976\n+0 > P. 1:1977(1976) ack 1 <...>\n";
    assert_eq!(established("", two), Ok(()));
    let error = established("--strict_segments\n", two).unwrap_err();
    assert!(error.contains("length"), "{error}");
}

#[test]
fn timestamps_have_to_agree_with_themselves() {
    let write = "+.1 write(4, ..., 10) = 10\n";
    let line = |val: u32| format!("{write}+0 > P. 1:11(10) ack 1 <nop,nop,TS val {val} ecr 6>\n");
    assert_eq!(established("", &line(300)), Ok(()));
    // 100 was the value 200 ms before.
    let error = established("", &line(100)).unwrap_err();
    assert!(error.contains("TS val"), "{error}");
    let tick = "--tcp_ts_tick_usecs=1000\n";
    assert_eq!(established(tick, &line(300)), Ok(()));
    assert!(established(tick, &line(400)).is_err());
}

#[test]
fn packets_have_times_within_their_range() {
    let data = "+.1 < P. 1:11(10) ack 1 win 9000 <nop,nop,TS val 7 ecr 100>\n";
    let ack = |time: &str| format!("{data}{time} > . 1:1(0) ack 11 <...>\n");
    for time in ["+0", "+0~+.1", "0.2~0.3", "*"] {
        assert_eq!(established("", &ack(time)), Ok(()), "{time}");
    }
    for time in ["+.1~+.2", "0.3~0.4", "+.01"] {
        let error = established("", &ack(time)).unwrap_err();
        assert!(error.contains("timing"), "{time}: {error}");
    }
    let tolerant = "--tolerance_usecs=10000\n";
    assert_eq!(established(tolerant, &ack("+.01")), Ok(()));
}

#[test]
fn settings_reach_the_stack() {
    let data = "+.1 < P. 1:11(10) ack 1 win 9000 <nop,nop,TS val 7 ecr 100>\n";
    let late = format!("{data}+.1 > . 1:1(0) ack 11 <...>\n");
    let settings = "--define=mtcp_delayed_ack=100ms\n--define=mtcp_quick_acks=\"0\"\n";
    assert_eq!(established(settings, &late), Ok(()));
    assert!(established("", &late).is_err());
}

/// Exit status and output of the command.
fn command(arguments: &[&str]) -> (i32, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pkt"))
        .args(arguments)
        .output()
        .expect("pkt");
    let text = [output.stdout, output.stderr].concat();
    let status = output.status.code().expect("exit status");
    (status, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_command_says_how_it_went() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pkt/basics");
    let good = folder.join("accept.pkt");
    let bad = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad.pkt");
    std::fs::write(&bad, "0 close(3) = 0\n").unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let (status, text) = command(&[good]);
    assert!(status == 0 && text.contains("1 passed, 0 failed"), "{text}");
    let (status, text) = command(&[good, bad]);
    assert!(
        status == 1 && text.contains("bad.pkt:1: close call"),
        "{text}"
    );
    assert!(text.contains("1 passed, 1 failed"), "{text}");
    let (status, text) = command(&["--help"]);
    assert!(status == 0 && text.contains("delayed_ack"), "{text}");
    assert_eq!(command(&[]).0, 2);
    assert_eq!(command(&["--moo"]).0, 2);
}
