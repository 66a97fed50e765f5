//! Every call in every mode, on mTCP and on the kernel: the same values, errors and events.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Process, Site, process};
use interop::process::PROMPT;
use interop::programs;

/// The program, compiled once. Checked variants of calls (`_FORTIFY_SOURCE`) are calls too.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls");
        let sources = programs::repository().join("tests/preload/calls");
        let mut cc = Command::new("sh");
        cc.args([
            "-ec",
            "cc -O2 -D_FORTIFY_SOURCE=2 -Wall -Wextra -Werror -pthread -o \"$1\" \"$2\"/*.c",
            "sh",
        ]);
        cc.arg(&program).arg(sources);
        succeed(cc);
        program
    })
}

/// What a group prints, run at this address of ours.
fn run(
    site: &Site,
    (group, skipped): (&str, &[&str]),
    family: Family,
    ours: IpAddr,
    mut command: Command,
) -> Vec<String> {
    let socket = site.file(&format!("{group}-{ours}"));
    let mut peer = site.peer(&spell(program()));
    peer.arg("peer").arg(&socket);
    peer.args([family.peer().to_string(), ours.to_string()]);
    let mut peer = Process::start(peer);
    peer.wait_for("ready", PROMPT);
    command.arg("run").arg(&socket);
    command.args([
        ours.to_string(),
        family.peer().to_string(),
        group.to_owned(),
    ]);
    command.args(skipped);
    let finished = process::finish(command, WITHIN);
    let mut lines: Vec<_> = finished.stdout.lines().map(str::to_owned).collect();
    if !finished.status.success() {
        lines.push(format!(
            "ended with {}: {}",
            finished.status, finished.stderr
        ));
    }
    lines
}

/// `different`: cases that docs/applications.md lists as not the same.
fn compare(group: &str, different: &[&str]) {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut differences = Vec::new();
    for family in Family::BOTH {
        let plain = site.lab().ours().command(program());
        let kernel = run(&site, (group, different), family, family.kernel(), plain);
        let end = kernel.last().map(String::as_str);
        assert_eq!(end, Some("done"), "{kernel:#?}");
        let ours = site.ours(&spell(program()));
        let ours = run(&site, (group, different), family, family.ours(), ours);
        differences.extend(difference(&kernel, &ours).map(|text| format!("{family:?}: {text}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Lines that are not the same, each beside its counterpart.
fn difference<'a>(kernel: &'a [String], ours: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let longest = kernel.len().max(ours.len());
    let line = |lines: &'a [String], at: usize| lines.get(at).map_or("nothing", String::as_str);
    (0..longest)
        .map(move |at| (line(kernel, at), line(ours, at)))
        .filter(|(kernel, ours)| kernel != ours)
        .map(|(kernel, ours)| format!("kernel: {kernel}\n      ours: {ours}"))
}

macro_rules! groups {
    ($($name:ident but $different:expr;)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name), &$different);
        })*
    };
}

groups! {
    connecting but [];
    accepting but [];
    data but [];
    messages but [];
    closing but [];
    descriptors but [];
    processes but [];
    waiting but [];
    epolling but [];
    options but [];
    effects but [];
    threads but [];
    rings but [];
    urgent but [];
}
