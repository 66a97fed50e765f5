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
