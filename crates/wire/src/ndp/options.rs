//! Neighbour discovery options (RFC 4861 §4.6).

use std::net::Ipv6Addr;

use crate::ParseError;
use crate::frame::MacAddr;

const SOURCE_LLADDR: u8 = 1;
const TARGET_LLADDR: u8 = 2;
const PREFIX_INFO: u8 = 3;
const MTU: u8 = 5;
const NONCE: u8 = 14;

/// Most options in a message; a router with more prefixes than that is not honest.
const MAX_OPTIONS: usize = 32;

/// A prefix of the link (RFC 4861 §4.6.2). All-zeros by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixInfo {
    /// The prefix; bits behind it are to be ignored.
    pub prefix: Ipv6Addr,
    /// Its length in bits; at most 128.
    pub prefix_len: u8,
    /// L: addresses with it are neighbours.
    pub on_link: bool,
    /// A: may be used to form an address (RFC 4862).
    pub autonomous: bool,
    /// How long it is on link, in seconds; all ones is for ever.
    pub valid_lifetime: u32,
    /// How long addresses formed from it are preferred, in seconds; all ones is for ever.
    pub preferred_lifetime: u32,
}

impl PrefixInfo {
    /// Length of the option, in bytes.
    pub(super) const LEN: usize = 32;

    const EMPTY: Self = Self {
        prefix: Ipv6Addr::UNSPECIFIED,
        prefix_len: 0,
        on_link: false,
        autonomous: false,
        valid_lifetime: 0,
        preferred_lifetime: 0,
    };

    fn from_value(value: &[u8; 30]) -> Self {
        let &[len, flags, v0, v1, v2, v3, p0, p1, p2, p3, ..] = value;
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&value[14..]);
        Self {
            prefix: prefix.into(),
            prefix_len: len,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid_lifetime: u32::from_be_bytes([v0, v1, v2, v3]),
            preferred_lifetime: u32::from_be_bytes([p0, p1, p2, p3]),
        }
    }
}

/// The prefixes of a router advertisement: the first [`Prefixes::MAX`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefixes {
    len: u8,
    list: [PrefixInfo; Self::MAX],
}

impl Default for Prefixes {
    fn default() -> Self {
        Self {
            len: 0,
            list: [PrefixInfo::EMPTY; Self::MAX],
        }
    }
}

impl Prefixes {
    /// Most prefixes that are kept.
    pub const MAX: usize = 8;

    /// The prefixes.
    pub fn as_slice(&self) -> &[PrefixInfo] {
        self.list.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Appends a prefix; false if there is no room.
    pub fn push(&mut self, prefix: PrefixInfo) -> bool {
        match self.list.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = prefix;
                self.len += 1;
                true
            }
            None => false,
        }
    }
}

/// The options of one message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NdpOptions {
    pub(super) source_lladdr: Option<MacAddr>,
    pub(super) target_lladdr: Option<MacAddr>,
    pub(super) mtu: Option<u32>,
    pub(super) nonce: Option<[u8; 6]>,
    pub(super) prefixes: Prefixes,
}

impl NdpOptions {
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, ParseError> {
        let mut options = Self::default();
        for _ in 0..MAX_OPTIONS {
            let Some((&kind, rest)) = bytes.split_first() else {
                return Ok(options);
            };
            // RFC 4861 §4.6: the length counts units of 8 bytes; a packet with an option of length
            // 0 must be discarded.
            let len = usize::from(*rest.first().ok_or(ParseError::BadLength)?) * 8;
            let value = bytes.get(2..len).ok_or(ParseError::BadLength)?;
            options.apply(kind, value)?;
            bytes = bytes.get(len..).ok_or(ParseError::BadLength)?;
        }
        if bytes.is_empty() {
            return Ok(options);
        }
        Err(ParseError::TooComplex)
    }

    /// Takes one option. Unknown ones are skipped (RFC 4861 §9), so are link-layer addresses that
    /// are not Ethernet's.
    fn apply(&mut self, kind: u8, value: &[u8]) -> Result<(), ParseError> {
        match (kind, value) {
            (SOURCE_LLADDR, &[a, b, c, d, e, f]) => {
                self.source_lladdr = Some(MacAddr([a, b, c, d, e, f]));
            }
            (TARGET_LLADDR, &[a, b, c, d, e, f]) => {
                self.target_lladdr = Some(MacAddr([a, b, c, d, e, f]));
            }
            (MTU, &[_, _, a, b, c, d]) => self.mtu = Some(u32::from_be_bytes([a, b, c, d])),
            (NONCE, &[a, b, c, d, e, f]) => self.nonce = Some([a, b, c, d, e, f]),
            (PREFIX_INFO, value) => {
                let value = value.try_into().map_err(|_| ParseError::BadLength)?;
                let prefix = PrefixInfo::from_value(value);
                if prefix.prefix_len > 128 {
                    return Err(ParseError::BadValue);
                }
                self.prefixes.push(prefix);
            }
            (MTU, _) => return Err(ParseError::BadLength),
            _ => {}
        }
        Ok(())
    }
}

/// Writes fields and options one after the other; what does not fit is not written.
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    pub(super) const fn written(&self) -> usize {
        self.at
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    fn short_option(&mut self, kind: u8, value: [u8; 6]) {
        self.put(&[kind, 1]);
        self.put(&value);
    }

    pub(super) fn source_lladdr(&mut self, mac: Option<MacAddr>) {
        if let Some(mac) = mac {
            self.short_option(SOURCE_LLADDR, mac.0);
        }
    }

    pub(super) fn target_lladdr(&mut self, mac: Option<MacAddr>) {
        if let Some(mac) = mac {
            self.short_option(TARGET_LLADDR, mac.0);
        }
    }

    pub(super) fn nonce(&mut self, nonce: Option<[u8; 6]>) {
        if let Some(nonce) = nonce {
            self.short_option(NONCE, nonce);
        }
    }

    pub(super) fn mtu(&mut self, mtu: Option<u32>) {
        if let Some(mtu) = mtu {
            let [a, b, c, d] = mtu.to_be_bytes();
            self.short_option(MTU, [0, 0, a, b, c, d]);
        }
    }

    pub(super) fn prefix(&mut self, info: &PrefixInfo) {
        let flags = (u8::from(info.on_link) << 7) | (u8::from(info.autonomous) << 6);
        self.put(&[PREFIX_INFO, 4, info.prefix_len, flags]);
        self.put(&info.valid_lifetime.to_be_bytes());
        self.put(&info.preferred_lifetime.to_be_bytes());
        self.put(&[0; 4]);
        self.put(&info.prefix.octets());
    }
}
