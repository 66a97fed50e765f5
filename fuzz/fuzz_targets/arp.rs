//! Fuzzes [`wire::fuzzing::arp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::fuzzing::arp(bytes));
