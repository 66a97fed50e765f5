//! Fuzzes [`wire::fuzzing::ipv4`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::ipv4(bytes));
