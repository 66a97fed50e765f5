use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::tcp::TcpHeader;

const SRC4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn tcp_segment() -> Vec<u8> {
    let header = TcpHeader {
        src_port: 4000,
        dst_port: 80,
        seq: SeqNumber(0xdead_beef),
        ..TcpHeader::default()
    };
    let mut out = vec![0; 20];
    header.emit(&mut out);
    out
}

fn expected(src: IpAddr, dst: IpAddr, total_len: u32) -> QuotedPacket {
    QuotedPacket {
        src,
        dst,
        protocol: Protocol::TCP,
        total_len,
        transport: QuotedTransport::Tcp(QuotedTcp {
            src: SocketAddr::new(src, 4000),
            dst: SocketAddr::new(dst, 80),
            seq: SeqNumber(0xdead_beef),
        }),
    }
}

fn v4(payload_len: usize) -> Vec<u8> {
    let mut out = vec![0; 20];
    Ipv4Header::new(SRC4, DST4, Protocol::TCP, payload_len).emit(&mut out);
    out
}

fn v6(next: Protocol, payload_len: usize) -> Vec<u8> {
    let mut out = vec![0; 40];
    Ipv6Header::new(SRC6, DST6, next, payload_len).emit(&mut out);
    out
}

/// RFC 792: the header and 8 bytes. The total length is that of the whole packet, of which most is
/// missing.
#[test]
fn eight_bytes_of_tcp_are_enough() {
    let segment = tcp_segment();
    let expected4 = expected(SRC4.into(), DST4.into(), 1500);
    let whole = [v4(1480), segment.clone()].concat();
    assert_eq!(parse_v4(&whole), Ok(expected4));
    assert_eq!(parse_v4(&whole[..28]), Ok(expected4));
    let cut = parse_v4(&whole[..27]).unwrap();
    assert_eq!(cut.transport, QuotedTransport::Other);
    assert_eq!(parse_v4(&whole[..19]), Err(ParseError::Truncated));

    let whole = [v6(Protocol::TCP, 1460), segment].concat();
    assert_eq!(
        parse_v6(&whole[..48]),
        Ok(expected(SRC6.into(), DST6.into(), 1500))
    );
    assert_eq!(parse_v6(&whole[..39]), Err(ParseError::Truncated));
}

#[test]
fn options_and_changed_headers_are_tolerated() {
    // Header length 24 and a TTL and checksum that a router left behind.
    let mut packet = [v4(30), vec![1, 1, 1, 0], tcp_segment()].concat();
    packet[0] = 0x46;
    packet[8] = 1;
    assert_eq!(
        parse_v4(&packet),
        Ok(expected(SRC4.into(), DST4.into(), 50))
    );
    packet[0] = 0x44;
    assert_eq!(parse_v4(&packet), Err(ParseError::BadLength));
    packet[0] = 0x66;
    assert_eq!(parse_v4(&packet), Err(ParseError::BadVersion));
}

#[test]
fn later_fragments_have_no_transport() {
    let mut packet = [v4(1480), tcp_segment()].concat();
    packet[7] = 1;
    assert_eq!(parse_v4(&packet).unwrap().transport, QuotedTransport::Other);
    let later = [44u8, 0, 1, 0, 0, 0, 0, 0];
    let payload = [6, 0, later[2], 8, 0, 0, 0, 9];
    let packet = [v6(Protocol::FRAGMENT, 100), payload.to_vec(), tcp_segment()].concat();
    assert_eq!(parse_v6(&packet).unwrap().transport, QuotedTransport::Other);
}

#[test]
fn extension_headers_are_walked_through() {
    let options = [44, 0, 1, 4, 0, 0, 0, 0];
    let first_fragment = [6, 0, 0, 1, 0, 0, 0, 9];
    let packet = [
        v6(Protocol::DESTINATION_OPTIONS, 1000),
        options.to_vec(),
        first_fragment.to_vec(),
        tcp_segment(),
    ]
    .concat();
    let read = parse_v6(&packet[..40 + 16 + 8]);
    assert_eq!(read, Ok(expected(SRC6.into(), DST6.into(), 1040)));
}

#[test]
fn other_transports() {
    let mut packet = [v4(8), vec![0, 53, 0, 80, 0, 8, 0, 0]].concat();
    packet[9] = 17;
    let udp = QuotedTransport::Udp {
        src: SocketAddr::new(SRC4.into(), 53),
        dst: SocketAddr::new(DST4.into(), 80),
    };
    assert_eq!(parse_v4(&packet).unwrap().transport, udp);
    packet[9] = 1;
    let icmp = QuotedTransport::Icmp {
        kind: 0,
        code: 53,
        ident: 8,
        seq: 0,
    };
    assert_eq!(parse_v4(&packet).unwrap().transport, icmp);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_v4(&bytes);
        let _ = parse_v6(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = 0x60;
        }
        let _ = parse_v6(&bytes);
    }
}
