//! Logs out of captures: TCP streams are put together in both directions, and read as HTTP/1.1.

mod capture;
mod chunker;
mod conversation;
mod flow;
mod order;
mod report;
mod segment;
mod stream;

use std::io::BufRead;

pub use capture::CaptureError;
pub use report::Recorded;

use crate::{Digest, Transaction};

use capture::Capture;
use conversation::Shared;
use flow::Flows;
use order::Order;
use segment::{Without, segment};

/// A log out of a capture: its transactions in the order in which they began.
pub struct Recorder<R: BufRead> {
    capture: Capture<R>,
    flows: Flows,
    shared: Shared,
    /// When the first transaction began.
    first_us: Option<u64>,
    is_over: bool,
}

impl<R: BufRead> std::fmt::Debug for Recorder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let report = &self.shared.report;
        f.debug_struct("Recorder")
            .field("report", report)
            .finish_non_exhaustive()
    }
}

impl<R: BufRead> Recorder<R> {
    /// Reads a pcap or pcapng file; chunks are named by `digest`.
    ///
    /// # Errors
    /// It is none.
    pub fn open(input: R, digest: Digest) -> Result<Self, CaptureError> {
        Ok(Self {
            capture: Capture::open(input)?,
            flows: Flows::default(),
            shared: Shared {
                order: Order::default(),
                report: Recorded::default(),
                digest,
            },
            first_us: None,
            is_over: false,
        })
    }

    /// What there was so far.
    pub fn report(&self) -> Recorded {
        self.shared.report
    }

    /// The next transaction; `None` at the end of the capture.
    ///
    /// # Errors
    /// The file is no capture from here on.
    pub fn next_transaction(&mut self) -> Result<Option<Transaction>, CaptureError> {
        loop {
            if let Some(transaction) = self.shared.order.pop() {
                let transaction = self.count_from_start(transaction);
                if transaction.check().is_ok() {
                    self.shared.report.transactions += 1;
                    return Ok(Some(transaction));
                }
                self.shared.report.unfit += 1;
            } else if self.is_over {
                return Ok(None);
            } else {
                self.packet()?;
            }
        }
    }

    /// A log counts from its first transaction.
    fn count_from_start(&mut self, mut transaction: Transaction) -> Transaction {
        let first_us = *self.first_us.get_or_insert(transaction.start_us);
        transaction.start_us = transaction.start_us.saturating_sub(first_us);
        transaction.end_us = transaction.end_us.saturating_sub(first_us);
        transaction
    }

    fn packet(&mut self) -> Result<(), CaptureError> {
        let report = &mut self.shared.report;
        let Some(packet) = self.capture.next_packet()? else {
            report.file_is_cut = self.capture.is_cut;
            self.is_over = true;
            self.flows.finish(&mut self.shared);
            return Ok(());
        };
        report.packets += 1;
        match segment(&packet) {
            Ok(segment) => {
                report.segments += 1;
                let time_us = packet.time_us;
                self.flows.segment(&segment, time_us, &mut self.shared);
            }
            Err(Without::Other) => {}
            Err(Without::Cut) => report.cut += 1,
            Err(Without::Fragment) => report.fragments += 1,
            Err(Without::Damaged) => report.damaged += 1,
            Err(Without::UnknownLink) => report.unknown_link += 1,
        }
        Ok(())
    }
}

impl<R: BufRead> Iterator for Recorder<R> {
    type Item = Result<Transaction, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_transaction().transpose()
    }
}

#[cfg(test)]
mod tests;
