//! Checks that keep the design, the sum of all tests, and the build with a profile:
//! `cargo xtask <command>`.
#![forbid(unsafe_code)]

mod child;
mod compare;
mod deps;
mod elsewhere;
mod end;
mod guests;
mod instructions;
mod metadata;
mod pages;
mod pgo;
mod rfc;
mod security;
mod structure;
mod style;
mod suites;
mod supply;
mod toolchains;
mod words;
mod xdp;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask <command>

  deps     crate dependencies point the way DESIGN allows
  cycles   no circles of imports between modules of a crate
  methods  no type with too many methods, or methods in too many files
  words    words that the field does not know do not come back
  pages    pages name files that exist, and no paragraph is too long
  style    files under 600 lines, unsafe only where it may be, names of the house
  rfc      requirement -> code -> test, and what is missing [--missing] [--rfc N] [--write] [--check]
  security every attack in docs/security.md has a test that exists
  xdp      the committed XDP object matches its source (needs clang)
  check    all of the above
  instructions  a short transaction takes as many on the server as SPECIFICATION says (needs valgrind)
  elsewhere  what is built here runs on the oldest processor that it is for (needs qemu-user)
  supply   dependencies have the licences and sources that deny.toml allows, and no known holes (needs cargo-deny)
  toolchains  the minimum version of Rust and another processor compile everything (needs rustup)
  test     every test suite, summed up as `N passed, N failed`
  guests   every network card that the emulator has, driven in a virtual machine [GUESTS=newer: with a newer kernel, too; GUESTS=all: and the full sizes]
  compare  two builds of mtcp in turn: medians, their ratio, its bounds [BEFORE AFTER [--runs N] [--seconds S] [--link shm|afxdp]]
  pgo      builds what `make build` builds with a profile of what the stack does most (needs llvm-tools)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    match run(&command, &arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, arguments: &[String]) -> Result<()> {
    let root = workspace_root()?;
    match command {
        "deps" => deps::check(&root),
        "cycles" => structure::check_circles(&root),
        "methods" => structure::check_methods(&root),
        "pages" => pages::check(&root),
        "style" => style::check(&root),
        "words" => words::check(&root),
        "rfc" => rfc::run(&root, arguments),
        "security" => security::check(&root),
        "xdp" => xdp::check(&root),
        "check" => {
            deps::check(&root)?;
            style::check(&root)?;
            pages::check(&root)?;
            structure::check_circles(&root)?;
            structure::check_methods(&root)?;
            words::check(&root)?;
            security::check(&root)?;
            xdp::check(&root)
        }
        "instructions" => instructions::check(&root),
        "elsewhere" => elsewhere::check(&root),
        "supply" => supply::check(&root),
        "toolchains" => toolchains::check(&root),
        "guests" => guests::run(&root),
        "test" => suites::run(&root),
        "pgo" => pgo::run(&root),
        "compare" => compare::run(arguments),
        _ => bail!("unknown command '{command}'\n{USAGE}"),
    }
}

fn workspace_root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .context("xtask is not inside the workspace")
}
