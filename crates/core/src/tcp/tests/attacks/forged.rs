//! Segments that nobody honest sends: from ourselves, from groups, with flags that contradict each
//! other; and forged ICMP errors.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wire::tcp::{TcpFlags, TcpHeader};

use crate::command::{Command, Options};
use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, compose, mac, seg};

/// A SYN for the listener from any address and port.
fn syn_from(h: &Harness, src: SocketAddr) -> Vec<u8> {
    let header = TcpHeader {
        src_port: src.port(),
        dst_port: h.local().port(),
        flags: TcpFlags::SYN,
        window: 1000,
        ..TcpHeader::default()
    };
    compose(mac(2), mac(1), src.ip(), h.local().ip(), &header, &[])
}

fn listening() -> Harness {
    let mut h = Harness::new();
    h.listen(16, Options::default());
    h
}

/// The land attack (CVE-1999-0016), and sources that are no hosts: no record, no answer.
/// RFC 9293 MUST-63.
#[test]
fn sources_that_cannot_be() {
    let mut h = listening();
    let local = h.local();
    for src in [
        local,
        SocketAddr::new(local.ip(), 1234),
        "224.0.0.1:80".parse().unwrap(),
        "255.255.255.255:80".parse().unwrap(),
        // The broadcast address of our network, and the network itself.
        "10.0.0.255:80".parse().unwrap(),
        "127.0.0.1:80".parse().unwrap(),
        "0.0.0.0:80".parse().unwrap(),
        "240.0.0.1:80".parse().unwrap(),
    ] {
        let frame = syn_from(&h, src);
        h.inject_raw(&frame);
        h.transmit();
        h.expect_nothing();
        assert_eq!(h.stack.usage().half_open, 0, "{src}");
    }
    assert_eq!(h.stack.counters().dropped(DropReason::IpMartian), 8);
}

#[test]
fn sources_that_cannot_be_in_ipv6() {
    let mut h = Harness::new().over_ipv6();
    h.listen(16, Options::default());
    let local = h.local();
    for src in [
        local,
        "[ff02::1]:80".parse().unwrap(),
        "[::1]:80".parse().unwrap(),
    ] {
        let frame = syn_from(&h, src);
        h.inject_raw(&frame);
        h.transmit();
        h.expect_nothing();
    }
    assert_eq!(h.stack.usage().half_open, 0);
}

/// SYNs to groups and broadcast addresses open nothing (RFC 9293 §3.9.2.3 MUST-57).
#[test]
fn destinations_that_are_no_host() {
    let mut h = listening();
    for dst in ["10.0.0.255", "255.255.255.255", "224.0.0.1"] {
        let dst: IpAddr = dst.parse().unwrap();
        let header = TcpHeader {
            src_port: 4000,
            dst_port: h.local().port(),
            flags: TcpFlags::SYN,
            ..TcpHeader::default()
        };
        for frame_dst in [mac(1), wire::frame::MacAddr::BROADCAST] {
            let frame = compose(mac(2), frame_dst, h.peer().ip(), dst, &header, &[]);
            h.inject_raw(&frame);
        }
    }
    h.transmit();
    h.expect_nothing();
    assert_eq!(h.stack.usage().half_open, 0);
}

/// Every combination of flags at a listener: only a SYN without ACK, RST and FIN opens anything.
#[test]
fn every_combination_of_flags() {
    for bits in 0..64 {
        let flags = TcpFlags::from_bits_truncate(bits);
        let mut h = listening();
        h.send(seg().seq(0).win(1000).with_flags(flags));
        let decisive = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        let opens = flags & decisive == TcpFlags::SYN;
        assert_eq!(h.stack.usage().half_open, u32::from(opens), "{flags}");
    }
}

/// Data in a SYN without Fast Open is not delivered before the handshake has shown that the address
/// is real, nor acknowledged.
#[test]
fn data_in_a_syn() {
    let mut h = listening();
    h.send(Handshake::default().syn().len(500));
    h.expect(seg().syn().ack(1));
    assert_eq!(h.stack.usage().recv_bytes, 0);
    h.send(seg().seq(1).ack(1).win(60_000).len(500));
    h.take_accepted();
    h.expect_read(1, 500);
}

/// Nothing turns around inside the stack: to connect to oneself is an error, at once.
#[test]
fn connecting_to_ourselves() {
    for mut h in [Harness::new(), Harness::new().over_ipv6()] {
        let local = h.local();
        let error = h.refuse(Command::Connect {
            token: CLIENT,
            local: Some(local),
            remote: local,
            options: Options::default(),
        });
        assert_eq!(error, Error::NetworkUnreachable);
        assert_eq!(h.stack.usage().connections, 0);
    }
}

/// RFC 1337: neither RSTs nor old data nor old ACKs end TIME_WAIT or change what it remembers.
/// RFC 1337 §3-1, §3-2.
#[test]
fn time_wait_assassination() {
    let mut h = Harness::time_wait();
    for seq in [0, 1, 2, 3, 60_000] {
        h.send(seg().rst().seq(seq));
        h.send(seg().rst().seq(seq).ack(2));
    }
    h.expect_nothing();
    // H1: an old duplicate of data is answered with the ACK of what is; the RST that a confused
    // peer sends for that does no harm.
    h.send(seg().seq(1).ack(2).win(1000).len(10));
    h.expect(seg().seq(2).ack(2));
    h.send(seg().rst().seq(2));
    assert_eq!(h.stack.usage().time_wait, 1);
}

/// RFC 5927: forged ICMP errors with guessed numbers, of every type and code, at an established
/// connection. RFC 5927 §4.1-1, §5.2-1.
#[test]
fn forged_icmp_errors() {
    let mut h = Harness::established();
    h.write(1000);
    h.drain();
    let before = h.info();
    let mut rng = wire::impair::Rng::new(3);
    for i in 0..5000u32 {
        let kind = [3, 4, 5, 11, 12][i as usize % 5];
        let message = icmp_about(&h, kind, (i % 16) as u8, rng.next_u32());
        h.inject_raw(&message);
    }
    let after = h.info();
    h.expect_state(State::Established);
    assert_eq!((after.pmtu, after.cwnd), (before.pmtu, before.cwnd));
    assert_eq!(h.ready().1, None);
}

/// An ICMP error about a segment of the connection with this sequence number.
fn icmp_about(h: &Harness, kind: u8, code: u8, seq: u32) -> Vec<u8> {
    let (IpAddr::V4(peer), IpAddr::V4(local)) = (h.peer().ip(), h.local().ip()) else {
        panic!("IPv4 only");
    };
    let mut quoted = vec![0; 20];
    wire::ipv4::Ipv4Header::new(local, peer, wire::ip::Protocol::TCP, 1020).emit(&mut quoted);
    quoted.extend(h.local().port().to_be_bytes());
    quoted.extend(h.peer().port().to_be_bytes());
    quoted.extend(seq.to_be_bytes());
    let mut message = vec![kind, code, 0, 0, 0, 0, 2, 88];
    message.extend(quoted);
    let sum = wire::checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let router = Ipv4Addr::new(10, 0, 0, 77);
    let mut frame = vec![0; 34];
    wire::ethernet::EthernetHeader {
        dst: mac(1),
        src: mac(2),
        ether_type: wire::ethernet::EtherType::IPV4,
        vlan: None,
    }
    .emit(&mut frame);
    wire::ipv4::Ipv4Header::new(router, local, wire::ip::Protocol::ICMP, message.len())
        .emit(&mut frame[14..]);
    frame.extend(message);
    frame
}
