use proptest::prelude::*;

use super::*;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

#[test]
fn prefixes_contain_what_they_should() {
    let net = cidr("10.1.2.3/24");
    assert!(net.contains("10.1.2.255".parse().unwrap()));
    assert!(!net.contains("10.1.3.0".parse().unwrap()));
    assert!(!net.contains("::ffff:10.1.2.3".parse().unwrap()));
    assert_eq!(net.network(), "10.1.2.0".parse::<IpAddr>().unwrap());
    assert!(cidr("0.0.0.0/0").contains("255.255.255.255".parse().unwrap()));
    assert!(cidr("::/0").contains("ff02::1".parse().unwrap()));
    let net = cidr("2001:db8::1/127");
    assert!(net.contains("2001:db8::".parse().unwrap()));
    assert!(!net.contains("2001:db8::2".parse().unwrap()));
}

#[test]
fn broadcast_addresses() {
    let net = cidr("10.1.2.3/24");
    assert_eq!(net.broadcast(), Some(Ipv4Addr::new(10, 1, 2, 255)));
    assert!(net.is_broadcast(Ipv4Addr::new(10, 1, 2, 0)));
    assert!(net.is_broadcast(Ipv4Addr::BROADCAST));
    assert!(!net.is_broadcast(Ipv4Addr::new(10, 1, 2, 3)));
    // RFC 3021: both addresses of a /31 are hosts.
    assert_eq!(cidr("10.0.0.0/31").broadcast(), None);
    assert!(!cidr("10.0.0.0/31").is_broadcast(Ipv4Addr::new(10, 0, 0, 0)));
    assert_eq!(cidr("fe80::1/64").broadcast(), None);
}

#[test]
fn a_bare_address_is_its_own_prefix() {
    assert_eq!(cidr("10.0.0.1").prefix_len, 32);
    assert_eq!(cidr("::1").prefix_len, 128);
}

#[test]
fn bad_texts_say_what_is_bad() {
    for (text, error) in [
        ("", CidrError::Address),
        ("10.0.0/8", CidrError::Address),
        ("10.0.0.1/33", CidrError::PrefixLen),
        ("10.0.0.1/", CidrError::PrefixLen),
        ("10.0.0.1/+8", CidrError::PrefixLen),
        ("10.0.0.1/8/8", CidrError::PrefixLen),
        ("::1/129", CidrError::PrefixLen),
        ("::1/999", CidrError::PrefixLen),
    ] {
        assert_eq!(text.parse::<Cidr>(), Err(error), "{text:?}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn sources_that_no_host_has() {
    for addr in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        assert!(!is_valid_source(addr.parse().unwrap()), "{addr}");
    }
    for addr in ["10.0.0.1", "127.0.0.1", "::1", "fe80::1"] {
        assert!(is_valid_source(addr.parse().unwrap()), "{addr}");
    }
}

#[test]
fn ecn_bits_round_trip() {
    for bits in 0..4 {
        assert_eq!(Ecn::from_tos(0xfc | bits).bits(), bits);
    }
    assert_eq!(Ecn::from_tos(3), Ecn::Ce);
}

proptest! {
    #[test]
    fn display_then_parse_gives_the_same_prefix(addr in any::<IpAddr>(), len in 0u8..=128) {
        if let Some(cidr) = Cidr::new(addr, len) {
            prop_assert_eq!(cidr.to_string().parse(), Ok(cidr));
            prop_assert!(cidr.contains(addr) && cidr.contains(cidr.network()));
        } else {
            prop_assert!(addr.is_ipv4() && len > 32);
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,40}") {
        let _ = text.parse::<Cidr>();
    }
}
