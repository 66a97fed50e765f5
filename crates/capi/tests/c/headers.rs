//! The headers in every dialect.

use std::io::Write;
use std::process::Command;

use crate::support::{compile, prefix, root, run, succeed};

fn compiles(compiler: &str, dialect: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(compiler);
    command
        .args(dialect)
        .args(["-Wall", "-Wextra", "-Werror", "-c", "-o"])
        .arg(dir.path().join("headers.o"));
    command
        .arg("-I")
        .arg(prefix().join("include"))
        .arg(root().join("tests/c/headers.c"));
    succeed(&mut command);
}

#[test]
fn c_without_warnings() {
    compiles("cc", &["-std=c11", "-pedantic"]);
    compiles("cc", &["-std=gnu89"]);
    compiles("cc", &["-std=gnu89", "-pedantic", "-Wstrict-prototypes"]);
    compiles("cc", &["-std=gnu11"]);
    compiles(
        "cc",
        &[
            "-std=c99",
            "-pedantic",
            "-Wconversion",
            "-Wno-sign-conversion",
        ],
    );
}

#[test]
fn cplusplus_without_warnings() {
    if Command::new("g++").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stdout(), "\nskipped: no g++"); // println! would be captured
        return;
    }
    for standard in ["-std=c++98", "-std=c++17", "-std=c++20"] {
        compiles("g++", &[standard, "-pedantic", "-x", "c++"]);
    }
}

/// Each header stands alone.
#[test]
fn each_alone() {
    let dir = tempfile::tempdir().unwrap();
    for header in ["mtcp_api.h", "mtcp_epoll.h"] {
        let source = dir.path().join("one.c");
        std::fs::write(
            &source,
            format!("#include <{header}>\nmctx_t it;\nuint16_t port = INPORT_ANY;\n"),
        )
        .unwrap();
        let mut command = Command::new("cc");
        command
            .args([
                "-std=c11",
                "-pedantic",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-c",
                "-o",
            ])
            .arg(dir.path().join("one.o"));
        command.arg("-I").arg(prefix().join("include")).arg(&source);
        succeed(&mut command);
    }
}

#[test]
fn values_and_layouts_hold() {
    let dir = tempfile::tempdir().unwrap();
    run(&mut Command::new(compile("tests/c/headers.c", dir.path())));
}

/// The C program of README compiles.
#[test]
fn the_program_of_readme() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap();
    let program = program.split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("readme.c");
    std::fs::write(&source, program).unwrap();
    let mut command = Command::new("cc");
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-c", "-o"])
        .arg(dir.path().join("readme.o"))
        .arg("-I")
        .arg(prefix().join("include"))
        .arg(source);
    succeed(&mut command);
}
