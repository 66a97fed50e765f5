//! The library through its C interface, loaded as the tool loads it.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use mtcp_packetdrill::tool::Tool;

/// Compiles `driver.c` and runs it, with the library in front of libc or not.
fn drive(preload: bool) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver.c");
    let dir = tempfile::tempdir().unwrap();
    let driver = dir.path().join("driver");
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-D_GNU_SOURCE",
            "-pthread",
            "-o",
        ])
        .arg(&driver)
        .arg(&source)
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let tool = Tool::new(PathBuf::new()).unwrap();
    let mut command = Command::new("timeout");
    command.arg("60").arg(&driver).arg(tool.library());
    if preload {
        command.env("LD_PRELOAD", tool.library());
    }
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {said}", run.status);
    assert_eq!(run.stdout, b"ok\n");
}

#[test]
fn the_library_keeps_the_interface() {
    drive(false);
}

#[test]
fn assertions_read_the_stack() {
    drive(true);
}

#[test]
fn wrong_flags_end_the_tool_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("flags.c"), dir.path().join("flags"));
    std::fs::write(
        &source,
        "#include <dlfcn.h>\nint main(int n, char **v) { void *room[33]; void *so = dlopen(v[1], RTLD_NOW);\n\
         void (*init)(const char *, void *) = (void (*)(const char *, void *))dlsym(so, \"packetdrill_interface_init\");\n\
         init(v[2], room); return n > 3; }\n",
    )
    .unwrap();
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg("-ldl")
        .status();
    assert!(compiled.unwrap().success());
    let library = Tool::new(PathBuf::new()).unwrap().library().to_owned();
    let run = |flags: &str| {
        Command::new(&program)
            .arg(&library)
            .arg(flags)
            .output()
            .unwrap()
    };
    assert_eq!(run("").status.code(), Some(0));
    let wrong = run("10.0.0.1/8");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("LOCAL/PLEN"));
}
