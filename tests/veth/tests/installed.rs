//! What `make install` leaves: found wherever cargo builds, stripped, and in no need of the tree it
//! was built in.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::process::Finished;
use interop::{Gate, process, programs};

const WITHIN: Duration = Duration::from_secs(120);
const PREFIX: &str = "/opt/mtcp";
/// How cargo may be told where to build.
const VARIABLES: [&str; 2] = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"];

fn finish(command: Command) -> Finished {
    process::finish(command, WITHIN).must_succeed()
}

/// The directory of the program under test, and of the libraries beside it.
fn built() -> PathBuf {
    programs::mtcp().parent().unwrap().to_owned()
}

/// Installs what is built already, which `variable` tells `cargo` of; where it is installed.
fn install(scratch: &Path, variable: &str, cargo: &str) -> PathBuf {
    let target = scratch.join("built elsewhere");
    fs::create_dir(&target).unwrap();
    symlink(built(), target.join("release")).unwrap();
    let root = scratch.join("root");
    let mut make = Command::new("make");
    make.args(["-s", "install", "BUILD=", &format!("PREFIX={PREFIX}")])
        .arg(format!("DESTDIR={}", root.display()))
        .arg(format!("CARGO={cargo}"))
        .current_dir(programs::repository());
    for name in VARIABLES {
        make.env_remove(name);
    }
    make.env(variable, &target);
    finish(make);
    root.join(PREFIX.trim_start_matches('/'))
}

fn contains(file: &Path, text: &str) -> bool {
    let bytes = fs::read(file).unwrap();
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn it_is_found_wherever_cargo_builds_and_stripped() {
    programs::require(&["make", "readelf", "strip"]);
    for variable in VARIABLES {
        let scratch = tempfile::tempdir().unwrap();
        let installed = install(scratch.path(), variable, "cargo");
        for file in ["bin/mtcp", "lib/libmtcp.so.1.0.0", "lib/libmtcp_preload.so"] {
            let file = installed.join(file);
            let mut readelf = Command::new("readelf");
            readelf.arg("-SW").arg(&file);
            let sections = finish(readelf).stdout;
            assert!(sections.contains(".dynsym"), "{sections}");
            assert!(!sections.contains(".debug_line"), "{sections}");
            assert!(!sections.contains(".symtab"), "{sections}");
            let tree = programs::repository();
            let tree = tree.to_str().unwrap();
            assert!(
                !contains(&file, tree),
                "{} names {tree}, where it was built",
                file.display()
            );
        }
    }
}

/// As packagers do it whose build is another step: no cargo is asked for anything.
#[test]
fn what_is_built_is_installed_as_it_is() {
    programs::require(&["make", "strip"]);
    let scratch = tempfile::tempdir().unwrap();
    let installed = install(scratch.path(), "CARGO_TARGET_DIR", "true");
    assert!(
        installed.join("lib/pkgconfig/libmtcp.pc").exists() && installed.join("bin/mtcp").exists()
    );
}

#[test]
fn it_runs_where_the_tree_is_not() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let installed = install(scratch.path(), VARIABLES[0], "cargo");
    let script = "mount -t tmpfs none \"$1\"; mount -t tmpfs none \"$2\"; shift 2; exec \"$@\"";
    let mut run = Command::new("unshare");
    run.args(["--mount", "sh", "-ec", script, "sh"])
        .arg(built())
        .arg(programs::repository())
        .arg(installed.join("bin/mtcp"))
        .args([
            "run",
            "--io",
            "loop:installed",
            "--addr",
            "10.0.0.1/24",
            "--",
            "echo",
            "it runs",
        ])
        .current_dir(scratch.path());
    assert_eq!(finish(run).stdout, "it runs\n");
}
