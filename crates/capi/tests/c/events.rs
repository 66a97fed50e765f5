//! The table of events in docs/porting.md: what the original says, read from its source (commit
//! 0463aad), and what we say, tried.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Lab, compile, root, run};

const OURS: &str = "10.0.0.2";
const BEGIN: &str = "<!-- Made by `UPDATE_DOCS=1 cargo test -p capi events`. -->\n";
const END: &str = "<!-- End of what was made. -->\n";

/// What happens to a socket and what it was registered for, as `tests/c/events.c` calls it; what
/// the original says; where.
const ORIGINAL: [(&str, &str, &str); 18] = [
    (
        "connected, OUT",
        "OUT",
        "RaiseWriteEvent, Handle_TCP_ST_SYN_SENT",
    ),
    (
        "refused with a RST, IN OUT",
        "ERR",
        "RaiseErrorEvent, Handle_TCP_ST_SYN_SENT",
    ),
    (
        "a connection waits at a listener, IN",
        "IN",
        "Handle_TCP_ST_SYN_RCVD, mtcp_accept",
    ),
    ("never connected, IN OUT", "", "RaisePendingStreamEvents"),
    (
        "bytes have come, IN RDHUP",
        "IN",
        "RaiseReadEvent, ProcessTCPPayload",
    ),
    ("no room to send, OUT", "", "mtcp_write"),
    ("room again, OUT", "OUT", "RaiseWriteEvent, ProcessACK"),
    (
        "FIN, IN RDHUP",
        "IN",
        "RaiseReadEvent, Handle_TCP_ST_ESTABLISHED",
    ),
    (
        "FIN, RDHUP",
        "",
        "RaiseReadEvent, Handle_TCP_ST_ESTABLISHED",
    ),
    ("RST, IN OUT RDHUP", "RDHUP", "RaiseCloseEvent, ProcessRST"),
    ("RST, IN OUT", "IN", "RaiseCloseEvent, ProcessRST"),
    ("RST, OUT", "", "RaiseCloseEvent, ProcessRST"),
    (
        "RST, and bytes before it have not been read, IN RDHUP",
        "IN RDHUP",
        "ProcessTCPPayload, ProcessRST",
    ),
    (
        "idle for tcp_timeout, IN RDHUP",
        "ERR",
        "RaiseErrorEvent, CheckConnectionTimeout",
    ),
    ("a pipe: bytes to read, IN", "IN", "PipeWrite"),
    (
        "a pipe: room to write, OUT",
        "OUT",
        "RaisePendingPipeEvents",
    ),
    ("a pipe: its writing end is closed, IN", "IN", "PipeClose"),
    (
        "a pipe: its reading end is closed, OUT",
        "OUT",
        "RaisePendingPipeEvents",
    ),
];

/// Where we tell what the original leaves a program to wait for.
const TOLD: [&str; 2] = ["FIN, RDHUP", "RST, OUT"];

/// What the program prints: events by what happens.
fn tried(program: &Path, more: &str) -> BTreeMap<String, String> {
    let lab = Lab::new();
    let conf = lab.dir.path().join("events.conf");
    let text = format!("io = loop:events\naddr = {OURS}/24\npin = no\n{more}\n");
    fs::write(&conf, text).unwrap();
    let output = run(lab.command(program).arg(conf).arg(OURS));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (what, events) = line.split_once('|').unwrap();
        (what.to_owned(), events.trim().to_owned())
    };
    text.lines().map(line).collect()
}

fn table() -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("tests/c/events.c", dir.path());
    let ours = tried(&program, "");
    let legacy = tried(&program, "legacy_errors = yes\nmode = inline");
    assert_eq!(
        ours, legacy,
        "what errors are called has nothing to do with events"
    );
    let linux = tried(&program, "one_event_per_entry = no");
    let mut text = String::from(
        "| what happens | registered for | the original | here | `one_event_per_entry = no` | in the original's source |\n\
         |---|---|---|---|---|---|\n",
    );
    let shown = |events: &str| if events.is_empty() { "nothing" } else { events }.to_owned();
    assert_eq!(ours.len(), ORIGINAL.len());
    for (what, original, source) in ORIGINAL {
        let (happens, asked) = what.rsplit_once(", ").unwrap();
        let (here, there) = (&ours[what], &linux[what]);
        assert!(
            here == original || TOLD.contains(&what),
            "{what}: {here}, and the original: {original}"
        );
        text.push_str(&format!(
            "| {happens} | {asked} | {} | {} | {} | {source} |\n",
            shown(original),
            shown(here),
            shown(there),
        ));
    }
    text
}

#[test]
fn events_are_those_of_the_original_and_documented() {
    let path = root().join("docs/porting.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(
            found == table,
            "docs/porting.md is out of date: UPDATE_DOCS=1 cargo test -p capi events\n{table}"
        );
    }
}
