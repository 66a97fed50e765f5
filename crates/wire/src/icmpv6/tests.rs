use proptest::prelude::*;

use super::*;

fn message<'a>(variant: u8, code: u8, word: u32, payload: &'a [u8]) -> Icmpv6Message<'a> {
    let echo = Echo {
        ident: (word >> 16) as u16,
        seq: word as u16,
        payload,
    };
    match variant {
        0 => Icmpv6Message::EchoRequest(echo),
        1 => Icmpv6Message::EchoReply(echo),
        2 => Icmpv6Message::DestinationUnreachable {
            code: UnreachableCode(code),
            quoted: payload,
        },
        3 => Icmpv6Message::PacketTooBig {
            mtu: word,
            quoted: payload,
        },
        4 => Icmpv6Message::TimeExceeded {
            code,
            quoted: payload,
        },
        5 => Icmpv6Message::ParameterProblem {
            code: ParameterProblemCode(code),
            pointer: word,
            quoted: payload,
        },
        _ => Icmpv6Message::Other {
            kind: 200,
            code,
            rest: word.to_be_bytes(),
            payload,
        },
    }
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_message(
        (src, dst) in any::<(Ipv6Addr, Ipv6Addr)>(),
        variant in 0u8..7,
        code in any::<u8>(),
        word in any::<u32>(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        bit in any::<proptest::sample::Index>(),
    ) {
        let message = message(variant, code, word, &payload);
        let mut out = vec![0xee; message.len()];
        prop_assert_eq!(message.emit(src, dst, &mut out), 8 + payload.len());
        prop_assert_eq!(Icmpv6Message::parse(src, dst, &out), Ok(message));
        let mut short = vec![0; message.len() - 1];
        prop_assert_eq!(message.emit(src, dst, &mut short), 0);
        let bit = bit.index(out.len() * 8);
        out[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Icmpv6Message::parse(src, dst, &out), Err(ParseError::BadChecksum));
    }
}

/// The pseudo-header is part of the checksum (RFC 4443 §2.3): a message delivered to the wrong
/// address is refused. RFC 8200 §8.1-1.
#[test]
fn addresses_are_covered() {
    let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let message = message(0, 0, 1, b"ping");
    let mut out = [0; 12];
    message.emit(a, a, &mut out);
    assert_eq!(
        Icmpv6Message::parse(a, b, &out),
        Err(ParseError::BadChecksum)
    );
    assert_eq!(
        Icmpv6Message::parse(a, a, &out[..7]),
        Err(ParseError::Truncated)
    );
}

#[test]
fn types_below_128_are_errors() {
    for (kind, is_error) in [
        (1, true),
        (4, true),
        (100, true),
        (127, true),
        (128, false),
        (200, false),
    ] {
        let bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            Icmpv6Message::parse_unverified(&bytes).unwrap().is_error(),
            is_error,
            "{kind}"
        );
    }
}
