use std::io::BufReader;

use proptest::prelude::*;

use super::*;
use crate::Transaction;

fn written(transactions: &[Transaction], format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format);
    for transaction in transactions {
        writer.write(transaction).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Transaction>, LogError> {
    // A small buffer: lines are longer than it.
    Reader::new(BufReader::with_capacity(16, bytes)).collect()
}

fn error(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn both_formats_give_back_what_was_written() {
    let second = Transaction {
        connection: u64::MAX,
        client: "2001:db8::1".parse().unwrap(),
        start_us: 2_000_000,
        end_us: 2_000_000,
        method: "M-SEARCH".into(),
        url: "/".into(),
        request_bytes: 17,
        response_bytes: 0,
        keep_alive: false,
        chunks: Vec::new(),
    };
    let all = [example(), second];
    for format in [Format::Json, Format::Csv] {
        assert_eq!(read(&written(&all, format)).unwrap(), all);
        let text = String::from_utf8(written(&all, format)).unwrap();
        let windows = text.replace('\n', "\r\n") + "\r\n\r\n";
        assert_eq!(read(windows.as_bytes()).unwrap(), all);
    }
    assert_eq!(read(b"").unwrap(), []);
    assert_eq!(read(b"\n\n").unwrap(), []);
}

#[test]
fn a_wrong_line_is_named_with_its_cause_and_a_remedy() {
    let good = String::from_utf8(written(&[example()], Format::Json)).unwrap();
    let after = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        error(&format!("{good}{}", good.replace(from, to)))
    };
    for (from, to, says) in [
        (
            "1500000",
            "1400000",
            "start_us 1400000 is before that of the line above, 1500000",
        ),
        (
            "1500000",
            "1800000",
            "end_us 1750000 is before start_us 1800000",
        ),
        ("1750000", "99999999999999999", "more than a year"),
        ("\"GET\"", "\"G T\"", "method 'G T' is none"),
        ("\"GET\"", "\"\"", "method '' is none"),
        ("http:", "gopher:", "is no URL: write http://HOST/PATH"),
        ("?c", " HTTP/1.1\\r\\nX: y", "is no URL"),
        (
            "response_bytes\":5000",
            "response_bytes\":9000",
            "a response of 9000 bytes has 3 chunks of 4096 bytes, and 2 are named",
        ),
        (
            "response_bytes\":5000",
            "response_bytes\":-1",
            "invalid value: integer `-1`",
        ),
        ("\"request_bytes\":0,", "", "missing field `request_bytes`"),
        ("connection", "conection", "unknown field `conection`"),
        ("10.0.0.7", "10.0.0", "invalid IP address"),
        (
            "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
            "86f7",
            "'86f7' is no SHA-1 or BLAKE3 digest",
        ),
        ("]}", "]", "EOF while parsing an object at column"),
        ("]}", "]}{}", "trailing characters"),
    ] {
        let line = after(from, to);
        assert!(
            line.starts_with("line 2: ") && line.contains(says),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let long = "a".repeat(5000);
    assert!(after("?c", &long).contains("the URL has 50"));
}

#[test]
fn a_wrong_table_is_told_too() {
    let good = String::from_utf8(written(&[example()], Format::Csv)).unwrap();
    let line = error(&good.replace("start_us", "start"));
    assert!(
        line.contains(
            "line 1: neither a JSON object nor the head of a table: column 3 is not 'start_us'"
        ),
        "{line}"
    );
    let line = error("connection,client\n");
    assert!(line.contains("column 3 is not 'start_us'"), "{line}");
    let line = error(&good.replacen("chunks", "chunks,more", 1));
    assert!(line.contains("it has 11 columns, not 10"), "{line}");
    for (from, to, says) in [
        ("1500000", "soon", "start_us 'soon' is no number"),
        ("true", "yes", "keep_alive 'yes' is neither true nor false"),
        ("10.0.0.7", "x", "client 'x' is no IP address"),
        ("86f7e437", "g6f7e437", "is no SHA-1 or BLAKE3 digest"),
        ("10.0.0.7", "10.0.0.7,10.0.0.8", "11 cells in place of 10"),
        ("10.0.0.7", "\"10.0.0.7", "cells in place of 10"),
    ] {
        let line = error(&good.replace(from, to));
        assert!(
            line.starts_with("line 2: ") && line.contains(says),
            "{line}"
        );
    }
    let mut bytes = good.into_bytes();
    bytes.extend_from_slice(b"\xff\xfe\n");
    assert!(
        read(&bytes)
            .unwrap_err()
            .to_string()
            .contains("line 3: it is not UTF-8")
    );
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let endless = BufReader::new(std::io::repeat(b'{'));
    let error = Reader::new(endless).next_transaction().unwrap_err();
    assert!(error.cause.contains("longer than 16 MiB"), "{error}");
}

proptest! {
    #[test]
    fn whatever_a_file_has_is_a_transaction_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_broken_log_is_one_line_of_error(at in 0usize..400, byte in any::<u8>(), csv in any::<bool>()) {
        let format = if csv { Format::Csv } else { Format::Json };
        let mut bytes = written(&[example(), example()], format);
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Err(error) = read(&bytes) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
