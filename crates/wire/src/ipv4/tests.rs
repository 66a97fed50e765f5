use proptest::prelude::*;

use super::*;

const SRC: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 199);

/// A packet with these options and a right checksum.
fn packet(header: &Ipv4Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut out = vec![0; 20];
    let total_len = (header_len + payload.len()) as u16;
    assert_eq!(
        Ipv4Header {
            total_len,
            ..*header
        }
        .emit(&mut out),
        20
    );
    out.extend_from_slice(options);
    out[0] = 0x40 | (header_len / 4) as u8;
    out[10..12].fill(0);
    let sum = checksum::checksum(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn plain() -> Ipv4Header {
    Ipv4Header::new(SRC, DST, Protocol::TCP, 0)
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_header(
        (src, dst) in any::<(Ipv4Addr, Ipv4Addr)>(),
        (protocol, ttl, tos, ident) in any::<(u8, u8, u8, u16)>(),
        (dont_fragment, more_fragments) in any::<(bool, bool)>(),
        fragment_offset in (0u16..0x1f00).prop_map(|o| o * 8),
        blocks in 0usize..8,
    ) {
        let payload = vec![0x5a; blocks * 8];
        let header = Ipv4Header {
            ttl, tos, ident, dont_fragment, more_fragments, fragment_offset,
            ..Ipv4Header::new(src, dst, Protocol(protocol), payload.len())
        };
        let mut out = vec![0; 20];
        prop_assert_eq!(header.emit(&mut out), 20);
        out.extend_from_slice(&payload);
        // Link-layer padding is not payload.
        out.extend_from_slice(&[0xee; 6]);
        prop_assert_eq!(Ipv4Header::parse(&out), Ok((header, &payload[..])));
        let plain = PlainIpv4 { src, dst, protocol: Protocol(protocol), ecn: header.ecn(), payload: &payload };
        prop_assert_eq!(PlainIpv4::parse(&out), (!header.is_fragment()).then_some(plain));
    }

    #[test]
    fn what_is_plain_is_whole_and_right(
        options in prop::sample::select(vec![&[][..], &[OPTION_NOP, OPTION_NOP, OPTION_NOP, OPTION_END][..]]),
        (at, bits) in (0usize..32, 0u8..4),
        cut in 0usize..33,
    ) {
        let mut bytes = packet(&plain(), options, b"payload!");
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= bits;
        }
        bytes.truncate(cut);
        if let Some(plain) = PlainIpv4::parse(&bytes) {
            let (header, payload) = Ipv4Header::parse(&bytes).unwrap();
            prop_assert!(options.is_empty() && !header.is_fragment());
            prop_assert_eq!((header.src, header.dst, payload), (plain.src, plain.dst, plain.payload));
        }
    }
}

#[test]
fn lengths_and_versions_are_checked() {
    let good = packet(&plain(), &[], b"payload!");
    assert!(Ipv4Header::parse(&good).is_ok());
    assert_eq!(Ipv4Header::parse(&good[..19]), Err(ParseError::Truncated));
    assert_eq!(Ipv4Header::parse(&good[..27]), Err(ParseError::Truncated));
    for (at, value, error) in [
        (0, 0x65, ParseError::BadVersion),
        (0, 0x44, ParseError::BadLength),
        (0, 0x4f, ParseError::BadLength),
        (3, 19, ParseError::BadLength),
        (8, 63, ParseError::BadChecksum),
        (10, 0, ParseError::BadChecksum),
    ] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(
            Ipv4Header::parse(&bad),
            Err(error),
            "byte {at} = {value:#x}"
        );
    }
}

#[test]
fn options_are_skipped() {
    // Record route with room for one address, then NOP and end.
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 0, 9, 9, 9];
    let bytes = packet(&plain(), &options, b"x");
    let (header, payload) = Ipv4Header::parse(&bytes).unwrap();
    assert_eq!(header.header_len, 32);
    assert_eq!(header.payload_len(), 1);
    assert!(!header.source_route);
    assert_eq!(payload, b"x");
}

#[test]
fn source_routes_are_reported() {
    for kind in [131, 137] {
        let options = [1, kind, 7, 4, 10, 0, 0, 1];
        let bytes = packet(&plain(), &options, b"");
        assert!(Ipv4Header::parse(&bytes).unwrap().0.source_route);
    }
}

#[test]
fn option_lengths_are_checked() {
    for options in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
        let bytes = packet(&plain(), &options, b"");
        assert_eq!(Ipv4Header::parse(&bytes), Err(ParseError::BadLength));
    }
}

/// The ping of death: a last fragment that would make the whole longer than 65535 bytes.
#[test]
fn fragments_must_end_inside_the_largest_datagram() {
    let last = |offset, payload: &[u8]| {
        let header = Ipv4Header {
            fragment_offset: offset,
            dont_fragment: false,
            ..plain()
        };
        Ipv4Header::parse(&packet(&header, &[], payload)).map(|(header, _)| header.fragment_offset)
    };
    assert_eq!(last(65_512, &[0; 3]), Ok(65_512));
    assert_eq!(last(65_512, &[0; 4]), Err(ParseError::BadLength));
    assert_eq!(last(65_528, &[0; 8]), Err(ParseError::BadLength));
}

#[test]
fn middle_fragments_are_whole_blocks() {
    let header = Ipv4Header {
        more_fragments: true,
        dont_fragment: false,
        ..plain()
    };
    let whole = packet(&header, &[], &[0; 16]);
    assert!(Ipv4Header::parse(&whole).unwrap().0.is_fragment());
    let ragged = packet(&header, &[], &[0; 15]);
    assert_eq!(Ipv4Header::parse(&ragged), Err(ParseError::BadLength));
}

#[test]
fn a_payload_too_long_saturates() {
    let header = Ipv4Header::new(SRC, DST, Protocol::UDP, usize::MAX);
    assert_eq!(header.total_len, u16::MAX);
    assert_eq!(header.emit(&mut [0; 19]), 0);
}
