//! Fuzzes [`wire::fuzzing::display`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::display(bytes));
