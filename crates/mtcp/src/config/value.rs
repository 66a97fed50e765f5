//! Values as people write them.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use wire::frame::MacAddr;

use super::{Cidr, NeighbourSpec, RouteSpec};

/// What a value must look like, or an explanation of what is wrong with it.
pub(super) type Parsed<T> = Result<T, String>;

/// A whole number in `low..=high`.
pub(super) fn integer(text: &str, low: u64, high: u64) -> Parsed<u64> {
    in_range(whole(text, low, high)?, text, low, high)
}

/// As [`integer`], for a size that the original mTCP takes without a limit: what is too large is
/// `high`, and a line says so.
pub(super) fn integer_up_to(key: &str, text: &str, low: u64, high: u64) -> Parsed<u64> {
    let value = clamped(key, whole(text, low, high)?, high);
    in_range(value, text, low, high)
}

fn whole(text: &str, low: u64, high: u64) -> Parsed<u64> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a whole number from {low} to {high}"))
}

/// A number of bytes: `8192`, `64k`, `1M`, `2G`.
pub(super) fn bytes(text: &str, low: u64, high: u64) -> Parsed<u64> {
    in_range(number_of_bytes(text)?, text, low, high)
}

/// As [`bytes`], and as [`integer_up_to`].
pub(super) fn bytes_up_to(key: &str, text: &str, low: u64, high: u64) -> Parsed<u64> {
    let value = clamped(key, number_of_bytes(text)?, high);
    in_range(value, text, low, high)
}

fn clamped(key: &str, value: u64, high: u64) -> u64 {
    if value > high {
        log::warn!("{key} = {value} is more than there can be: {high} is used");
    }
    value.min(high)
}

fn number_of_bytes(text: &str) -> Parsed<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let value = digits
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift));
    value.ok_or_else(|| format!("'{text}' is not a number of bytes (such as 8192, 64k or 1M)"))
}

fn in_range(value: u64, text: &str, low: u64, high: u64) -> Parsed<u64> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(format!("'{text}' is outside {low} to {high}"))
    }
}

/// `1 yes on true`, `0 no off false`.
pub(super) fn switch(text: &str) -> Parsed<bool> {
    match text {
        "1" | "yes" | "on" | "true" => Ok(true),
        "0" | "no" | "off" | "false" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

/// Seconds, fractions allowed, up to a year.
pub(super) fn seconds(text: &str) -> Parsed<Duration> {
    let value: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if !(0.0..=31_536_000.0).contains(&value) {
        return Err(format!("'{text}' is outside 0 to 31536000 seconds"));
    }
    Ok(Duration::from_secs_f64(value))
}

/// As [`seconds`]; -1, with which the original mTCP does not wait, is 0.
pub(super) fn seconds_or_none(text: &str) -> Parsed<Duration> {
    if text == "-1" {
        return Ok(Duration::ZERO);
    }
    seconds(text)
}

/// An IPv4 or IPv6 address.
pub(super) fn address(text: &str) -> Parsed<IpAddr> {
    text.parse()
        .map_err(|_| format!("'{text}' is not an IPv4 or IPv6 address"))
}

/// `02:00:00:00:00:01`.
pub(super) fn mac(text: &str) -> Parsed<MacAddr> {
    let wrong = || format!("'{text}' is not a hardware address (such as 02:00:00:00:00:01)");
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts
            .next()
            .filter(|part| (1..=2).contains(&part.len()))
            .ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(MacAddr(bytes))
}

/// A hexadecimal mask, with or without `0x`: the processors whose bits are set, lowest first.
pub(super) fn core_mask(text: &str) -> Parsed<Vec<usize>> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let mut cores = Vec::new();
    for (nibble, digit) in digits.bytes().rev().enumerate() {
        let value = char::from(digit)
            .to_digit(16)
            .ok_or_else(|| format!("'{text}' is not a hexadecimal mask"))?;
        cores.extend(
            (0..4)
                .filter(|bit| value >> bit & 1 == 1)
                .map(|bit| nibble * 4 + bit),
        );
    }
    if cores.is_empty() {
        return Err(format!("'{text}' names no processor"));
    }
    Ok(cores)
}

/// Words separated by blanks or commas.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', ',']).filter(|word| !word.is_empty())
}

