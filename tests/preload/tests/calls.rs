//! Every call in every mode, on mTCP and on the kernel: the same values, errors and events.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use applications::site::{WITHIN, spell};
use applications::{Family, Process, Site, calls, process};
use interop::process::PROMPT;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| calls::compile(env!("CARGO_TARGET_TMPDIR")))
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
    calls::lines(&process::finish(command, WITHIN))
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
        let ours = site.ours(&spell(program()));
        let ours = run(&site, (group, different), family, family.ours(), ours);
        differences
            .extend(calls::differences(&kernel, &ours).map(|text| format!("{family:?}: {text}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
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
    jumping but [];
}
