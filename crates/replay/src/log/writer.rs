//! Writing a log.

use std::io::{self, Write};

use crate::Transaction;

use super::{FIELDS, Format};

/// Writes transactions, one a line.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    format: Format,
    begun: bool,
}

impl<W: Write> Writer<W> {
    /// Writes to `output`, which should be buffered.
    pub fn new(output: W, format: Format) -> Self {
        Self {
            output,
            format,
            begun: false,
        }
    }

    /// Writes one.
    ///
    /// # Errors
    /// The output fails.
    pub fn write(&mut self, transaction: &Transaction) -> io::Result<()> {
        let begun = std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Json => object(&mut self.output, transaction),
            Format::Csv => {
                if !begun {
                    writeln!(self.output, "{}", FIELDS.join(","))?;
                }
                row(&mut self.output, transaction)
            }
        }
    }

    /// Flushes, and gives the output back.
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

fn object(out: &mut impl Write, transaction: &Transaction) -> io::Result<()> {
    let method = serde_json::to_string(&transaction.method)?;
    let url = serde_json::to_string(&transaction.url)?;
    write!(
        out,
        "{{\"connection\":{},\"client\":\"{}\",\"start_us\":{},\"end_us\":{},\"method\":{method},\"url\":{url},\
         \"request_bytes\":{},\"response_bytes\":{},\"keep_alive\":{},\"chunks\":[",
        transaction.connection,
        transaction.client,
        transaction.start_us,
        transaction.end_us,
        transaction.request_bytes,
        transaction.response_bytes,
        transaction.keep_alive,
    )?;
    for (index, chunk) in transaction.chunks.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}\"{chunk}\"")?;
    }
    out.write_all(b"]}\n")
}

fn row(out: &mut impl Write, transaction: &Transaction) -> io::Result<()> {
    write!(
        out,
        "{},{},{},{},{},{},{},{},{},",
        transaction.connection,
        transaction.client,
        transaction.start_us,
        transaction.end_us,
        quoted(&transaction.method),
        quoted(&transaction.url),
        transaction.request_bytes,
        transaction.response_bytes,
        transaction.keep_alive,
    )?;
    for (index, chunk) in transaction.chunks.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(out, "{space}{chunk}")?;
    }
    out.write_all(b"\n")
}

/// A cell, in quotation marks where its text needs them (RFC 4180 §2).
fn quoted(text: &str) -> String {
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
