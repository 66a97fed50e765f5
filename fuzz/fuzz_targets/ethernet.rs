//! Fuzzes [`wire::fuzzing::ethernet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::ethernet(bytes));
