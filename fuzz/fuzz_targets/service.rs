//! Fuzzes [`mtcp::service::fuzzing::service`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mtcp::service::fuzzing::service(bytes));
