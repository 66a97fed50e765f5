//! Links, addresses and routes that change under connections.

use wire::frame::MacAddr;

use crate::config::{Hop, Network, StaticNeighbour, Way};
use crate::id::PortId;
use crate::info::State;
use crate::testing::{Handshake, Harness, config, mac, seg, v4};

const WIN: u16 = 60_000;

fn way(gateway: Option<u8>) -> Way {
    Way {
        network: v4(2),
        prefix_len: 32,
        source: None,
        mtu: None,
        hops: vec![Hop {
            gateway: gateway.map(v4),
            port: PortId(0),
            weight: 1,
        }],
    }
}

fn network(mtu: u16, ways: Vec<Way>) -> Network {
    let mut interfaces = config(1, 2).interfaces;
    interfaces[0].capabilities.mtu = mtu;
    Network { interfaces, ways }
}

/// A connection on an address of the host, whose peer is behind this gateway, if any.
fn behind(gateway: Option<u8>, max_resident: u32) -> Harness {
    let h = Harness::with(|config| {
        config.host_addresses = true;
        config.max_resident = max_resident;
        config.ways = vec![way(gateway)];
        let neighbour = |index| StaticNeighbour {
            addr: v4(index),
            prefix_len: 32,
            mac: mac(index),
            port: PortId(0),
        };
        config.neighbours = [2, 8, 9].map(neighbour).into();
    });
    h.and_established(&Handshake {
        mss: Some(1460),
        ..Handshake::default()
    })
}

/// Where the next frame goes.
fn sent_to(h: &Harness) -> Option<MacAddr> {
    let frame = h.sink.frames.front()?;
    Some(MacAddr(*frame.first_chunk()?))
}

fn change(h: &mut Harness, network: Network) {
    h.stack.set_network(network).unwrap();
    h.advance(0);
}

#[test]
fn a_connection_goes_on_by_the_new_route() {
    for max_resident in [0, u32::MAX] {
        let mut h = behind(Some(8), max_resident);
        h.write(100);
        assert_eq!(sent_to(&h), Some(mac(8)));
        h.drain();
        h.send(seg().seq(1).ack(101).win(WIN));
        // Packed, where few may stay at hand.
        h.advance(2_000);
        let packed = h.stack.usage().compact;
        assert_eq!(packed, u32::from(max_resident == 0));
        for gateway in [Some(9), None, Some(8)] {
            change(&mut h, network(1500, vec![way(gateway)]));
            h.expect_nothing();
            h.write(100);
            assert_eq!(sent_to(&h), Some(mac(gateway.unwrap_or(2))), "{gateway:?}");
            h.drain();
            let ack = h.info().bytes_sent as u32 + 1;
            h.send(seg().seq(1).ack(ack).win(WIN));
            h.advance(2_000);
        }
    }
}

#[test]
fn a_smaller_mtu_of_the_link_holds_at_once() {
    let mut h = behind(None, u32::MAX);
    h.write(2 * 1460);
    h.expect(seg().seq(1).len(1460));
    h.expect(seg().seq(1461).len(1460));
    change(&mut h, network(1280, vec![way(None)]));
    assert_eq!(h.info().pmtu, 1280);
    // What is on its way may have been dropped.
    h.expect(seg().seq(1).len(1240));
    h.drain();
    h.send(seg().seq(1).ack(2_921).win(WIN));
    // A larger one is tried; it is no reason to send anything.
    change(&mut h, network(1500, vec![way(None)]));
    h.expect_nothing();
}

#[test]
fn without_a_route_nothing_is_sent_until_there_is_one() {
    let mut h = behind(Some(8), u32::MAX);
    change(&mut h, network(1500, Vec::new()));
    h.write(100);
    h.expect_silence(1_000);
    h.expect_state(State::Established);
    change(&mut h, network(1500, vec![way(Some(9))]));
    assert_eq!(sent_to(&h), Some(mac(9)));
    h.expect(seg().seq(1).len(100));
}

/// As the kernel's connections: they live on, and go on when the address is back.
#[test]
fn an_address_that_goes_takes_no_connection_with_it() {
    let mut h = behind(None, u32::MAX);
    let mut without = network(1500, vec![way(None)]);
    without.interfaces[0]
        .addresses
        .retain(|address| address.addr != v4(1));
    change(&mut h, without);
    h.write(100);
    h.expect_silence(500);
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect_nothing();
    h.expect_state(State::Established);
    change(&mut h, network(1500, vec![way(None)]));
    h.expect(seg().seq(1).len(100));
    h.send(seg().seq(1).ack(101).win(WIN).len(10));
    h.expect_read(1, 10);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut h = behind(Some(8), u32::MAX);
    let mut two = network(1500, Vec::new());
    two.interfaces.extend(two.interfaces.clone());
    let odd = network(100, vec![way(Some(9))]);
    for network in [two, odd] {
        h.stack.set_network(network).unwrap_err();
        h.advance(0);
        h.write(100);
        assert_eq!(sent_to(&h), Some(mac(8)));
        h.drain();
        let ack = h.info().bytes_sent as u32 + 1;
        h.send(seg().seq(1).ack(ack).win(WIN));
    }
}
