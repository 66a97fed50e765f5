//! Handlers of signals that interrupt calls on sockets: over a link that loops, which takes no
//! privileges, and on the kernel.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use applications::process::Finished;
use applications::site::succeed;
use interop::programs;

/// `handlers.c`, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        programs::require(&["cc"]);
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handlers");
        let source = programs::repository().join("tests/preload/process/handlers.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        cc.arg(&program).arg(source);
        succeed(cc);
        program
    })
}

/// A case on the stack and on the kernel, which are of one opinion.
fn fine(case: &str, port: &str) {
    let mut stack = Command::new(programs::mtcp());
    stack.args(["run", "--io", "loop:lo", "--addr", "127.0.0.1/8", "--"]);
    stack.arg(program());
    for mut command in [Command::new(program()), stack] {
        command.args([case, "127.0.0.1", port]);
        let Finished { stdout, stderr, .. } = succeed(command);
        assert_eq!((&*stdout, &*stderr), ("fine\n", ""), "{case}");
    }
}

#[test]
fn calls_of_a_handler_are_as_any() {
    fine("calls", "7411");
}

#[test]
fn a_handler_may_fork() {
    fine("forked", "7412");
}

#[test]
fn handlers_are_told_as_they_were_said() {
    fine("told", "7413");
}

/// In calls on sockets, and on what is the kernel's.
#[test]
fn threads_that_wait_are_cancelled() {
    fine("cancelled", "7414");
    fine("cancelled_in_kernel", "7415");
}
