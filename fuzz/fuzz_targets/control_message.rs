//! Fuzzes [`control::fuzzing::message`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::fuzzing::message(bytes));
