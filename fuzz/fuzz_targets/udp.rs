//! Fuzzes [`wire::fuzzing::udp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::udp(bytes));
