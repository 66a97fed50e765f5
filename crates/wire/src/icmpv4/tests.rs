use proptest::prelude::*;

use super::*;

fn message<'a>(variant: u8, code: u8, word: u32, payload: &'a [u8]) -> Icmpv4Message<'a> {
    let [a, b, c, d] = word.to_be_bytes();
    let echo = Echo {
        ident: u16::from_be_bytes([a, b]),
        seq: u16::from_be_bytes([c, d]),
        payload,
    };
    match variant {
        0 => Icmpv4Message::EchoRequest(echo),
        1 => Icmpv4Message::EchoReply(echo),
        2 => Icmpv4Message::DestinationUnreachable {
            code: UnreachableCode(code),
            next_hop_mtu: word as u16,
            quoted: payload,
        },
        3 => Icmpv4Message::TimeExceeded {
            code,
            quoted: payload,
        },
        4 => Icmpv4Message::ParameterProblem {
            code,
            pointer: a,
            quoted: payload,
        },
        5 => Icmpv4Message::Redirect {
            code,
            gateway: Ipv4Addr::from(word),
            quoted: payload,
        },
        _ => Icmpv4Message::Other {
            kind: 13,
            code,
            rest: [a, b, c, d],
            payload,
        },
    }
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_message(
        variant in 0u8..7,
        code in any::<u8>(),
        word in any::<u32>(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        bit in any::<proptest::sample::Index>(),
    ) {
        let message = message(variant, code, word, &payload);
        let mut out = vec![0xee; message.len()];
        prop_assert_eq!(message.emit(&mut out), 8 + payload.len());
        prop_assert_eq!(Icmpv4Message::parse(&out), Ok(message));
        let mut short = vec![0; message.len() - 1];
        prop_assert_eq!(message.emit(&mut short), 0);
        let bit = bit.index(out.len() * 8);
        out[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Icmpv4Message::parse(&out), Err(ParseError::BadChecksum));
    }
}

/// A ping of iputils with its first bytes of data.
#[test]
fn a_known_echo_request() {
    let bytes = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
    let echo = Echo {
        ident: 1,
        seq: 1,
        payload: &[],
    };
    assert_eq!(
        Icmpv4Message::parse(&bytes),
        Ok(Icmpv4Message::EchoRequest(echo))
    );
    assert_eq!(
        Icmpv4Message::parse(&bytes[..7]),
        Err(ParseError::Truncated)
    );
}

/// RFC 1191 §4: the MTU is in the low half of the second word.
#[test]
fn fragmentation_needed_has_an_mtu() {
    let bytes = [3, 4, 0, 0, 0, 0, 5, 0x78, 0x45];
    let message = Icmpv4Message::parse_unverified(&bytes).unwrap();
    let expected = Icmpv4Message::DestinationUnreachable {
        code: UnreachableCode::FRAGMENTATION_NEEDED,
        next_hop_mtu: 1400,
        quoted: &[0x45],
    };
    assert_eq!(message, expected);
}

/// RFC 1122 §3.2.2.
#[test]
fn errors_are_told_from_queries() {
    for (variant, is_error) in [
        (0, false),
        (1, false),
        (2, true),
        (3, true),
        (4, true),
        (5, true),
        (6, false),
    ] {
        assert_eq!(message(variant, 0, 0, &[]).is_error(), is_error);
    }
}
