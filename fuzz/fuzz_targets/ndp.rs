//! Fuzzes [`wire::fuzzing::ndp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::ndp(bytes));
