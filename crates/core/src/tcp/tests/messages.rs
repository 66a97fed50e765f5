//! ICMP errors (RFC 9293 §3.9.2.2, RFC 5461, RFC 5927) and path MTU discovery (RFC 1191, RFC 8201).

use std::net::IpAddr;

use wire::checksum::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;

use crate::command::Options;
use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, mac, seg};

const WIN: u16 = 60_000;

/// A frame with an ICMP destination-unreachable message about a frame that the stack sent.
fn unreachable(h: &Harness, code: u8, mtu: u16, about: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (h.peer().ip(), h.local().ip()) else {
        panic!("IPv4 only");
    };
    let mut message = vec![3, code, 0, 0, 0, 0];
    message.extend_from_slice(&mtu.to_be_bytes());
    message.extend_from_slice(&about[14..14 + 28]);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![0; 34];
    let ethernet = EthernetHeader {
        dst: mac(1),
        src: mac(2),
        ether_type: EtherType::IPV4,
        vlan: None,
    };
    ethernet.emit(&mut frame);
    Ipv4Header::new(src, dst, Protocol::ICMP, message.len()).emit(&mut frame[14..]);
    frame.extend_from_slice(&message);
    frame
}

pub(super) fn report(h: &mut Harness, code: u8, mtu: u16, about: &[u8]) {
    let frame = unreachable(h, code, mtu, about);
    h.inject_raw(&frame);
    h.transmit();
}

/// A SYN in flight, and its frame.
fn syn_sent() -> (Harness, Vec<u8>) {
    let mut h = Harness::new();
    h.connect(Options::default());
    h.advance(1000);
    let frame = h.sink.frames.back().cloned().unwrap();
    h.drain();
    (h, frame)
}

fn in_flight() -> (Harness, Vec<u8>) {
    let mut h = Harness::new().and_established(&Handshake {
        mss: Some(1460),
        ..Handshake::default()
    });
    h.write(4380);
    let frame = h.sink.frames.front().cloned().unwrap();
    assert_eq!(h.drain(), 3);
    (h, frame)
}

/// RFC 9293 MUST-54.
#[test]
fn a_hard_error_ends_an_attempt_to_connect() {
    let (mut h, frame) = syn_sent();
    report(&mut h, 3, 0, &frame);
    assert_eq!(h.ready().1, Some(Error::Refused));
}

/// RFC 9293 MUST-47, SHLD-25.
#[test]
fn a_soft_error_is_what_a_time_out_is_called() {
    let (mut h, frame) = syn_sent();
    report(&mut h, 1, 0, &frame);
    h.expect_state(State::SynSent);
    h.advance(300_000);
    assert_eq!(h.ready().1, Some(Error::HostUnreachable));
}

/// RFC 9293 MUST-56.
/// RFC 5927 §5.2-1.
#[test]
fn no_error_ends_a_connection() {
    let (mut h, frame) = in_flight();
    for code in 0..16 {
        if code != 4 {
            report(&mut h, code, 0, &frame);
        }
    }
    h.expect_state(State::Established);
}

/// RFC 5927 §4.1-1.
#[test]
fn an_error_about_nothing_in_flight_is_ignored() {
    let (mut h, frame) = in_flight();
    h.send(seg().seq(1).ack(4381).win(WIN));
    let before = h.stack.counters().dropped(DropReason::IcmpQuote);
    report(&mut h, 4, 1000, &frame);
    assert_eq!(
        h.stack.counters().dropped(DropReason::IcmpQuote),
        before + 1
    );
    assert_eq!(h.info().snd_mss, 1460);
}

/// RFC 1191 §3-2, §6.3-1, §6.4-1, §6.4-2.
#[test]
fn a_smaller_path_makes_smaller_segments() {
    let (mut h, frame) = in_flight();
    let cwnd = h.info().cwnd;
    report(&mut h, 4, 1000, &frame);
    // 960 bytes each: what did not pass goes again, and it is no sign of congestion.
    h.expect(seg().seq(1).len(960));
    h.expect(seg().seq(961).len(960));
    let info = h.info();
    assert_eq!((info.pmtu, info.snd_mss, info.cwnd), (1000, 960, cwnd));
    h.drain();
    h.send(seg().seq(1).ack(4381).win(WIN));
    h.write(2000);
    h.expect(seg().seq(4381).len(960));
}

/// RFC 5927 §7.2-1.
#[test]
fn an_implausibly_small_path_is_not_believed() {
    let (mut h, frame) = in_flight();
    report(&mut h, 4, 68, &frame);
    assert_eq!(h.info().pmtu, 552);
}

/// RFC 1191 §3-3.
#[test]
fn a_larger_path_is_not_believed() {
    let (mut h, frame) = in_flight();
    report(&mut h, 4, 9000, &frame);
    assert!(h.info().pmtu <= 1500);
    let pmtu = h.info().pmtu;
    report(&mut h, 4, 1400, &frame);
    let lower = h.info().pmtu;
    assert!(lower <= pmtu);
    report(&mut h, 4, 1450, &frame);
    assert_eq!(h.info().pmtu, lower);
}
