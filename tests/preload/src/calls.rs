//! The program that makes every call (`calls/*.c`), and what it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use interop::process::Finished;
use interop::programs;

use crate::site::succeed;

/// Compiles it. Checked variants of calls (`_FORTIFY_SOURCE`) are calls too.
pub fn compile(into: &str) -> PathBuf {
    programs::require(&["cc"]);
    let program = Path::new(into).join("calls");
    let sources = programs::repository().join("tests/preload/calls");
    let mut cc = Command::new("sh");
    cc.args([
        "-ec",
        "mkdir -p \"${1%/*}\"; cc -O2 -D_FORTIFY_SOURCE=2 -Wall -Wextra -Werror -pthread -o \"$1\" \"$2\"/*.c",
        "sh",
    ]);
    cc.arg(&program).arg(sources);
    succeed(cc);
    program
}

/// The lines of a run, and how it ended if not well.
pub fn lines(finished: &Finished) -> Vec<String> {
    let mut lines: Vec<_> = finished.stdout.lines().map(str::to_owned).collect();
    if !finished.status.success() {
        let Finished { status, stderr, .. } = finished;
        lines.push(format!("ended with {status}: {stderr}"));
    }
    lines
}

/// Lines that are not the same, each beside its counterpart. The kernel's are whole.
pub fn differences<'a>(
    kernel: &'a [String],
    ours: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    let end = kernel.last().map(String::as_str);
    assert_eq!(end, Some("done"), "{kernel:#?}");
    let longest = kernel.len().max(ours.len());
    let line = |lines: &'a [String], at: usize| lines.get(at).map_or("nothing", String::as_str);
    (0..longest)
        .map(move |at| (line(kernel, at), line(ours, at)))
        .filter(|(kernel, ours)| kernel != ours)
        .map(|(kernel, ours)| format!("kernel: {kernel}\n      ours: {ours}"))
}
