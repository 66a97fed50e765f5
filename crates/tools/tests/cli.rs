//! Mistakes: one line that says what is wrong and what to do, exit status 2.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::TcpListener;

use common::run;

/// The one line on stderr of a command that must be refused.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    assert!(text.starts_with("mtcp: "), "{arguments:?}: {text}");
    assert!(
        text.matches(": ").count() >= 2,
        "cause and remedy in '{text}'"
    );
    assert!(output.stdout.is_empty(), "{arguments:?}");
    text
}

#[test]
fn bad_flags() {
    assert!(refused(&[]).contains("no command"));
    assert!(refused(&["sreve"]).contains("did you mean serve"));
    assert!(refused(&["serve", ".", "--prot", "80"]).contains("--port"));
    assert!(refused(&["serve"]).contains("DIR"));
    assert!(refused(&["serve", "."]).contains("--io"));
    assert!(refused(&["serve", ".", "--io", "bogus:x"]).contains("afxdp:IFACE"));
    assert!(refused(&["serve", ".", "--io", "dpdk:0"]).contains("afxdp"));
    assert!(refused(&["serve", ".", "--io", "kernel", "--addr", "10.0.0"]).contains("10.0.0"));
    assert!(refused(&["serve", ".", "--io", "kernel", "--pcap", "x"]).contains("--pcap"));
    assert!(refused(&["serve", ".", "--io", "kernel", "--core", "4000"]).contains("4000"));
    assert!(refused(&["load", "http://127.0.0.1/", "--io", "kernel"]).contains("--requests"));
    assert!(
        refused(&["load", "https://127.0.0.1/", "--io", "kernel", "-n", "1"]).contains("https")
    );
    assert!(
        refused(&[
            "load",
            "http://127.0.0.1/",
            "--io",
            "kernel",
            "-n",
            "1",
            "--body",
            "/nonexistent"
        ])
        .contains("/nonexistent")
    );
    assert!(
        refused(&[
            "load",
            "http://127.0.0.1/",
            "--io",
            "kernel",
            "-n",
            "1",
            "--method",
            "put"
        ])
        .contains("--body")
    );
}

#[test]
fn what_is_not_there() {
    assert!(refused(&["serve", "/nonexistent", "--io", "kernel"]).contains("/nonexistent"));
    assert!(
        refused(&[
            "serve",
            ".",
            "--io",
            "afxdp:nonexistent0",
            "--addr",
            "10.0.0.2/24"
        ])
        .contains("nonexistent0")
    );
    assert!(
        refused(&[
            "serve",
            ".",
            "--io",
            "shm:/nonexistent/link",
            "--addr",
            "10.0.0.2/24"
        ])
        .contains("/nonexistent")
    );
    assert!(
        refused(&[
            "serve",
            ".",
            "--io",
            "kernel",
            "--config",
            "/nonexistent.conf"
        ])
        .contains("/nonexistent.conf")
    );
    assert!(refused(&["serve", ".", "--io", "shm:/tmp/x"]).contains("--addr"));
    assert!(
        refused(&["serve", ".", "--io", "shm:/tmp/x", "--addr", "10.0.0.2"])
            .contains("10.0.0.2/24")
    );
}

#[test]
fn a_wrong_setting_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mtcp.conf");
    std::fs::write(&file, "io = tap:t0\nadr = 10.0.0.2/24\n").unwrap();
    let line = refused(&["serve", ".", "--config", file.to_str().unwrap()]);
    assert!(
        line.contains("mtcp.conf:2") && line.contains("addr"),
        "{line}"
    );
}

#[test]
fn an_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let line = refused(&[
        "serve",
        ".",
        "--io",
        "kernel",
        "--addr",
        "127.0.0.1",
        "--port",
        &port,
    ]);
    assert!(line.contains("in use") && line.contains("--port"), "{line}");
    assert!(
        refused(&[
            "serve",
            ".",
            "--io",
            "kernel",
            "--addr",
            "192.0.2.1",
            "--port",
            "0"
        ])
        .contains("192.0.2.1")
    );
}

#[test]
fn help_has_examples_everywhere() {
    for command in [
        &[][..],
        &["serve"],
        &["load"],
        &["demo"],
        &["doctor"],
        &["sockets"],
    ] {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let output = run(&arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains("Examples:\n  mtcp "), "{command:?}: {text}");
    }
    let version = run(&["--version"]);
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("mtcp {}\n", env!("CARGO_PKG_VERSION"))
    );
}
