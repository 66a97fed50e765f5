//! The `mtcp` command; see the library `tools` for what it is made of.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tools::run()
}
