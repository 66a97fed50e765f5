//! Fuzzes [`wire::fuzzing::icmpv6`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::icmpv6(bytes));
