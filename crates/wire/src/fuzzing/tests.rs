use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Bytes that look more like packets than random ones: the first few are often those of a real
/// header.
fn packet_like() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        Just(vec![]),
        Just(vec![0x45]),
        Just(vec![0x60]),
        Just(vec![133]),
        Just(vec![134, 0]),
        Just(vec![135, 0]),
        Just(vec![136, 0]),
        Just(vec![137, 0]),
        Just(vec![3, 4]),
        Just(vec![0, 1, 8, 0, 6, 4, 0, 1]),
        Just(vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45]),
        Just(vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60]),
        Just(vec![
            2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 1, 8, 6
        ]),
    ];
    (head, proptest::collection::vec(any::<u8>(), 0..300))
        .prop_map(|(head, tail)| [head, tail].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_target_fails(bytes in packet_like()) {
        for (_, target) in TARGETS {
            target(&bytes);
        }
    }

    /// TCP segments whose data offset is possible, so that most of them reach the options.
    #[test]
    fn tcp_options_survive(mut bytes in proptest::collection::vec(any::<u8>(), 60..100), words in 5u8..=15) {
        bytes[12] = words << 4;
        tcp(&bytes);
    }

    /// IPv4 headers whose lengths are possible.
    #[test]
    fn ipv4_options_survive(mut bytes in proptest::collection::vec(any::<u8>(), 60..100), words in 5u8..=15) {
        bytes[0] = 0x40 | words;
        bytes[2..4].copy_from_slice(&100u16.to_be_bytes());
        bytes.resize(100, 0);
        ipv4(&bytes);
    }
}

#[test]
fn targets_are_found_by_name() {
    assert!(run("tcp", &[]));
    assert!(!run("nothing", &[]));
}

/// The committed corpus, so that what a fuzzer once found stays fixed.
#[test]
fn the_corpus_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let dir = root.join(name);
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let mut seeds = 0;
        for entry in entries {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "no seeds for {name}");
    }
}
