//! `mtcp replay record`: a log out of a capture.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use replay::Digest;
use replay::log::Format;
use replay::record::{CaptureError, Recorded, Recorder};

use crate::fail::Failure;
use crate::output;
use crate::signals::Stop;

use super::files::{NewLog, Progress};
use super::make::FormatName;

/// How chunks are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HashName {
    /// As the paper has it
    Sha1,
    /// Faster, and stronger
    Blake3,
}

const EXAMPLES: &str = "Examples:
  tcpdump -i eth0 -s 0 -w capture.pcap tcp port 80
  mtcp replay record capture.pcap --out log.jsonl";

/// Makes a log of the HTTP/1.1 transactions in a capture, pcap or pcapng. On stderr it says what
/// the capture had, and what it lost.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Capture to read; - is standard input
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// File to write; its name ends in .csv for a table [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How to write it, whatever the name of the file
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// How to name chunks
    #[arg(long, value_enum, default_value_t = HashName::Sha1)]
    hash: HashName,
}

impl RecordArgs {
    /// Makes the log; whether all of the capture was read, and had transactions.
    pub(super) fn run(&self) -> anyhow::Result<bool> {
        let input: Box<dyn std::io::Read> = if self.capture.as_os_str() == "-" {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(&self.capture).map_err(|error| {
                Failure::error(
                    format!("cannot read '{}': {error}", self.capture.display()),
                    "name a capture, as 'tcpdump -s 0 -w FILE tcp port 80' writes it",
                )
            })?)
        };
        let digest = match self.hash {
            HashName::Sha1 => Digest::Sha1,
            HashName::Blake3 => Digest::Blake3,
        };
        let recorder = Recorder::open(BufReader::new(input), digest);
        let mut recorder = recorder.map_err(|error| self.failure(&error))?;
        let stop = Stop::watch(|| {})?;
        let mut log = NewLog::create(self.out.as_deref(), self.format.map(Format::from))?;
        let progress = Progress::new(None);
        let mut broken = None;
        loop {
            match recorder.next_transaction() {
                Ok(Some(transaction)) => log.write(&transaction)?,
                Ok(None) => break,
                Err(error) => {
                    broken = Some(self.failure(&error));
                    break;
                }
            }
            progress.show(recorder.report().transactions);
            if stop.requested() {
                break;
            }
        }
        drop(progress);
        log.finish()?;
        let report = recorder.report();
        tell(&report);
        match broken {
            Some(error) => Err(error),
            None => Ok(report.transactions > 0 && !stop.requested()),
        }
    }

    fn failure(&self, error: &CaptureError) -> anyhow::Error {
        let name = self.capture.display();
        let at = match error.packets {
            0 => format!("'{name}'"),
            packets => format!("'{name}', behind packet {packets}"),
        };
        Failure::error(
            format!("{at}: {}", error.cause),
            "name a capture, as 'tcpdump -s 0 -w FILE tcp port 80' writes it",
        )
    }
}

/// What there was, and what was lost, with what to do about it.
fn tell(report: &Recorded) {
    output::note(&format!(
        "mtcp replay record: {} transactions on {} connections, {} packets",
        report.transactions, report.connections, report.packets
    ));
    for (count, what) in [
        (
            report.beginless,
            "segments are of connections that began before the capture, or had ended",
        ),
        (report.not_http, "connections are not of HTTP/1"),
        (
            report.other_protocol,
            "connections went on to another protocol",
        ),
        (
            report.not_understood,
            "connections ended in what is not HTTP/1",
        ),
        (report.unfinished, "requests have no whole response"),
        (report.unfit, "transactions do not fit a log"),
        (
            report.unknown_link,
            "packets of an unknown link: capture on an Ethernet interface, or any",
        ),
    ] {
        if count > 0 {
            output::note(&format!("mtcp replay record: {count} {what}"));
        }
    }
    if !report.has_losses() {
        return;
    }
    output::note(&format!(
        "mtcp replay record: the capture lost {} bytes in {} places: {} transactions are left out, {} connections were not followed",
        report.lost_bytes, report.gaps, report.incomplete, report.not_followed
    ));
    for (count, what) in [
        (report.cut, "packets are cut: capture with -s 0"),
        (
            report.fragments,
            "packets are fragments, which are not put together",
        ),
        (report.damaged, "packets are damaged"),
    ] {
        if count > 0 {
            output::note(&format!("mtcp replay record: {count} {what}"));
        }
    }
    if report.file_is_cut {
        output::note("mtcp replay record: the file ends within a packet");
    }
}
