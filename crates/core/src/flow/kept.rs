//! Keys of flows that are many and rarely looked at: in a third of the space if they are of IPv4.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::{FlowKey, is_mapped};
use crate::side_pool::SidePool;

/// A key of IPv4, or, with 0.0.0.0 as our address, which no connection has, the name of one kept
/// beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    local: u32,
    remote: u32,
    ports: u32,
}

const _: () = assert!(size_of::<Kept>() == 12);

impl Kept {
    fn long(name: u32) -> Self {
        Self {
            local: 0,
            remote: name,
            ports: 0,
        }
    }

    /// `None`: it does not fit.
    fn short(key: &FlowKey) -> Option<Self> {
        let last = |octets| u128::from_be_bytes(octets) as u32;
        let is_short = is_mapped(key.local) && is_mapped(key.remote) && last(key.local) != 0;
        is_short.then(|| Self {
            local: last(key.local),
            remote: last(key.remote),
            ports: key.ports,
        })
    }

    /// Of a short one.
    #[inline]
    fn key(self) -> FlowKey {
        let end = |addr, port| SocketAddrV4::new(Ipv4Addr::from_bits(addr), port).into();
        FlowKey::new(
            end(self.local, (self.ports >> 16) as u16),
            end(self.remote, self.ports as u16),
        )
    }
}

/// The long ones of one owner.
#[derive(Debug)]
pub(crate) struct LongKeys(SidePool<FlowKey>);

impl LongKeys {
    /// For so many.
    pub fn new(max: u32) -> io::Result<Self> {
        SidePool::new(max).map(Self)
    }

    /// `None` if there is no room.
    pub fn keep(&mut self, key: &FlowKey) -> Option<Kept> {
        Kept::short(key).or_else(|| self.0.insert(*key).map(Kept::long))
    }

    /// What was kept.
    #[inline]
    pub fn key(&self, kept: Kept) -> FlowKey {
        if kept.local != 0 {
            return kept.key();
        }
        self.0.at(kept.remote).copied().unwrap_or(FlowKey::NONE)
    }

    /// It is not needed any more.
    pub fn forget(&mut self, kept: Kept) {
        if kept.local == 0 {
            self.0.free(kept.remote);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_families_come_back() {
        let mut long = LongKeys::new(2).unwrap();
        let ends = [
            ("192.0.2.1:80", "198.51.100.7:9"),
            ("[2001:db8::1]:80", "[2001:db8::2]:9"),
            ("[::1]:80", "[::2]:9"),
            ("0.0.0.0:80", "198.51.100.7:9"),
        ];
        for round in 0..3 {
            for (local, remote) in ends {
                let key = FlowKey::new(local.parse().unwrap(), remote.parse().unwrap());
                let kept = long.keep(&key).unwrap();
                assert_eq!(long.key(kept), key, "{round}");
                long.forget(kept);
                assert_eq!(long.0.len(), 0);
            }
        }
    }
}
