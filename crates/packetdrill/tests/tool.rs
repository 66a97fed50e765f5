//! Our scripts with the public tool, where `PACKETDRILL` says where it is.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mtcp_packetdrill::tool::{Tool, Verdict, ours};
use pkt::{Dialect, scripts};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The scripts whose verdicts differ, as `docs/packetdrill.md` lists them with the reason.
fn known_differences() -> BTreeSet<String> {
    let docs = std::fs::read_to_string(root().join("docs/packetdrill.md")).unwrap();
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

fn name(script: &Path) -> String {
    let name = script.strip_prefix(root().join("tests/pkt")).unwrap();
    name.with_extension("").display().to_string()
}

#[test]
fn differences_are_of_scripts_that_exist() {
    for name in known_differences() {
        let script = root().join("tests/pkt").join(&name).with_extension("pkt");
        assert!(script.exists(), "docs/packetdrill.md: no script {name}");
    }
}

#[test]
fn the_tool_agrees_with_our_runner() {
    let Some(program) = std::env::var_os("PACKETDRILL") else {
        println!("skipped: PACKETDRILL does not say where the tool is");
        return;
    };
    let tool = Tool::new(program.into()).unwrap();
    let known = known_differences();
    let mut wrong = Vec::new();
    for script in scripts(&root().join("tests/pkt")).unwrap() {
        let (name, verdict) = (name(&script), tool.run(&script).unwrap());
        let agree =
            (verdict == Verdict::Passed) == (ours(&script, Dialect::default()) == Verdict::Passed);
        if agree == known.contains(&name) {
            wrong.push(format!("{name}: {verdict:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "not as docs/packetdrill.md says:\n{}",
        wrong.join("\n")
    );
}
