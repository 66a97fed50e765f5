use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn seq() -> impl Strategy<Value = SeqNumber> {
    any::<u32>().prop_map(SeqNumber)
}

fn sack_blocks() -> impl Strategy<Value = SackBlocks> {
    proptest::collection::vec((seq(), seq()), 0..=4).prop_map(|list| {
        let mut blocks = SackBlocks::EMPTY;
        for (left, right) in list {
            assert!(blocks.push(left, right));
        }
        blocks
    })
}

fn cookie() -> impl Strategy<Value = FastOpenCookie> {
    proptest::collection::vec(any::<u8>(), 0..=16)
        .prop_filter_map("no cookie of this length", |bytes| {
            FastOpenCookie::new(&bytes)
        })
}

fn ecn_bytes() -> impl Strategy<Value = EcnBytes> {
    any::<([u32; 3], bool, u8)>().prop_map(|([a, b, c], ect1_first, len)| {
        EcnBytes::new(a, b, c, ect1_first).truncated(len % 4)
    })
}

fn timestamps() -> impl Strategy<Value = Timestamps> {
    any::<(u32, u32)>().prop_map(|(tsval, tsecr)| Timestamps { tsval, tsecr })
}

prop_compose! {
    fn options()(
        mss in any::<Option<u16>>(),
        window_scale in any::<Option<u8>>(),
        sack_permitted in any::<bool>(),
        timestamps in proptest::option::of(timestamps()),
        sack in sack_blocks(),
        fast_open in proptest::option::of(cookie()),
        ecn_bytes in proptest::option::of(ecn_bytes()),
    ) -> TcpOptions {
        TcpOptions { mss, window_scale, sack_permitted, timestamps, sack, fast_open, ecn_bytes, malformed: false }
    }
}

prop_compose! {
    fn header()(
        (src_port, dst_port, window, urgent) in any::<(u16, u16, u16, u16)>(),
        (seq, ack) in (seq(), seq()),
        flags in (0u16..512).prop_map(TcpFlags::from_bits_truncate),
        options in options(),
    ) -> TcpHeader {
        TcpHeader { src_port, dst_port, seq, ack, flags, window, urgent, options }
    }
}

/// A segment with these option bytes, padded with END to a multiple of 4.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(options);
    bytes.resize(20 + options.len().next_multiple_of(4), 0);
    bytes[12] = ((bytes.len() / 4) as u8) << 4;
    bytes
}

fn parsed(options: &[u8]) -> TcpOptions {
    TcpHeader::parse(&with_options(options)).unwrap().0.options
}

proptest! {
    /// RFC 9293 MUST-69.
    #[test]
    fn emit_then_parse_gives_the_same_header(header in header(), payload in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = vec![0xee; header.header_len()];
        prop_assert!(bytes.len() <= TcpHeader::MAX_LEN && bytes.len() % 4 == 0);
        prop_assert_eq!(header.emit(&mut bytes), bytes.len());
        bytes.extend_from_slice(&payload);
        let (read, rest) = TcpHeader::parse(&bytes).unwrap();
        prop_assert_eq!(rest, &payload[..]);
        let mut expected = header;
        expected.options.sack.truncate(read.options.sack.len());
        // Counters that do not fit are left out, the last first.
        expected.options.ecn_bytes = header.options.ecn_bytes.and_then(|counters| {
            (0..4).map(|len| counters.truncated(len)).find(|short| Some(*short) == read.options.ecn_bytes)
        });
        prop_assert_eq!(read, expected);
        // A block is dropped only if it does not fit.
        if read.options.sack.len() < header.options.sack.len() {
            let without = TcpHeader { options: TcpOptions { ecn_bytes: None, ..header.options }, ..header };
            let used = without.header_len() + if read.options.sack.is_empty() { 4 } else { 0 };
            prop_assert!(used + 8 > TcpHeader::MAX_LEN);
        }
    }

    #[test]
    fn a_buffer_too_short_is_refused(header in header(), short in 1usize..60) {
        let len = header.header_len().saturating_sub(short);
        prop_assert_eq!(header.emit(&mut vec![0; len]), 0);
    }

    #[test]
    fn the_fast_path_agrees_with_the_walk(stamps in timestamps()) {
        let options = TcpOptions { timestamps: Some(stamps), ..TcpOptions::default() };
        let mut bytes = [0; 32];
        let header = TcpHeader { options, ..TcpHeader::default() };
        prop_assert_eq!(header.emit(&mut bytes), 32);
        prop_assert_eq!(&bytes[20..24], &[1, 1, 8, 10]);
        let fast = TcpOptions::parse(&bytes[20..]);
        let walked = TcpOptions::parse(&[&bytes[20..], &[1, 1, 1, 1]].concat());
        prop_assert_eq!(fast, options);
        prop_assert_eq!(walked, options);
    }

    #[test]
    fn the_usual_syn_agrees_with_the_walk(mss in any::<u16>(), stamps in timestamps(), scale in any::<u8>()) {
        let options = TcpOptions {
            mss: Some(mss),
            window_scale: Some(scale),
            sack_permitted: true,
            timestamps: Some(stamps),
            ..TcpOptions::default()
        };
        let mut bytes = [0; 40];
        let header = TcpHeader { options, ..TcpHeader::default() };
        prop_assert_eq!((header.header_len(), header.emit(&mut bytes)), (40, 40));
        let (first, rest) = bytes[20..].split_at(4);
        let (middle, last) = rest.split_at(12);
        let mss = [&[2, 4][..], &mss.to_be_bytes()].concat();
        let stamps = [&[4, 2, 8, 10][..], &stamps.tsval.to_be_bytes(), &stamps.tsecr.to_be_bytes()].concat();
        prop_assert_eq!((first, middle, last), (&mss[..], &stamps[..], &[1, 3, 3, scale][..]));
        prop_assert_eq!(parsed(&bytes[20..]), options);
        // As long, in another order: not at once.
        prop_assert_eq!(parsed(&[last, middle, first].concat()), options);
        prop_assert_eq!(parsed(&[middle, first, last].concat()), options);
    }

    #[test]
    fn any_option_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..=40)) {
        let count = RawOptions::new(&bytes).count();
        prop_assert!(count <= bytes.len());
        let _ = TcpOptions::parse(&bytes);
    }

    #[test]
    fn checksums_verify(header in header(), payload in proptest::collection::vec(any::<u8>(), 0..40)) {
        let addr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend_from_slice(&payload);
        fill_checksum(addr, addr, &mut bytes);
        prop_assert!(checksum::verify_transport(addr, addr, Protocol::TCP, &bytes));
        // What a link does with a partial checksum: it sums everything, the field included, and
        // writes the inverse.
        let complete = [bytes[16], bytes[17]];
        let len = bytes.len();
        fill_partial_checksum(addr, addr, &mut bytes, len);
        let finished = checksum::checksum(&bytes).to_be_bytes();
        prop_assert_eq!(finished, complete);
    }
}

