//! The `mtcp` command: a static web server, a load generator, a benchmark, a demonstration and a
//! doctor over the mTCP stack or, as the baseline of every comparison, over the kernel's.
//!
//! `serve` and `load` are written once against a small socket trait in epoll style; `--io` picks
//! who implements it.

#![forbid(unsafe_code)]
// They panic where nobody reads: `output` has what to use.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cli;
mod daemon;
mod demo;
mod directory;
mod doctor;
mod executor;
mod fail;
mod link;
mod listing;
mod load;
mod machine;
mod namespaces;
mod net;
mod output;
mod process;
mod programs;
mod replay;
mod run;
mod serve;
mod signals;
mod sockets;

/// Runs the command line of this process: 0 when all went well, 1 when something the command checks
/// failed, 2 when it could not start (bad flags, missing interface, missing privilege…), with one
/// line on stderr that says why and what to do.
pub fn run() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
