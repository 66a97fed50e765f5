//! Fuzzes [`ring::fuzzing::hostile_program`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ring::fuzzing::hostile_program(bytes));
