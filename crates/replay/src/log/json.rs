//! A transaction as a JSON object.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Chunk, Transaction};

/// An object, as serde reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    connection: u64,
    client: IpAddr,
    start_us: u64,
    end_us: u64,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    request_bytes: u64,
    response_bytes: u64,
    keep_alive: bool,
    chunks: Chunks,
}

struct Chunks(Vec<Chunk>);

impl<'de> Deserialize<'de> for Chunks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Chunks;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of digests")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Chunks, A::Error> {
                let mut chunks = Vec::new();
                while let Some(text) = list.next_element::<Cow<'de, str>>()? {
                    let chunk = text.parse().map_err(|_| {
                        A::Error::custom(format_args!(
                            "'{}' is no SHA-1 or BLAKE3 digest in hexadecimal",
                            text.chars().take(70).collect::<String>().escape_default()
                        ))
                    })?;
                    chunks.push(chunk);
                }
                Ok(Chunks(chunks))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Reads a line.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(line: &[u8]) -> Result<Transaction, String> {
    let read: Line<'_> = serde_json::from_slice(line).map_err(|error| {
        // It says "at line 1 column N" of the one line that it was given.
        let text = error.to_string();
        text.replace("at line 1 column", "at column")
    })?;
    Ok(Transaction {
        connection: read.connection,
        client: read.client,
        start_us: read.start_us,
        end_us: read.end_us,
        method: read.method.into_owned(),
        url: read.url.into_owned(),
        request_bytes: read.request_bytes,
        response_bytes: read.response_bytes,
        keep_alive: read.keep_alive,
        chunks: read.chunks.0,
    })
}
