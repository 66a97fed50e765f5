//! Fuzzes [`wire::fuzzing::tcp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::tcp(bytes));