/// A SYN as Linux sends it.
/// RFC 9293 MUST-64.
#[test]
fn a_syn_with_all_options() {
    let options = parsed(&[
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ]);
    let expected = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { tsval: 1, tsecr: 0 }),
        ..TcpOptions::default()
    };
    assert_eq!(options, expected);
}

#[test]
fn three_sack_blocks_fit_beside_timestamps() {
    let mut sack = SackBlocks::EMPTY;
    for n in 0..4 {
        assert!(sack.push(SeqNumber(n), SeqNumber(n + 1)));
    }
    assert!(!sack.push(SeqNumber(9), SeqNumber(10)));
    let mut options = TcpOptions {
        sack,
        ..TcpOptions::default()
    };
    assert_eq!(options.emitted_len(), 36);
    options.timestamps = Some(Timestamps::default());
    assert_eq!(options.emitted_len(), 40);
    let header = TcpHeader {
        options,
        ..TcpHeader::default()
    };
    let mut bytes = [0; 60];
    assert_eq!(header.emit(&mut bytes), 60);
    let read = TcpHeader::parse(&bytes).unwrap().0.options;
    assert_eq!(read.sack.as_slice(), &sack.as_slice()[..3]);
}

/// RFC 9293 MUST-7.
#[test]
fn an_impossible_option_length_ends_the_list() {
    for bad in [
        &[8, 0, 0, 0][..],
        &[8, 1, 0, 0],
        &[2, 3, 5, 0],
        &[8, 40, 0, 0],
        &[99, 5, 0, 0],
        &[5, 2, 0, 0],
        &[5, 6, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 8],
    ] {
        let options = parsed(&[&[3, 3, 9, 1][..], bad].concat());
        assert!(options.malformed, "{bad:?}");
        assert_eq!(options.window_scale, Some(9), "{bad:?}");
        assert_eq!(options.timestamps, None);
    }
}

/// RFC 9293 MUST-4, MUST-6, MUST-68.
#[test]
fn unknown_options_are_skipped_and_end_means_end() {
    let options = parsed(&[253, 6, 1, 2, 3, 4, 2, 4, 5, 180, 0, 3, 3, 7]);
    assert_eq!(options.mss, Some(1460));
    assert_eq!(options.window_scale, None);
    assert!(!options.malformed);
}

/// RFC 7413 §4.1.1.
/// RFC 7413 §4.1.1-1.
#[test]
fn fast_open_cookies_of_wrong_length_are_ignored() {
    let length = |len: usize| {
        let bytes = [&[34, 2 + len as u8][..], &vec![7; len]].concat();
        let options = parsed(&bytes);
        assert!(!options.malformed);
        options.fast_open.map(|cookie| cookie.as_bytes().len())
    };
    for good in [0, 4, 6, 8, 16] {
        assert_eq!(length(good), Some(good));
    }
    for bad in [2, 3, 5, 17, 18, 38] {
        assert_eq!(length(bad), None);
    }
    assert!(FastOpenCookie::REQUEST.is_request());
}

