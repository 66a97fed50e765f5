//! The walk over IPv6 extension headers (RFC 8200 §4), bounded in number and length.

use std::fmt;

use crate::ParseError;
use crate::ip::Protocol;

use super::Ipv6Header;

/// Most extension headers in a packet. RFC 8200 §4.1 lists six; RFC 8504 §5.3 lets hosts set a
/// limit.
const MAX_HEADERS: usize = 8;
/// Most bytes of extension headers in a packet (RFC 8504 §5.3 again).
const MAX_LEN: usize = 2048;

/// A fragment header (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// Header that follows the fragment header in the original packet.
    pub next_header: Protocol,
    /// Position of this fragment in the fragmentable part, in bytes, a multiple of 8.
    pub offset: u16,
    /// More fragments follow this one.
    pub more: bool,
    /// Identification of the packet that fragments belong to.
    pub ident: u32,
}

impl FragmentHeader {
    /// Length of the header, in bytes.
    pub const LEN: usize = 8;

    /// Whether this "fragment" is a whole packet (RFC 6946).
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    fn from_bytes(h: &[u8; 8]) -> Self {
        let field = u16::from_be_bytes([h[2], h[3]]);
        Self {
            next_header: Protocol(h[0]),
            offset: field & 0xfff8,
            more: field & 1 != 0,
            ident: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
        }
    }

    /// Writes the header and returns its length; writes nothing and returns 0 if it does not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(h) = out.first_chunk_mut::<8>() else {
            return 0;
        };
        let [f0, f1] = ((self.offset & 0xfff8) | u16::from(self.more)).to_be_bytes();
        let [i0, i1, i2, i3] = self.ident.to_be_bytes();
        *h = [self.next_header.0, 0, f0, f1, i0, i1, i2, i3];
        Self::LEN
    }
}

/// Where the walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Upper {
    /// What is at `offset`: a transport, [`Protocol::NO_NEXT_HEADER`], or a header nobody knows. In
    /// a fragment: what the reassembled part starts with.
    pub protocol: Protocol,
    /// Where it starts, in bytes from the start of the payload of the IPv6 header.
    pub offset: usize,
    /// Where the next-header field that named it is, in bytes from the start of the IPv6 header:
    /// the pointer of a parameter problem of code 1 (unrecognized next header).
    pub pointer: u32,
    /// This is a piece of a packet, to be reassembled from `offset` on. Atomic fragments (RFC 6946)
    /// are walked through and leave this `None`.
    pub fragment: Option<FragmentHeader>,
    /// A routing header with no segments left was skipped.
    pub routing: bool,
}

/// Why the packet must be discarded, and what the sender may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionError {
    /// Truncated or too many headers: discard without an answer.
    Malformed(ParseError),
    /// An unknown option says to discard without an answer (RFC 8200 §4.2, action 01).
    Discard,
    /// Discard and send an ICMPv6 parameter problem.
    ParameterProblem {
        /// Code of the message: see [`crate::icmpv6::ParameterProblemCode`].
        code: u8,
        /// Offending field, in bytes from the start of the IPv6 header.
        pointer: u32,
        /// Whether to send it also if the destination was a multicast address (RFC 8200 §4.2,
        /// action 10).
        even_if_multicast: bool,
    },
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "extension headers: {error}"),
            Self::Discard => f.write_str("unknown option that asks to discard"),
            Self::ParameterProblem { code, pointer, .. } => {
                write!(f, "parameter problem, code {code}, at byte {pointer}")
            }
        }
    }
}

impl std::error::Error for ExtensionError {}

impl From<ParseError> for ExtensionError {
    fn from(error: ParseError) -> Self {
        Self::Malformed(error)
    }
}

/// Erroneous header field (RFC 4443 §3.4).
const CODE_HEADER_FIELD: u8 = 0;
/// Unrecognized next header.
const CODE_NEXT_HEADER: u8 = 1;
/// Unrecognized option.
const CODE_OPTION: u8 = 2;
/// First fragment has an incomplete header chain (RFC 7112 §5).
const CODE_INCOMPLETE_CHAIN: u8 = 3;

const fn problem(code: u8, pointer: u32) -> ExtensionError {
    ExtensionError::ParameterProblem {
        code,
        pointer,
        even_if_multicast: false,
    }
}