/// Each word as a `T`.
pub(super) fn list<T>(text: &str, each: impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<T>> {
    words(text).map(each).collect()
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (addr, prefix_len) = text
            .split_once('/')
            .ok_or_else(|| format!("'{text}' has no prefix length: write {text}/24"))?;
        let addr = address(addr)?;
        let longest = if addr.is_ipv4() { 32 } else { 128 };
        let prefix_len = integer(prefix_len, 0, longest)? as u8;
        Ok(Self { addr, prefix_len })
    }
}

impl FromStr for RouteSpec {
    type Err = String;

    /// `10.1.0.0/16@10.0.0.1`, or `10.1.0.0/16` on-link.
    fn from_str(text: &str) -> Parsed<Self> {
        let (network, gateway) = match text.split_once('@') {
            Some((network, gateway)) => (network, Some(address(gateway)?)),
            None => (text, None),
        };
        let network: Cidr = network.parse()?;
        if gateway.is_some_and(|gateway| gateway.is_ipv4() != network.addr.is_ipv4()) {
            return Err(format!("'{text}' mixes IPv4 and IPv6"));
        }
        Ok(Self { network, gateway })
    }
}

impl FromStr for NeighbourSpec {
    type Err = String;

    /// `10.0.0.1=02:00:00:00:00:01`; `10.0.0.0/24=…` for a whole network.
    fn from_str(text: &str) -> Parsed<Self> {
        let (network, hardware) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is not ADDRESS=MAC"))?;
        let network = if network.contains('/') {
            network.parse()?
        } else {
            let addr = address(network)?;
            let prefix_len = if addr.is_ipv4() { 32 } else { 128 };
            Cidr { addr, prefix_len }
        };
        Ok(Self {
            network,
            mac: mac(hardware)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_suffixes() {
        assert_eq!(bytes("64k", 0, u64::MAX), Ok(65_536));
        assert_eq!(bytes("1M", 0, u64::MAX), Ok(1 << 20));
        assert!(bytes("k", 0, u64::MAX).is_err());
        assert!(bytes("99999999999999999999G", 0, u64::MAX).is_err());
        assert!(
            bytes("63", 64, 100)
                .unwrap_err()
                .contains("outside 64 to 100")
        );
    }

    #[test]
    fn sizes_end_at_the_maximum() {
        assert_eq!(bytes_up_to("x", "4G", 64, 1000), Ok(1000));
        assert_eq!(integer_up_to("x", "4000", 16, 1000), Ok(1000));
        assert!(bytes_up_to("x", "63", 64, 1000).is_err());
        assert!(integer_up_to("x", "-1", 16, 1000).is_err());
        assert_eq!(seconds_or_none("-1"), Ok(Duration::ZERO));
    }

    #[test]
    fn a_mask_names_processors() {
        assert_eq!(core_mask("5"), Ok(vec![0, 2]));
        assert_eq!(core_mask("0x30000"), Ok(vec![16, 17]));
        assert!(core_mask("0").is_err());
        assert!(core_mask("xyz").is_err());
    }

    #[test]
    fn addresses_have_prefixes() {
        let cidr: Cidr = "10.0.0.2/24".parse().unwrap();
        assert_eq!(
            (cidr.addr, cidr.prefix_len),
            ("10.0.0.2".parse().unwrap(), 24)
        );
        assert!("10.0.0.2/33".parse::<Cidr>().is_err());
        assert!("fd00::2/128".parse::<Cidr>().is_ok());
        assert!("10.0.0.2".parse::<Cidr>().unwrap_err().contains("/24"));
    }

    #[test]
    fn neighbours_and_routes() {
        let n: NeighbourSpec = "10.0.0.1=2:0:0:0:0:a".parse().unwrap();
        assert_eq!(
            (n.network.prefix_len, n.mac),
            (32, MacAddr([2, 0, 0, 0, 0, 10]))
        );
        assert!("10.0.0.1=02:00".parse::<NeighbourSpec>().is_err());
        let r: RouteSpec = "10.1.0.0/16@10.0.0.1".parse().unwrap();
        assert_eq!(r.gateway, Some("10.0.0.1".parse().unwrap()));
        assert!("10.1.0.0/16@fd00::1".parse::<RouteSpec>().is_err());
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["-1", "NaN", "inf", "1e300", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
