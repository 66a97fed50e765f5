//! `mtcp replay`: logs of HTTP traffic, made and measured.

mod files;
mod make;
mod stat;

use clap::{Args, Subcommand};

const FORMAT: &str = "A log has a line for each transaction, in the order of their beginnings: a JSON object, or a row of a CSV table whose
first row has the names of the columns in this order (chunks are separated by spaces there):
  connection      number of the connection that it was on
  client          IP address of who asked
  start_us        when the request began, microseconds since the log did
  end_us          when the last byte of the response was there
  method, url     like GET, http://HOST/PATH
  request_bytes   of the request's body
  response_bytes  of the response's body
  keep_alive      true or false: whether the connection was kept afterwards
  chunks          SHA-1 (40 digits) or BLAKE3 (64) of each 4096 bytes of the response's body

Examples:
  mtcp replay make --requests 100000 --seed 7 --out log.jsonl
  mtcp replay stat log.jsonl";

/// Makes logs of HTTP traffic and measures them.
#[derive(Args, Debug)]
#[command(after_help = FORMAT)]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a log to given statistics; the same seed makes the same log
    Make(make::MakeArgs),
    /// Say what a log is like
    Stat(stat::StatArgs),
}

impl ReplayArgs {
    /// Runs it; whether all of it went well.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        match &self.command {
            Command::Make(make) => make.run(),
            Command::Stat(stat) => stat.run(),
        }
    }
}
