//! Fuzzes [`sim::fuzzing::two_stacks`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sim::fuzzing::two_stacks(bytes));
