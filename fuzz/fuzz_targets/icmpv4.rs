//! Fuzzes [`wire::fuzzing::icmpv4`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::icmpv4(bytes));
