use proptest::prelude::*;

use super::*;

fn mac() -> impl Strategy<Value = Option<MacAddr>> {
    proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr))
}

fn unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<Ipv6Addr>().prop_filter("multicast", |addr| !addr.is_multicast())
}

prop_compose! {
    fn prefix()(
        prefix in any::<Ipv6Addr>(),
        prefix_len in 0u8..=128,
        (on_link, autonomous) in any::<(bool, bool)>(),
        (valid_lifetime, preferred_lifetime) in any::<(u32, u32)>(),
    ) -> PrefixInfo {
        PrefixInfo { prefix, prefix_len, on_link, autonomous, valid_lifetime, preferred_lifetime }
    }
}

prop_compose! {
    fn advertisement()(
        (hop_limit, managed, other_config) in any::<(u8, bool, bool)>(),
        (lifetime, reachable, retrans) in any::<(u16, u32, u32)>(),
        source_lladdr in mac(),
        mtu in any::<Option<u32>>(),
        list in proptest::collection::vec(prefix(), 0..=Prefixes::MAX),
    ) -> NdpMessage {
        let mut prefixes = Prefixes::default();
        for prefix in list {
            assert!(prefixes.push(prefix));
        }
        NdpMessage::RouterAdvertisement(RouterAdvertisement {
            hop_limit,
            managed,
            other_config,
            router_lifetime: Duration::from_secs(lifetime.into()),
            reachable_time: Duration::from_millis(reachable.into()),
            retrans_timer: Duration::from_millis(retrans.into()),
            source_lladdr,
            mtu,
            prefixes,
        })
    }
}

fn neighbor() -> impl Strategy<Value = NdpMessage> {
    let solicitation = (unicast(), mac(), any::<Option<[u8; 6]>>());
    let flags = any::<(bool, bool, bool)>();
    prop_oneof![
        solicitation.prop_map(|(target, source_lladdr, nonce)| {
            NdpMessage::NeighborSolicitation(NeighborSolicitation {
                target,
                source_lladdr,
                nonce,
            })
        }),
        (flags, unicast(), mac()).prop_map(|(flags, target, target_lladdr)| {
            NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
                router: flags.0,
                solicited: flags.1,
                override_flag: flags.2,
                target,
                target_lladdr,
            })
        }),
    ]
}

fn router() -> impl Strategy<Value = NdpMessage> {
    prop_oneof![
        mac().prop_map(|source_lladdr| {
            NdpMessage::RouterSolicitation(RouterSolicitation { source_lladdr })
        }),
        (unicast(), unicast(), mac()).prop_map(|(target, destination, target_lladdr)| {
            NdpMessage::Redirect(Redirect {
                target,
                destination,
                target_lladdr,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn emit_then_parse_gives_the_same_message(message in prop_oneof![advertisement(), neighbor(), router()]) {
        let mut out = vec![0xee; message.len()];
        prop_assert_eq!(message.emit_body(&mut out), out.len());
        prop_assert_eq!(out[0], message.kind());
        prop_assert_eq!(NdpMessage::parse(&out), Ok(message));
        let mut short = vec![0; out.len() - 1];
        prop_assert_eq!(message.emit_body(&mut short), 0);
        for len in 0..8 {
            prop_assert_eq!(NdpMessage::parse(&out[..len]), Err(ParseError::Truncated));
        }
    }
}

/// A neighbour solicitation with these options.
fn solicitation(options: &[u8]) -> Vec<u8> {
    let target = Ipv6Addr::LOCALHOST.octets();
    [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target, options].concat()
}

#[test]
fn options_are_bounded() {
    for bad in [
        &[1, 0, 0, 0, 0, 0, 0, 0][..],
        &[1, 2, 0, 0, 0, 0, 0, 0],
        &[1],
        &[5, 2, 0, 0, 0, 0, 0, 0],
    ] {
        let refused = NdpMessage::parse(&solicitation(bad));
        assert_eq!(refused, Err(ParseError::BadLength), "{bad:?}");
    }
    let unknown = [99, 1, 0, 0, 0, 0, 0, 0];
    assert!(NdpMessage::parse(&solicitation(&unknown.repeat(32))).is_ok());
    let refused = NdpMessage::parse(&solicitation(&unknown.repeat(33)));
    assert_eq!(refused, Err(ParseError::TooComplex));
}

/// RFC 4861 §7.1.1 and §7.1.2.
#[test]
fn codes_and_multicast_targets_are_refused() {
    let mut bytes = solicitation(&[]);
    bytes[1] = 1;
    assert_eq!(NdpMessage::parse(&bytes), Err(ParseError::BadValue));
    let mut bytes = solicitation(&[]);
    bytes[8] = 0xff;
    assert_eq!(NdpMessage::parse(&bytes), Err(ParseError::BadValue));
    assert_eq!(NdpMessage::parse(&[138; 24]), Err(ParseError::Unsupported));
}

#[test]
fn more_prefixes_than_are_kept_are_ignored() {
    let mut bytes = vec![134, 0, 0, 0, 64, 0xc0, 7, 8];
    bytes.extend_from_slice(&[0; 8]);
    let option = [&[3, 4, 64, 0x80][..], &[0; 28]].concat();
    bytes.extend_from_slice(&option.repeat(Prefixes::MAX + 1));
    let NdpMessage::RouterAdvertisement(read) = NdpMessage::parse(&bytes).unwrap() else {
        panic!("not a router advertisement");
    };
    assert!(read.managed && read.other_config);
    assert_eq!(read.router_lifetime, Duration::from_secs(0x0708));
    assert_eq!(read.prefixes.as_slice().len(), Prefixes::MAX);
    assert!(read.prefixes.as_slice()[0].on_link);
    bytes[18] = 129;
    assert_eq!(NdpMessage::parse(&bytes), Err(ParseError::BadValue));
}

/// The example of RFC 4291 §2.7.1, and RFC 2464 §7.
#[test]
fn groups_and_their_macs() {
    let addr: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    let group = solicited_node(addr);
    assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
    assert_eq!(multicast_mac(group).to_string(), "33:33:ff:0e:8c:6c");
}
