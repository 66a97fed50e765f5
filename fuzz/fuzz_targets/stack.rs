//! Fuzzes [`sim::fuzzing::stack`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sim::fuzzing::stack(bytes));
