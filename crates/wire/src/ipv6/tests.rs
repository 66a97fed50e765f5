use proptest::prelude::*;

use super::*;
use crate::icmpv6::ParameterProblemCode;

const DSTOPT: u8 = 60;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const TCP: u8 = 6;

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_header(
        (src, dst) in any::<(Ipv6Addr, Ipv6Addr)>(),
        (next_header, hop_limit, traffic_class) in any::<(u8, u8, u8)>(),
        flow_label in 0u32..1 << 20,
        payload in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let header = Ipv6Header {
            hop_limit, traffic_class, flow_label,
            ..Ipv6Header::new(src, dst, Protocol(next_header), payload.len())
        };
        let mut out = vec![0; 40];
        prop_assert_eq!(header.emit(&mut out), header.header_len());
        out.extend_from_slice(&payload);
        out.extend_from_slice(&[0xee; 3]);
        prop_assert_eq!(Ipv6Header::parse(&out), Ok((header, &payload[..])));
    }

    #[test]
    fn fragment_headers_round_trip(next in any::<u8>(), blocks in 0u16..8000, ident in any::<u32>(), data in 1usize..4) {
        let fragment = FragmentHeader { next_header: Protocol(next), offset: blocks * 8, more: blocks % 2 == 1, ident };
        let mut out = vec![0; 8 + data * 8];
        prop_assert_eq!(fragment.emit(&mut out), 8);
        if fragment.offset > 0 {
            let upper = upper_layer(Protocol::FRAGMENT, &out).unwrap();
            prop_assert_eq!(upper.fragment, Some(fragment));
            prop_assert_eq!((upper.protocol, upper.offset), (Protocol(next), 8));
        }
    }
}

#[test]
fn versions_and_lengths_are_checked() {
    let mut packet = vec![0; 48];
    Ipv6Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol::UDP, 8).emit(&mut packet);
    assert!(Ipv6Header::parse(&packet).is_ok());
    assert_eq!(Ipv6Header::parse(&packet[..39]), Err(ParseError::Truncated));
    assert_eq!(Ipv6Header::parse(&packet[..47]), Err(ParseError::Truncated));
    packet[0] = 0x45;
    assert_eq!(Ipv6Header::parse(&packet), Err(ParseError::BadVersion));
}

/// An options header of 8 bytes with 6 bytes of options.
fn options(next: u8, bytes: [u8; 6]) -> Vec<u8> {
    [&[next, 0][..], &bytes].concat()
}

fn padded(next: u8) -> Vec<u8> {
    options(next, [1, 4, 0, 0, 0, 0])
}

fn problem(code: ParameterProblemCode, pointer: u32) -> Result<Upper, ExtensionError> {
    Err(ExtensionError::ParameterProblem {
        code: code.0,
        pointer,
        even_if_multicast: false,
    })
}

#[test]
fn a_transport_needs_no_walk() {
    let upper = upper_layer(Protocol::TCP, &[0; 20]).unwrap();
    assert_eq!(
        (upper.protocol, upper.offset, upper.pointer),
        (Protocol::TCP, 0, 6)
    );
}

/// RFC 8200 §4-1.
#[test]
fn headers_are_walked_in_order() {
    let routing = [DSTOPT, 0, 4, 0, 0, 0, 0, 0];
    let payload = [&padded(ROUTING)[..], &routing, &padded(TCP), &[0; 20]].concat();
    let upper = upper_layer(Protocol::HOP_BY_HOP, &payload).unwrap();
    assert_eq!((upper.protocol, upper.offset), (Protocol::TCP, 24));
    assert_eq!(upper.pointer, 40 + 16);
    assert!(upper.routing && upper.fragment.is_none());
}

#[test]
fn no_next_header_and_unknown_ones_end_the_walk() {
    for next in [59, 253] {
        let upper = upper_layer(Protocol::DESTINATION_OPTIONS, &padded(next)).unwrap();
        assert_eq!(
            (upper.protocol, upper.offset, upper.pointer),
            (Protocol(next), 8, 40)
        );
    }
}

/// RFC 8200 §4: anywhere but first it counts as an unrecognized next header.
/// RFC 8200 §4.1-1.
#[test]
fn hop_by_hop_options_come_first() {
    let payload = [padded(0), padded(TCP)].concat();
    let refused = upper_layer(Protocol::DESTINATION_OPTIONS, &payload);
    assert_eq!(refused, problem(ParameterProblemCode::NEXT_HEADER, 40));
    let refused = upper_layer_reassembled(Protocol::HOP_BY_HOP, &payload);
    assert_eq!(refused, problem(ParameterProblemCode::NEXT_HEADER, 6));
}

