//! A stack against peers that no stack would be: without options, with tiny or shrinking windows,
//! silent, hostile. Whatever they do, memory is bounded, and given back when they are gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "scripted/fast_open.rs"]
mod fast_open;
#[path = "scripted/flood.rs"]
mod flood;
#[path = "scripted/odd.rs"]
mod odd;
#[path = "scripted/reset.rs"]
mod reset;
#[path = "scripted/syn_flood.rs"]
mod syn_flood;
#[path = "scripted/windows.rs"]
mod windows;
