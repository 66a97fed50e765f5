//! C programs against the installed headers and library.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod examples;
mod headers;
mod library;
mod programs;
mod support;