/// RFC 8200 §4.2: what the two high bits of an unknown option say.
/// RFC 8200 §4.2-1.
#[test]
fn unknown_options_say_what_to_do() {
    let walk = |kind| {
        upper_layer(
            Protocol::DESTINATION_OPTIONS,
            &options(TCP, [0, kind, 3, 0, 0, 0]),
        )
    };
    assert_eq!(walk(0x1e).unwrap().protocol, Protocol::TCP);
    assert_eq!(walk(0x5e), Err(ExtensionError::Discard));
    for (kind, even_if_multicast) in [(0x9e, true), (0xde, false)] {
        let expected = ExtensionError::ParameterProblem {
            code: ParameterProblemCode::OPTION.0,
            pointer: 43,
            even_if_multicast,
        };
        assert_eq!(walk(kind), Err(expected));
    }
}

#[test]
fn options_must_end_with_their_header() {
    for (bytes, pointer) in [([1, 5, 0, 0, 0, 0], 42), ([0, 0, 0, 0, 0, 1], 47)] {
        let refused = upper_layer(Protocol::DESTINATION_OPTIONS, &options(TCP, bytes));
        assert_eq!(
            refused,
            problem(ParameterProblemCode::HEADER_FIELD, pointer)
        );
    }
}

/// RFC 8200 §4.4 and RFC 5095.
/// RFC 8200 §4.4-1.
#[test]
fn routing_headers_are_not_followed() {
    let walk = |kind, left| upper_layer(Protocol::ROUTING, &[TCP, 0, kind, left, 0, 0, 0, 0]);
    assert!(walk(4, 0).unwrap().routing);
    assert_eq!(walk(4, 1), problem(ParameterProblemCode::HEADER_FIELD, 42));
    assert_eq!(walk(0, 0), problem(ParameterProblemCode::HEADER_FIELD, 42));
}

fn fragment(next: u8, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let header = FragmentHeader {
        next_header: Protocol(next),
        offset,
        more,
        ident: 7,
    };
    let mut out = vec![0; 8];
    assert_eq!(header.emit(&mut out), 8);
    out.extend_from_slice(data);
    out
}

/// RFC 6946: a packet of its own, whatever else has the same identification.
#[test]
fn atomic_fragments_are_walked_through() {
    let payload = fragment(TCP, 0, false, &[0; 20]);
    let upper = upper_layer(Protocol::FRAGMENT, &payload).unwrap();
    assert_eq!(
        (upper.protocol, upper.offset, upper.fragment),
        (Protocol::TCP, 8, None)
    );
}

/// RFC 8200 §4.5-2.
#[test]
fn bad_fragments_are_reported() {
    let ragged = upper_layer(Protocol::FRAGMENT, &fragment(TCP, 8, true, &[0; 12]));
    assert_eq!(ragged, problem(ParameterProblemCode::HEADER_FIELD, 4));
    let beyond = upper_layer(Protocol::FRAGMENT, &fragment(TCP, 65_528, false, &[0; 8]));
    assert_eq!(beyond, problem(ParameterProblemCode::HEADER_FIELD, 42));
    let inside = upper_layer_reassembled(Protocol::FRAGMENT, &fragment(TCP, 8, false, &[0; 8]));
    assert_eq!(
        inside,
        Err(ExtensionError::Malformed(ParseError::Unsupported))
    );
}

/// RFC 7112 §5.
/// RFC 8200 §4.5-4.
#[test]
fn the_first_fragment_holds_the_whole_header_chain() {
    let walk = |next, data: &[u8]| upper_layer(Protocol::FRAGMENT, &fragment(next, 0, true, data));
    assert!(walk(TCP, &[0; 24]).unwrap().fragment.is_some());
    let incomplete = problem(ParameterProblemCode::INCOMPLETE_CHAIN, 0);
    assert_eq!(walk(TCP, &[0; 16]), incomplete);
    assert_eq!(walk(DSTOPT, &padded(TCP)), incomplete);
    assert_eq!(walk(DSTOPT, &[TCP, 9, 0, 0, 0, 0, 0, 0]), incomplete);
    let whole = [&padded(TCP)[..], &[0; 24]].concat();
    assert!(walk(DSTOPT, &whole).is_ok());
}

#[test]
fn the_walk_is_bounded() {
    let many = |count: usize| {
        let mut payload = padded(DSTOPT).repeat(count);
        payload[(count - 1) * 8] = TCP;
        upper_layer(Protocol::DESTINATION_OPTIONS, &payload).map(|upper| upper.offset)
    };
    assert_eq!(many(8), Ok(64));
    assert_eq!(
        many(9),
        Err(ExtensionError::Malformed(ParseError::TooComplex))
    );
    let long = [&[DSTOPT, 255][..], &vec![0; 2046], &padded(TCP)].concat();
    let refused = upper_layer(Protocol::DESTINATION_OPTIONS, &long);
    assert_eq!(
        refused,
        Err(ExtensionError::Malformed(ParseError::TooComplex))
    );
    for (first, bytes) in [
        (DSTOPT, &[TCP, 1, 0][..]),
        (FRAGMENT, &[TCP, 0, 0]),
        (ROUTING, &[]),
    ] {
        let cut = upper_layer(Protocol(first), bytes);
        assert_eq!(cut, Err(ExtensionError::Malformed(ParseError::Truncated)));
    }
}
