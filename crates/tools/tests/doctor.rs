//! What the doctor says, and the demonstration without privileges.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::run;

fn doctor(arguments: &[&str]) -> (String, i32) {
    let mut all = vec!["doctor"];
    all.extend_from_slice(arguments);
    let output = run(&all);
    (
        String::from_utf8(output.stdout).unwrap(),
        output.status.code().unwrap(),
    )
}

#[test]
fn everything_is_looked_at_without_judging() {
    let (text, status) = doctor(&[]);
    assert_eq!(status, 0);
    for what in [
        "kernel",
        "capabilities",
        "AF_XDP sockets",
        "BPF JIT",
        "locked memory",
        "TAP devices",
        "huge pages",
        "open files",
        "processors",
        "isolation",
    ] {
        assert!(text.contains(what), "{what} in\n{text}");
    }
    for line in text.lines() {
        assert!(
            ["ok ", "warn ", "fail ", "     "]
                .iter()
                .any(|start| line.starts_with(start)),
            "{line}"
        );
    }
}

#[test]
fn what_is_needed_and_missing_fails() {
    let (text, status) = doctor(&["--io", "afxdp:nonexistent0"]);
    assert!(
        status == 1 && text.contains("there is no such interface"),
        "{text}"
    );
    let (text, status) = doctor(&["--io", "shm:/nonexistent/link"]);
    assert!(status == 1 && text.contains("/nonexistent"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let link = format!("shm:{}", directory.path().join("link").display());
    assert_eq!(doctor(&["--io", &link]).1, 0);
    // 127.0.0.1 is the kernel's.
    let (text, status) = doctor(&["--io", &link, "--addr", "127.0.0.1/8"]);
    assert!(status == 1 && text.contains("the kernel owns it"), "{text}");
    let (text, status) = doctor(&["--io", &link, "--addr", "10.9.0.1/24", "--open"]);
    assert!(status == 0 && text.contains("mtu"), "{text}");
    assert!(text.contains("ip addr add 10.9.0.1/32 dev lo"), "{text}");
    assert_eq!(doctor(&["--io", "kernel"]).1, 0);
}

#[test]
fn the_demonstration_without_privileges() {
    let output = run(&["demo", "--shm", "--quick"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.matches('✓').count() > 15 && !text.contains('✗'),
        "{text}"
    );
    assert!(
        text.contains("64-byte request and response") && text.contains("ratio"),
        "{text}"
    );
    assert!(text.ends_with("all steps passed\n"), "{text}");
}
