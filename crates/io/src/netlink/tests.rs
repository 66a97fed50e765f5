//! Against the loopback interface, which every namespace has.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

#[test]
fn loopback_is_found_by_name_and_by_index() {
    let lo = link("lo").unwrap();
    assert!(lo.loopback && !lo.ethernet);
    assert_eq!(lo.mac, wire::frame::MacAddr::default());
    assert_eq!(lo.xdp, XdpAttachment::None);
    assert_eq!(link_by_index(lo.index).unwrap(), lo);
    assert!(links().unwrap().contains(&lo));
    assert!(!lo.is_veth());
}

#[test]
fn a_missing_interface_is_named() {
    for name in ["", "no-such-link", "a-name-longer-than-the-kernel-takes"] {
        let error = link(name).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(error.to_string().contains(name));
    }
}

#[test]
fn loopback_address_is_listed() {
    let lo = link("lo").unwrap();
    if !lo.admin_up {
        return;
    }
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let found = addresses()
        .unwrap()
        .into_iter()
        .find(|address| address.address == local)
        .unwrap();
    assert_eq!((found.interface, found.prefix), (lo.index, 8));
}

#[test]
fn routes_and_neighbours_name_existing_interfaces() {
    let known: Vec<u32> = links().unwrap().iter().map(|link| link.index).collect();
    assert!(
        routes()
            .unwrap()
            .iter()
            .all(|route| route.interface == 0 || known.contains(&route.interface))
    );
    assert!(
        neighbours()
            .unwrap()
            .iter()
            .all(|neighbour| known.contains(&neighbour.interface))
    );
}

#[test]
fn an_address_of_this_machine_has_no_route() {
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    assert_eq!(route_to(local).unwrap(), None);
}

#[test]
fn queues_are_asked_for_in_the_words_that_a_device_takes() {
    let veth = ethtool::queues("lo").unwrap();
    assert_eq!(veth.command("s0", 2), "ethtool -L s0 rx 2 tx 2");
    let card = ethtool::Queues {
        combined: true,
        ..veth
    };
    assert_eq!(card.command("eth1", 4), "ethtool -L eth1 combined 4");
}

#[test]
fn ethtool_answers_for_loopback_and_names_a_missing_interface() {
    assert_eq!(
        ethtool::queues("lo").unwrap(),
        ethtool::Queues {
            rx: 1,
            tx: 1,
            rx_max: 1,
            tx_max: 1,
            combined: false,
        }
    );
    ethtool::offloads("lo").unwrap();
    for name in ["", "no-such-link", "a-name-longer-than-the-kernel-takes"] {
        assert_eq!(
            ethtool::driver(name).unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
    }
}

#[test]
fn the_network_has_what_each_table_has() {
    let lo = link("lo").unwrap();
    let mut watcher = Watcher::new(lo.index).unwrap();
    let network = watcher.network().unwrap();
    assert_eq!(network.link("lo"), Some(&lo));
    let here: Vec<Address> = network.addresses_of(lo.index).copied().collect();
    let all = addresses().unwrap().into_iter();
    let expected = all.filter(|address| address.interface == lo.index);
    assert_eq!(here, expected.collect::<Vec<_>>());
    let main = u32::from(libc::RT_TABLE_MAIN);
    assert!(network.tables_v4.contains(&main) && network.tables_v6.contains(&main));
}

fn way(table: u32, network: &str, metric: u32) -> Way {
    let (network, prefix_len) = network.split_once('/').unwrap();
    Way {
        table,
        network: network.parse().unwrap(),
        prefix_len: prefix_len.parse().unwrap(),
        metric,
        source: None,
        mtu: None,
        hops: Vec::new(),
        throws: false,
    }
}

fn in_order(ways: &[Way]) -> Vec<(u32, u8, u32)> {
    let network = Network {
        ways: ways.to_vec(),
        tables_v4: vec![100, 254],
        tables_v6: vec![254],
        ..Network::default()
    };
    let ways = network.ways_in_order();
    ways.iter()
        .map(|way| (way.table, way.prefix_len, way.metric))
        .collect()
}

#[test]
fn the_longest_prefix_is_first_and_then_the_lowest_metric() {
    let ways = [
        way(254, "0.0.0.0/0", 100),
        way(254, "10.0.0.0/8", 200),
        way(254, "10.0.0.0/8", 50),
        way(254, "10.1.0.0/16", 300),
        way(9, "10.1.0.0/24", 0),
    ];
    let expected = [(254, 16, 300), (254, 8, 50), (254, 8, 200), (254, 0, 100)];
    assert_eq!(
        in_order(&ways),
        expected,
        "but the table that no rule names"
    );
}

#[test]
fn what_an_earlier_table_leads_is_in_no_later_one() {
    let throwing = Way {
        throws: true,
        ..way(100, "10.2.0.0/16", 0)
    };
    let ways = [
        way(100, "10.0.0.0/8", 0),
        throwing,
        way(254, "10.1.0.0/16", 0),
        way(254, "10.2.3.0/24", 0),
        way(254, "0.0.0.0/0", 0),
    ];
    // 10.1/16 is never reached. 10.2.3/24 is in what the first table throws.
    assert_eq!(in_order(&ways), [(254, 24, 0), (100, 8, 0), (254, 0, 0)]);
}
