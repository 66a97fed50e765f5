//! Neighbours whose hardware address is not known yet, and links without room: what is due stays
//! due.

use std::net::{IpAddr, Ipv4Addr};

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;

use crate::command::{Command, Options};
use crate::id::PortId;
use crate::testing::{CLIENT, Handshake, Harness, mac, seg, v4};

/// A stack that knows no neighbour, listening.
fn lonely() -> Harness {
    let mut h = Harness::with(|config| config.neighbours.clear());
    h.listen(64, Default::default());
    h
}

fn v4_of(addr: IpAddr) -> Ipv4Addr {
    match addr {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(_) => panic!("IPv6"),
    }
}

/// The peer says its hardware address.
fn answer_arp(h: &mut Harness) {
    answer_arp_from(h, 2);
}

/// It says that it is this one.
fn answer_arp_from(h: &mut Harness, host: u8) {
    let packet = ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: mac(host),
        sender_ip: v4_of(v4(2)),
        target_mac: mac(1),
        target_ip: v4_of(v4(1)),
    };
    let mut frame = [0; 60];
    let start = EthernetHeader {
        dst: mac(1),
        src: mac(host),
        ether_type: EtherType::ARP,
        vlan: None,
    }
    .emit(&mut frame);
    packet.emit(&mut frame[start..]);
    h.inject_raw(&frame);
    h.transmit();
}

fn syn(port: u16) -> crate::testing::Seg {
    Handshake::default().syn().port(port)
}

#[test]
fn syn_acks_wait_for_the_neighbour_without_a_packet_each() {
    let mut h = lonely();
    for port in 6000..6050 {
        h.send(syn(port));
    }
    h.expect_nothing();
    assert_eq!(h.stack.usage().queued, 50);
    answer_arp(&mut h);
    for port in 6000..6050 {
        h.expect(seg().syn().seq(0).ack(1).port(port));
    }
    h.expect_nothing();
    let usage = h.stack.usage();
    assert_eq!((usage.queued, usage.half_open), (0, 50));
    assert_eq!(h.stack.counters().total_dropped(), 0);
}

#[test]
fn records_that_end_while_they_wait_leave_nothing() {
    let mut h = lonely();
    for port in 6000..6003 {
        h.send(syn(port));
    }
    h.send(seg().rst().seq(1).port(6001));
    assert_eq!(h.stack.usage().queued, 2);
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    let usage = h.stack.usage();
    assert_eq!((usage.queued, usage.half_open, usage.flows), (0, 0, 0));
    answer_arp(&mut h);
    h.expect_nothing();
}

#[test]
fn a_neighbour_that_never_answers_holds_nothing() {
    let mut h = lonely();
    h.send(syn(6000));
    h.advance(200_000);
    let usage = h.stack.usage();
    assert_eq!((usage.queued, usage.half_open, usage.flows), (0, 0, 0));
    assert_eq!(h.drain(), 0);
}

#[test]
fn waiting_for_the_neighbour_is_no_loss() {
    let mut h = lonely();
    h.send(syn(6000));
    h.advance(2500);
    answer_arp(&mut h);
    h.expect(seg().syn().ack(1).port(6000));
    assert_eq!(h.stack.counters().retransmits, 0);
    h.advance(20);
    h.send(seg().seq(1).ack(1).win(60_000).port(6000));
    for event in h.events() {
        if let crate::Event::Accepted { conn, .. } = event {
            h.conn = Some(conn);
        }
    }
    let info = h.info();
    assert_eq!(info.srtt.as_millis(), 20);
    assert!(info.cwnd > u32::from(info.snd_mss));
}

#[test]
fn no_reset_is_lost_on_a_full_link() {
    let mut h = Harness::with(|config| {
        config.max_connections = 1000;
        config.max_half_open = 1000;
        config.recv_pool = 64 << 20;
    });
    h.listen(1000, Default::default());
    let mut conns = Vec::new();
    for port in 6000..6800 {
        h.send(syn(port));
        h.expect(seg().syn().any_ack().port(port));
        h.send(seg().seq(1).ack(1).win(60_000).port(port));
        for event in h.events() {
            if let crate::Event::Accepted { conn, .. } = event {
                conns.push(conn);
            }
        }
    }
    h.sink.room = 0;
    for &conn in &conns {
        h.app.release(conn.slot);
        h.execute(Command::Abort(conn));
    }
    h.transmit();
    assert!(h.stack.has_output(PortId(0)));
    assert_eq!(h.stack.usage().queued, 800);
    h.sink.room = usize::MAX;
    h.transmit();
    for port in 6000..6800 {
        h.expect(seg().rst().any_ack().seq(1).port(port));
    }
    h.expect_nothing();
}

/// Connects, and says whom the first frame of that is for, and what it is.
fn first_frame_of_connect(h: &mut Harness) -> (MacAddr, EtherType) {
    h.execute(Command::Connect {
        token: CLIENT,
        local: None,
        remote: h.peer(),
        options: Options::default(),
    });
    h.transmit();
    // What sending gave rise to.
    h.transmit();
    let frame = h.sink.frames.front().cloned().unwrap_or_default();
    h.sink.frames.clear();
    let (header, _) = EthernetHeader::parse(&frame).expect("a frame");
    (header.dst, header.ether_type)
}

/// The way to a host is looked for once; who takes the packets is asked each time.
#[test]
fn connections_go_where_the_neighbour_is_now() {
    let mut h = lonely();
    let question = (MacAddr::BROADCAST, EtherType::ARP);
    assert_eq!(first_frame_of_connect(&mut h), question);
    answer_arp(&mut h);
    h.sink.frames.clear();
    assert_eq!(first_frame_of_connect(&mut h), (mac(2), EtherType::IPV4));
    // It has got another interface.
    answer_arp_from(&mut h, 3);
    assert_eq!(first_frame_of_connect(&mut h), (mac(3), EtherType::IPV4));
    // It is gone for long, and so are the connections to it.
    h.advance(2_000_000);
    h.sink.frames.clear();
    assert_eq!(first_frame_of_connect(&mut h), question);
}