/// Walks from the header `first`, which `payload` starts with, to the transport.
///
/// A fragment that is not a whole packet ends the walk behind its fragment header.
///
/// # Errors
/// See [`ExtensionError`].
#[inline]
pub fn upper_layer(first: Protocol, payload: &[u8]) -> Result<Upper, ExtensionError> {
    match first {
        Protocol::TCP | Protocol::UDP | Protocol::ICMPV6 => {
            Ok(Walk::new(first, payload).upper(None))
        }
        _ => Walk::new(first, payload).run(true),
    }
}

/// Like [`upper_layer`] for the fragmentable part of a reassembled packet: no hop-by-hop options
/// may come first, and nothing may be a fragment again. Pointers are as if nothing but the IPv6
/// header stood before it.
///
/// # Errors
/// See [`ExtensionError`]; `Unsupported` for a fragment inside the reassembled packet.
pub fn upper_layer_reassembled(first: Protocol, payload: &[u8]) -> Result<Upper, ExtensionError> {
    let upper = Walk::new(first, payload).run(false)?;
    match upper.fragment {
        Some(_) => Err(ExtensionError::Malformed(ParseError::Unsupported)),
        None => Ok(upper),
    }
}

struct Walk<'a> {
    payload: &'a [u8],
    protocol: Protocol,
    offset: usize,
    pointer: u32,
    routing: bool,
}

impl<'a> Walk<'a> {
    const fn new(first: Protocol, payload: &'a [u8]) -> Self {
        Self {
            payload,
            protocol: first,
            offset: 0,
            // RFC 8200 §3: the next-header field is the 7th byte.
            pointer: 6,
            routing: false,
        }
    }

    const fn upper(&self, fragment: Option<FragmentHeader>) -> Upper {
        Upper {
            protocol: self.protocol,
            offset: self.offset,
            pointer: self.pointer,
            fragment,
            routing: self.routing,
        }
    }

    /// RFC 8200 §4-1, §4.1-1.
    fn run(&mut self, hop_by_hop_allowed: bool) -> Result<Upper, ExtensionError> {
        for index in 0..=MAX_HEADERS {
            match self.protocol {
                Protocol::HOP_BY_HOP if index == 0 && hop_by_hop_allowed => self.options()?,
                // RFC 8200 §4: hop-by-hop options anywhere else count as an unrecognized next
                // header.
                Protocol::HOP_BY_HOP => return Err(problem(CODE_NEXT_HEADER, self.pointer)),
                Protocol::DESTINATION_OPTIONS => self.options()?,
                Protocol::ROUTING => self.routing()?,
                Protocol::FRAGMENT => {
                    if let Some(fragment) = self.fragment()? {
                        return Ok(self.upper(Some(fragment)));
                    }
                }
                _ => return Ok(self.upper(None)),
            }
        }
        Err(ExtensionError::Malformed(ParseError::TooComplex))
    }

    /// Position in the packet of a byte in the current header.
    fn position(&self, at: usize) -> u32 {
        (Ipv6Header::LEN + self.offset + at) as u32
    }

