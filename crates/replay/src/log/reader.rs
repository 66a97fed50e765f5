//! Reading a log, one line in memory at a time.

use std::io::{BufRead, ErrorKind, Read as _};

use crate::Transaction;

use super::{Format, LogError, json, table};

/// Longest line, bytes: a response of 1.5 GB in chunks. What is longer is no log.
const LINE_MAX: u64 = 16 << 20;

/// The transactions of a log, in the order of the file, which is that of their beginnings.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Option<Format>,
    line: u64,
    last_start_us: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, whose first line says which format it has.
    pub fn new(input: R) -> Self {
        Self {
            input,
            format: None,
            line: 0,
            last_start_us: 0,
            buffer: Vec::new(),
        }
    }

    /// Lines read so far.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next transaction; `None` at the end.
    ///
    /// # Errors
    /// The line is none, or it cannot be read. Nothing comes after it.
    pub fn next_transaction(&mut self) -> Result<Option<Transaction>, LogError> {
        while self.read_line()? {
            self.buffer.truncate(self.buffer.trim_ascii_end().len());
            if self.buffer.is_empty() {
                continue;
            }
            let format = match self.format {
                Some(format) => format,
                None => match self.find_format()? {
                    Format::Json => Format::Json,
                    Format::Csv => continue,
                },
            };
            return self.parse(format).map(Some);
        }
        Ok(None)
    }

    /// The format that the first line has: an object, or the names of columns.
    fn find_format(&mut self) -> Result<Format, LogError> {
        let first = self.buffer.trim_ascii_start().first();
        let format = if first == Some(&b'{') {
            Format::Json
        } else {
            let names = table::cells(&self.buffer).and_then(|names| table::check_names(&names));
            names.map_err(|cause| {
                LogError::new(
                    self.line,
                    format!("neither a JSON object nor the head of a table: {cause}"),
                    "see 'mtcp replay --help' for the format",
                )
            })?;
            Format::Csv
        };
        self.format = Some(format);
        Ok(format)
    }

    fn parse(&mut self, format: Format) -> Result<Transaction, LogError> {
        let line = self.line;
        let parsed = match format {
            Format::Json => json::parse(&self.buffer),
            Format::Csv => table::parse(&self.buffer),
        };
        let transaction = parsed.map_err(|cause| {
            LogError::new(line, cause, "see 'mtcp replay --help' for the format")
        })?;
        transaction
            .check()
            .map_err(|(cause, remedy)| LogError::new(line, cause, remedy))?;
        if transaction.start_us < self.last_start_us {
            return Err(LogError::new(
                line,
                format!(
                    "start_us {} is before that of the line above, {}",
                    transaction.start_us, self.last_start_us
                ),
                "sort the log by start_us",
            ));
        }
        self.last_start_us = transaction.start_us;
        Ok(transaction)
    }

    /// Whether there was one more line.
    fn read_line(&mut self) -> Result<bool, LogError> {
        self.buffer.clear();
        self.line += 1;
        let mut limited = (&mut self.input).take(LINE_MAX);
        match limited.read_until(b'\n', &mut self.buffer) {
            Ok(0) => {
                self.line -= 1;
                Ok(false)
            }
            Ok(_) if self.buffer.last() != Some(&b'\n') && self.buffer.len() as u64 == LINE_MAX => {
                Err(LogError::new(
                    self.line,
                    format!("longer than {} MiB", LINE_MAX >> 20),
                    "give a log, with a line for each transaction",
                ))
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::IsADirectory => Err(LogError::new(
                self.line,
                "it is a directory",
                "name a file with a log",
            )),
            Err(error) => Err(LogError::new(
                self.line,
                format!("cannot read on: {error}"),
                "see whether the file is whole",
            )),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Transaction, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_transaction().transpose()
    }
}