#[test]
fn data_offsets_are_checked() {
    let mut bytes = with_options(&[]);
    assert_eq!(TcpHeader::parse(&bytes[..19]), Err(ParseError::Truncated));
    bytes[12] = 4 << 4;
    assert_eq!(TcpHeader::parse(&bytes), Err(ParseError::BadLength));
    bytes[12] = 6 << 4;
    assert_eq!(TcpHeader::parse(&bytes), Err(ParseError::Truncated));
}

#[test]
fn syn_and_fin_take_a_sequence_number() {
    let header = |flags| TcpHeader {
        flags,
        ..TcpHeader::default()
    };
    assert_eq!(header(TcpFlags::SYN).segment_len(0), 1);
    assert_eq!(header(TcpFlags::FIN | TcpFlags::ACK).segment_len(10), 11);
    assert_eq!(header(TcpFlags::ACK).segment_len(10), 10);
}

#[test]
fn flags_print_as_in_tcpdump() {
    assert_eq!(TcpFlags::SYN.to_string(), "S");
    assert_eq!((TcpFlags::SYN | TcpFlags::ACK).to_string(), "S.");
    assert_eq!((TcpFlags::PSH | TcpFlags::ACK).to_string(), "P.");
    assert_eq!(TcpFlags::empty().to_string(), "none");
    assert_eq!(TcpFlags::all().to_string(), "FSRP.UEWe");
}

/// RFC 9768 §3.2.3, figures 3 and 4: the two orders.
#[test]
fn counters_of_accurate_ecn_in_both_orders() {
    let zero = parsed(&[172, 11, 0, 0, 1, 0, 1, 0, 1, 0, 0])
        .ecn_bytes
        .unwrap();
    assert_eq!(
        (zero.ect0(), zero.ce(), zero.ect1()),
        (Some(1), Some(256), Some(65_536))
    );
    let one = parsed(&[174, 11, 0, 0, 1, 0, 1, 0, 1, 0, 0])
        .ecn_bytes
        .unwrap();
    assert_eq!(
        (one.ect0(), one.ce(), one.ect1()),
        (Some(65_536), Some(256), Some(1))
    );
}

/// RFC 9768 §3.2.3-2.
#[test]
fn shortened_counters_of_accurate_ecn() {
    let two = parsed(&[172, 8, 0, 0, 7, 0, 0, 9]).ecn_bytes.unwrap();
    assert_eq!((two.ect0(), two.ce(), two.ect1()), (Some(7), Some(9), None));
    let one = parsed(&[174, 5, 0, 0, 7]).ecn_bytes.unwrap();
    assert_eq!((one.ect0(), one.ce(), one.ect1()), (None, None, Some(7)));
    assert_eq!(
        parsed(&[172, 2]).ecn_bytes,
        Some(EcnBytes::new(0, 0, 0, false).truncated(0))
    );
    // Half a counter is padding, and no reason to distrust the rest of the options.
    for (value, ect0) in [
        (&[172, 4, 0, 0][..], None),
        (&[172, 7, 0, 0, 7, 0, 0], Some(7)),
    ] {
        let odd = parsed(&[value, &[2, 4, 1, 2]].concat());
        let counters = odd.ecn_bytes.unwrap();
        assert_eq!((counters.ect0(), counters.ce()), (ect0, None));
        assert_eq!((odd.mss, odd.malformed), (Some(258), false));
    }
}

/// RFC 9768 §3.2.3.3-1.
#[test]
fn counters_of_accurate_ecn_make_way_for_sack() {
    let mut options = TcpOptions {
        timestamps: Some(Timestamps::default()),
        ecn_bytes: Some(EcnBytes::new(1, 2, 3, false)),
        ..TcpOptions::default()
    };
    let seen = |options: &TcpOptions| {
        let header = TcpHeader {
            options: *options,
            ..TcpHeader::default()
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        let options = TcpHeader::parse(&bytes).unwrap().0.options;
        (
            options.sack.len(),
            options.ecn_bytes.map(|counters| counters.ect1().is_some()),
        )
    };
    assert_eq!(seen(&options), (0, Some(true)));
    options.sack.push(SeqNumber(1), SeqNumber(2));
    assert_eq!(seen(&options), (1, Some(true)));
    options.sack.push(SeqNumber(3), SeqNumber(4));
    assert_eq!(seen(&options), (2, Some(false)));
    options.sack.push(SeqNumber(5), SeqNumber(6));
    assert_eq!(seen(&options), (3, None));
}
