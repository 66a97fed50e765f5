//! A transaction as a row of a table (RFC 4180), one a line.

use csv::StringRecord;

use crate::Transaction;

use super::FIELDS;

/// Reads the cells of a line.
///
/// # Errors
/// Why it has none.
pub(super) fn cells(line: &[u8]) -> Result<StringRecord, String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(line.len().max(1))
        .from_reader(line);
    let mut record = StringRecord::new();
    reader
        .read_record(&mut record)
        .map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(record)
}

/// Whether these are the names of the columns.
///
/// # Errors
/// Which is wrong.
pub(super) fn check_names(names: &StringRecord) -> Result<(), String> {
    let found: Vec<&str> = names.iter().map(str::trim).collect();
    if found == FIELDS {
        return Ok(());
    }
    let first = FIELDS
        .iter()
        .enumerate()
        .find(|(at, name)| found.get(*at) != Some(*name));
    match first {
        Some((at, name)) => Err(format!("column {} is not '{name}'", at + 1)),
        None => Err(format!(
            "it has {} columns, not {}",
            found.len(),
            FIELDS.len()
        )),
    }
}

/// Reads a row.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(line: &[u8]) -> Result<Transaction, String> {
    let row = cells(line)?;
    if row.len() != FIELDS.len() {
        return Err(format!("{} cells in place of {}", row.len(), FIELDS.len()));
    }
    let cell = |at: usize| row.get(at).unwrap_or_default();
    let number = |at: usize| {
        let wrong = |_| {
            format!(
                "{} '{}' is no number",
                FIELDS[at],
                cell(at).escape_default()
            )
        };
        cell(at).parse::<u64>().map_err(wrong)
    };
    let client = cell(1).escape_default();
    let chunk = |text: &str| {
        let shown: String = text.chars().take(70).collect();
        let shown = shown.escape_default();
        let wrong = |_| format!("'{shown}' is no SHA-1 or BLAKE3 digest in hexadecimal");
        text.parse().map_err(wrong)
    };
    Ok(Transaction {
        connection: number(0)?,
        client: cell(1)
            .parse()
            .map_err(|_| format!("client '{client}' is no IP address"))?,
        start_us: number(2)?,
        end_us: number(3)?,
        method: cell(4).to_owned(),
        url: cell(5).to_owned(),
        request_bytes: number(6)?,
        response_bytes: number(7)?,
        keep_alive: match cell(8) {
            "true" => true,
            "false" => false,
            other => {
                let other = other.escape_default();
                return Err(format!("keep_alive '{other}' is neither true nor false"));
            }
        },
        chunks: cell(9)
            .split_ascii_whitespace()
            .map(chunk)
            .collect::<Result<_, _>>()?,
    })
}
