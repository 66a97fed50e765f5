use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8];
    let header = UdpHeader::new(4000, 53, payload.len());
    assert_eq!(header.emit(&mut out), header.header_len());
    out.extend_from_slice(payload);
    out
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_header(
        (src_port, dst_port, checksum) in any::<(u16, u16, u16)>(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let header = UdpHeader { checksum, ..UdpHeader::new(src_port, dst_port, payload.len()) };
        let mut out = vec![0; 8];
        prop_assert_eq!(header.emit(&mut out), 8);
        out.extend_from_slice(&payload);
        out.push(0xee);
        prop_assert_eq!(UdpHeader::parse(&out), Ok((header, &payload[..])));
    }

    #[test]
    fn a_filled_checksum_verifies(payload in proptest::collection::vec(any::<u8>(), 0..64), v6 in any::<bool>()) {
        let addr = if v6 { V6 } else { V4 };
        let mut bytes = datagram(&payload);
        fill_checksum(addr, addr, &mut bytes);
        prop_assert_eq!(verify_checksum(addr, addr, &bytes), Ok(()));
        bytes[0] ^= 1;
        prop_assert_eq!(verify_checksum(addr, addr, &bytes), Err(ParseError::BadChecksum));
    }
}

/// RFC 768: none is 0 and a computed 0 is sent as all ones. RFC 8200 §8.1: none is illegal on IPv6.
#[test]
fn zero_means_none_on_ipv4_only() {
    let bytes = datagram(b"hello");
    assert_eq!(verify_checksum(V4, V4, &bytes), Ok(()));
    assert_eq!(
        verify_checksum(V6, V6, &bytes),
        Err(ParseError::BadChecksum)
    );

    // A payload word that makes the sum all ones, so that the checksum comes out as 0.
    let mut bytes = datagram(&[0, 0]);
    fill_checksum(V4, V4, &mut bytes);
    let sum = [bytes[6], bytes[7]];
    bytes[8..10].copy_from_slice(&sum);
    fill_checksum(V4, V4, &mut bytes);
    assert_eq!(bytes[6..8], [0xff, 0xff]);
    assert_eq!(verify_checksum(V4, V4, &bytes), Ok(()));
}

#[test]
fn lengths_are_checked() {
    let mut bytes = datagram(b"hello");
    assert_eq!(UdpHeader::parse(&bytes[..7]), Err(ParseError::Truncated));
    assert_eq!(UdpHeader::parse(&bytes[..12]), Err(ParseError::Truncated));
    bytes[5] = 7;
    assert_eq!(UdpHeader::parse(&bytes), Err(ParseError::BadLength));
    let mut short = [1; 7];
    fill_checksum(V4, V4, &mut short);
    assert_eq!(short, [1; 7]);
}