    /// The current header, whose length is in its second byte in units of 8 bytes, not counting the
    /// first 8.
    fn header(&self) -> Result<&'a [u8], ExtensionError> {
        let rest = self
            .payload
            .get(self.offset..)
            .ok_or(ParseError::Truncated)?;
        let len = usize::from(*rest.get(1).ok_or(ParseError::Truncated)?) * 8 + 8;
        if self.offset + len > MAX_LEN {
            return Err(ParseError::TooComplex.into());
        }
        Ok(rest.get(..len).ok_or(ParseError::Truncated)?)
    }

    fn step_over(&mut self, next_header: u8, len: usize) {
        self.pointer = self.position(0);
        self.protocol = Protocol(next_header);
        self.offset += len;
    }

    /// Hop-by-hop or destination options (RFC 8200 §4.2, §4.3, §4.6).
    fn options(&mut self) -> Result<(), ExtensionError> {
        let header = self.header()?;
        let mut at = 2;
        while let Some(&kind) = header.get(at) {
            // Pad1 has no length.
            if kind == 0 {
                at += 1;
                continue;
            }
            let len = header
                .get(at + 1)
                .map_or(usize::MAX, |len| usize::from(*len) + 2);
            if len > header.len() - at {
                return Err(problem(CODE_HEADER_FIELD, self.position(at)));
            }
            // PadN is the only option known here; router alert and jumbo payload mean nothing to a
            // host without them.
            if kind != 1 {
                self.unknown_option(kind, at)?;
            }
            at += len;
        }
        let next_header = header.first().copied().unwrap_or_default();
        self.step_over(next_header, header.len());
        Ok(())
    }

    /// RFC 8200 §4.2: the two high bits of an unknown option say what to do.
    /// RFC 8200 §4.2-1.
    fn unknown_option(&self, kind: u8, at: usize) -> Result<(), ExtensionError> {
        // RFC 2711: a router alert (0x05, action 00) is for routers; hosts skip it like other
        // skippable options.
        match kind >> 6 {
            0 => Ok(()),
            1 => Err(ExtensionError::Discard),
            action => Err(ExtensionError::ParameterProblem {
                code: CODE_OPTION,
                pointer: self.position(at),
                even_if_multicast: action == 2,
            }),
        }
    }

    /// RFC 8200 §4.4: a routing header of an unknown type is skipped if no segments are left and an
    /// error otherwise. No type is known here; RFC 5095: type 0 is always an error.
    /// RFC 8200 §4.4-1.
    fn routing(&mut self) -> Result<(), ExtensionError> {
        let header = self.header()?;
        let &[next_header, _, kind, segments_left, ..] = header else {
            return Err(ParseError::Truncated.into());
        };
        if kind == 0 || segments_left != 0 {
            return Err(problem(CODE_HEADER_FIELD, self.position(2)));
        }
        self.routing = true;
        self.step_over(next_header, header.len());
        Ok(())
    }

    /// RFC 8200 §4.5. `None` for an atomic fragment, which is stepped over.
    /// RFC 8200 §4.5-2.
    fn fragment(&mut self) -> Result<Option<FragmentHeader>, ExtensionError> {
        let rest = self
            .payload
            .get(self.offset..)
            .ok_or(ParseError::Truncated)?;
        let (h, data) = rest.split_first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let fragment = FragmentHeader::from_bytes(h);
        // RFC 8200 §4.5: not a multiple of 8 bytes: the pointer is the payload length field.
        if fragment.more && data.len() % 8 != 0 {
            return Err(problem(CODE_HEADER_FIELD, 4));
        }
        // Reassembled it would not fit: the pointer is the fragment offset field.
        if self.offset + usize::from(fragment.offset) + data.len() > usize::from(u16::MAX) {
            return Err(problem(CODE_HEADER_FIELD, self.position(2)));
        }
        self.step_over(fragment.next_header.0, FragmentHeader::LEN);
        if fragment.is_atomic() {
            return Ok(None);
        }
        if fragment.offset == 0 {
            check_first_fragment(fragment.next_header, data)?;
        }
        Ok(Some(fragment))
    }
}

/// RFC 7112 §5: the first fragment must hold all headers up to the transport's, so that no filter
/// can be fooled. RFC 8200 §4.5-4.
fn check_first_fragment(first: Protocol, data: &[u8]) -> Result<(), ExtensionError> {
    let mut walk = Walk::new(first, data);
    let chain = walk.skip_headers();
    let rest = data.len().saturating_sub(walk.offset);
    if chain.is_none() || rest < smallest_header(walk.protocol) {
        return Err(problem(CODE_INCOMPLETE_CHAIN, 0));
    }
    Ok(())
}

const fn smallest_header(protocol: Protocol) -> usize {
    match protocol {
        Protocol::TCP => 20,
        Protocol::UDP | Protocol::ICMPV6 => 8,
        _ => 0,
    }
}

/// The transport of a packet that an ICMP error quotes, cut anywhere. `None` if it is not in the
/// quotation.
pub(crate) fn quoted_upper_layer(first: Protocol, payload: &[u8]) -> Option<(Protocol, &[u8])> {
    let mut walk = Walk::new(first, payload);
    walk.skip_headers()?;
    if walk.protocol == Protocol::FRAGMENT {
        let fragment = FragmentHeader::from_bytes(payload.get(walk.offset..)?.first_chunk()?);
        if fragment.offset != 0 {
            return None;
        }
        walk.step_over(fragment.next_header.0, FragmentHeader::LEN);
        walk.skip_headers()?;
    }
    Some((walk.protocol, payload.get(walk.offset..)?))
}

impl Walk<'_> {
    /// Steps over options and routing headers, judging nothing but lengths. `None` if the chain is
    /// cut off or too long.
    fn skip_headers(&mut self) -> Option<()> {
        for _ in 0..MAX_HEADERS {
            match self.protocol {
                Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                    let header = self.header().ok()?;
                    self.step_over(*header.first()?, header.len());
                }
                _ => return Some(()),
            }
        }
        None
    }
}
