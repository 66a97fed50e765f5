use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_packet(
        reply in any::<bool>(),
        sender_mac in any::<[u8; 6]>(),
        sender_ip in any::<Ipv4Addr>(),
        target_mac in any::<[u8; 6]>(),
        target_ip in any::<Ipv4Addr>(),
    ) {
        let operation = if reply { ArpOperation::Reply } else { ArpOperation::Request };
        let packet = ArpPacket {
            operation,
            sender_mac: MacAddr(sender_mac),
            sender_ip,
            target_mac: MacAddr(target_mac),
            target_ip,
        };
        let mut out = [0; 28];
        prop_assert_eq!(packet.emit(&mut out), packet.header_len());
        prop_assert_eq!(ArpPacket::parse(&out), Ok((packet, &[][..])));
    }
}

/// A request as RFC 826 lays it out, with the padding of a minimum-size frame.
const REQUEST: [u8; 46] = {
    let mut p = [0; 46];
    let head = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    let mut i = 0;
    while i < head.len() {
        p[i] = head[i];
        i += 1;
    }
    p
};

#[test]
fn a_padded_request_is_read() {
    let (packet, padding) = ArpPacket::parse(&REQUEST).unwrap();
    assert_eq!(packet.operation, ArpOperation::Request);
    assert_eq!(packet.sender_mac, MacAddr([2, 0, 0, 0, 0, 1]));
    assert_eq!(packet.sender_ip, Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(packet.target_ip, Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!(padding.len(), 18);
}

/// RFC 826 §0-3.
#[test]
fn other_hardware_protocols_lengths_and_operations_are_refused() {
    for (at, value, error) in [
        (1, 6, ParseError::Unsupported),
        (2, 0x86, ParseError::Unsupported),
        (4, 8, ParseError::BadLength),
        (5, 16, ParseError::BadLength),
        (7, 3, ParseError::Unsupported),
        (6, 1, ParseError::Unsupported),
    ] {
        let mut packet = REQUEST;
        packet[at] = value;
        assert_eq!(ArpPacket::parse(&packet), Err(error), "byte {at}");
    }
    assert_eq!(ArpPacket::parse(&REQUEST[..27]), Err(ParseError::Truncated));
}
