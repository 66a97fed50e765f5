//! Fuzzes [`control::fuzzing::policy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::fuzzing::policy(bytes));
