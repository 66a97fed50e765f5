use proptest::prelude::*;

use super::*;

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn tag() -> impl Strategy<Value = VlanTag> {
    (0u16..4096, 0u8..8, any::<bool>()).prop_map(|(id, pcp, dei)| VlanTag { id, pcp, dei })
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_header(
        dst in mac(),
        src in mac(),
        ether_type in (0x0600u16..).prop_filter("tags", |t| ![0x8100, 0x88a8].contains(t)),
        vlan in proptest::option::of(tag()),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let header = EthernetHeader { dst, src, ether_type: EtherType(ether_type), vlan };
        let mut frame = vec![0; header.header_len()];
        prop_assert_eq!(header.emit(&mut frame), frame.len());
        frame.extend_from_slice(&payload);
        prop_assert_eq!(EthernetHeader::parse(&frame), Ok((header, &payload[..])));
    }
}

const UNTAGGED: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];

#[test]
fn a_tag_is_decoded_bit_by_bit() {
    let mut frame = UNTAGGED[..12].to_vec();
    frame.extend_from_slice(&[0x81, 0x00, 0xb0, 0x05, 0x86, 0xdd, 9]);
    let (header, payload) = EthernetHeader::parse(&frame).unwrap();
    let tag = VlanTag {
        id: 5,
        pcp: 5,
        dei: true,
    };
    assert_eq!(header.vlan, Some(tag));
    assert_eq!(header.ether_type, EtherType::IPV6);
    assert_eq!(payload, [9]);
}

#[test]
fn double_tags_and_length_fields_are_unsupported() {
    let with_type = |ty: &[u8]| [&UNTAGGED[..12], ty].concat();
    for ty in [
        &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 1, 8, 0][..],
        &[0x81, 0, 0, 1, 0x81, 0, 0, 1, 8, 0],
        &[0x81, 0, 0, 1, 0x88, 0xa8, 0, 1, 8, 0],
        &[0x00, 0x26, 0x42, 0x42, 0x03],
    ] {
        let frame = with_type(ty);
        assert_eq!(EthernetHeader::parse(&frame), Err(ParseError::Unsupported));
    }
}

#[test]
fn short_frames_are_truncated_and_short_buffers_are_left_alone() {
    for len in 0..14 {
        assert_eq!(
            EthernetHeader::parse(&UNTAGGED[..len]),
            Err(ParseError::Truncated)
        );
    }
    let tagged_too_short = [&UNTAGGED[..12], &[0x81, 0, 0, 1, 8]].concat();
    assert_eq!(
        EthernetHeader::parse(&tagged_too_short),
        Err(ParseError::Truncated)
    );
    let (header, _) = EthernetHeader::parse(&UNTAGGED).unwrap();
    let mut out = [0; 13];
    assert_eq!(header.emit(&mut out), 0);
    assert_eq!(out, [0; 13]);
}

/// RFC 1112 §6.4: the low 23 bits of the group.
#[test]
fn multicast_addresses_map_to_macs() {
    let mac = ipv4_multicast_mac(Ipv4Addr::new(239, 129, 2, 3));
    assert_eq!(mac.to_string(), "01:00:5e:01:02:03");
    assert!(mac.is_multicast());
}
