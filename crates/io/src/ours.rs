//! Our addresses as BPF programs know them (`bpf/ours.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aya::Ebpf;
use aya::maps::{HashMap, Map, MapError};

/// Entries of a map for these addresses.
pub(crate) fn entries(addresses: &[IpAddr]) -> Result<u32, std::num::TryFromIntError> {
    u32::try_from(addresses.len().max(1))
}

/// Puts our addresses into the maps of a program.
pub(crate) fn fill(ebpf: &mut Ebpf, addresses: &[IpAddr]) -> Result<(), MapError> {
    for (address, number) in numbered(addresses).zip(1..) {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        match address {
            IpAddr::V4(v4) => insert(ebpf.map_mut("addresses4"), v4.octets(), number)?,
            IpAddr::V6(v6) => insert(ebpf.map_mut("addresses6"), v6.octets(), number)?,
        }
    }
    Ok(())
}

/// Our addresses in the order of their numbers, the first of which is 1.
pub(crate) fn numbered(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    let v4 = addresses4(addresses).map(IpAddr::V4);
    v4.chain(addresses6(addresses).map(IpAddr::V6))
}

pub(crate) fn addresses4(addresses: &[IpAddr]) -> impl Iterator<Item = Ipv4Addr> {
    addresses.iter().filter_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

pub(crate) fn addresses6(addresses: &[IpAddr]) -> impl Iterator<Item = Ipv6Addr> {
    addresses.iter().filter_map(|address| match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    })
}

fn insert<const N: usize>(
    map: Option<&mut Map>,
    address: [u8; N],
    number: u8,
) -> Result<(), MapError> {
    let map = map.ok_or(MapError::ElementNotFound)?;
    HashMap::<_, [u8; N], u8>::try_from(map)?.insert(address, number, 0)
}
