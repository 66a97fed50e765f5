//! C programs against the installed headers and library.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod events;
mod examples;
mod exits;
mod headers;
mod library;
mod original;
mod programs;
mod support;
