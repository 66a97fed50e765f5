//! `mtcp replay`: logs of HTTP traffic, made, recorded, measured and replayed.

mod answer;
mod client;
mod files;
mod make;
mod record;
mod server;
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
  mtcp replay record capture.pcap --out log.jsonl
  mtcp replay stat log.jsonl
  mtcp replay server log.jsonl --io shm:/tmp/link --addr 10.0.0.1/24
  mtcp replay client log.jsonl http://10.0.0.1/ --io shm:/tmp/link --addr 10.0.0.2/24 --copies 7";

/// Makes logs of HTTP traffic, also out of captures, measures and replays them.
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
    /// Make a log out of a capture
    Record(record::RecordArgs),
    /// Say what a log is like
    Stat(stat::StatArgs),
    /// Answer the requests of a log
    Server(Box<server::ServerArgs>),
    /// Send the requests of a log when it says, and compare every byte
    Client(Box<client::ClientArgs>),
}

impl ReplayArgs {
    /// Runs it; whether all of it went well.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        match &self.command {
            Command::Make(make) => make.run(),
            Command::Record(record) => record.run(),
            Command::Stat(stat) => stat.run(),
            Command::Server(server) => server.run(),
            Command::Client(client) => client.run(),
        }
    }
}
