//! TCP options: RFC 9293 §3.1 (MSS), RFC 7323 (window scale, timestamps), RFC 2018 (SACK), RFC 7413
//! (Fast Open), RFC 9768 (AccECN).

use super::accurate_ecn::{self, EcnBytes};
use super::kinds::{END, FAST_OPEN, MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};
use crate::seq::SeqNumber;

/// Most bytes of options in a header.
const MAX_LEN: usize = 40;
/// Bytes of the timestamps option with its padding.
const STAMPS_LEN: usize = 12;

/// Bytes of what most SYNs have: MSS, SACK permitted, timestamps, window scale.
const SYN_LEN: usize = 20;

/// The timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub tsval: u32,
    /// The clock value echoed; meaningful if ACK is set.
    pub tsecr: u32,
}

impl Timestamps {
    /// The option as RFC 7323 appendix A recommends that it lies in a header.
    #[inline]
    fn emitted(self) -> [u8; STAMPS_LEN] {
        let [a, b, c, d] = self.tsval.to_be_bytes();
        let [e, f, g, h] = self.tsecr.to_be_bytes();
        [NOP, NOP, TIMESTAMPS, 10, a, b, c, d, e, f, g, h]
    }
}

/// At most four SACK blocks (RFC 2018 §3), each from its left edge up to, not including, its right
/// edge. Edges are as received.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [(SeqNumber, SeqNumber); 4],
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self {
        len: 0,
        blocks: [(SeqNumber(0), SeqNumber(0)); 4],
    };

    /// Most blocks that fit into a header.
    pub const MAX: usize = 4;

    /// The blocks.
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The blocks one by one.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + '_ {
        self.as_slice().iter().copied()
    }

    /// Number of blocks.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a block; false if there are four already.
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(block) => {
                *block = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Keeps the first `len` blocks.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u8::try_from(len).unwrap_or(u8::MAX));
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

/// A TCP Fast Open cookie: 4 to 16 bytes, or none in a request for one (RFC 7413 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FastOpenCookie {
    len: u8,
    bytes: [u8; 16],
}

impl FastOpenCookie {
    /// The empty cookie: a request.
    pub const REQUEST: Self = Self {
        len: 0,
        bytes: [0; 16],
    };

    /// A cookie; `None` unless the length is 0, or even and from 4 to 16.
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let len = cookie.len();
        if len != 0 && !(4..=16).contains(&len) || !len.is_multiple_of(2) {
            return None;
        }
        let mut bytes = [0; 16];
        bytes.get_mut(..len)?.copy_from_slice(cookie);
        Some(Self {
            len: len as u8,
            bytes,
        })
    }

    /// The cookie.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether this is a request for a cookie.
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }
}

/// The options of a segment that this stack understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// Window scale shift as received; RFC 7323 §2.3 says to use 14 for more.
    pub window_scale: Option<u8>,
    /// The sender understands SACK.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgments.
    pub sack: SackBlocks,
    /// Fast Open cookie or request.
    pub fast_open: Option<FastOpenCookie>,
    /// Byte counters of accurate ECN.
    pub ecn_bytes: Option<EcnBytes>,
    /// *Parsed*: an option had an impossible length; what follows it was not read.
    pub malformed: bool,
}

impl TcpOptions {
    /// Reads the bytes between the fixed header and the payload.
    ///
    /// RFC 9293 §3.2 MUST-7: an illegal option length must not crash; parsing ends there and
    /// `malformed` is set. Unknown options are skipped (MUST-6).
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut options = Self::default();
        options.read(bytes);
        options
    }

    /// [`Self::parse`] into its place, which is as it is by default.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) {
        // RFC 7323 appendix A recommends this layout, and all but handshake and loss segments have
        // it.
        if let [NOP, NOP, TIMESTAMPS, 10, a, b, c, d, e, f, g, h] = *bytes {
            self.timestamps = Some(Timestamps {
                tsval: u32::from_be_bytes([a, b, c, d]),
                tsecr: u32::from_be_bytes([e, f, g, h]),
            });
        } else if let Ok(syn) = <&[u8; SYN_LEN]>::try_from(bytes) {
            self.read_syn(syn);
        } else if !bytes.is_empty() {
            self.read_any(bytes);
        }
    }

    /// As many options as most SYNs have, and if they lie as there, at once.
    fn read_syn(&mut self, bytes: &[u8; SYN_LEN]) {
        if let [
            MSS,
            4,
            a,
            b,
            SACK_PERMITTED,
            2,
            TIMESTAMPS,
            10,
            ref stamps @ ..,
            NOP,
            WINDOW_SCALE,
            3,
            shift,
        ] = *bytes
        {
            let [c, d, e, f, g, h, i, j] = *stamps;
            self.mss = Some(u16::from_be_bytes([a, b]));
            self.sack_permitted = true;
            self.timestamps = Some(Timestamps {
                tsval: u32::from_be_bytes([c, d, e, f]),
                tsecr: u32::from_be_bytes([g, h, i, j]),
            });
            self.window_scale = Some(shift);
        } else {
            self.read_any(bytes);
        }
    }

    /// RFC 9293 MUST-4, MUST-6.
    fn read_any(&mut self, bytes: &[u8]) {
        for option in RawOptions::new(bytes) {
            let well_formed = match option {
                RawOption::Nop => true,
                RawOption::Malformed(_) => false,
                RawOption::Other { kind, value } => self.apply(kind, value),
            };
            if !well_formed {
                self.malformed = true;
                break;
            }
        }
    }

    /// A single option, for printing.
    pub(crate) fn from_one(kind: u8, value: &[u8]) -> Self {
        let mut options = Self::default();
        options.malformed = !options.apply(kind, value);
        options
    }

    /// Takes one option; false if a known one has the wrong length.
    fn apply(&mut self, kind: u8, value: &[u8]) -> bool {
        match (kind, value) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    tsval: u32::from_be_bytes([a, b, c, d]),
                    tsecr: u32::from_be_bytes([e, f, g, h]),
                });
            }
            (SACK, blocks) => return self.apply_sack(blocks),
            // RFC 7413 §4.1.1-1.
            // RFC 7413 §4.1.1: a cookie of another length is ignored.
            (FAST_OPEN, cookie) => self.fast_open = FastOpenCookie::new(cookie).or(self.fast_open),
            (accurate_ecn::ECT0_FIRST | accurate_ecn::ECT1_FIRST, counters) => {
                self.ecn_bytes = Some(EcnBytes::parse(kind, counters));
            }
            (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => return false,
            _ => {}
        }
        true
    }

    fn apply_sack(&mut self, value: &[u8]) -> bool {
        let (blocks, rest) = value.as_chunks::<8>();
        if blocks.is_empty() || !rest.is_empty() {
            return false;
        }
        self.sack = SackBlocks::EMPTY;
        for &[a, b, c, d, e, f, g, h] in blocks {
            let left = SeqNumber(u32::from_be_bytes([a, b, c, d]));
            let right = SeqNumber(u32::from_be_bytes([e, f, g, h]));
            self.sack.push(left, right);
        }
        true
    }

    /// Neither SACK blocks nor counters, of which only so much is written as fits.
    #[inline]
    fn is_fixed(&self) -> bool {
        self.sack.is_empty() & self.ecn_bytes.is_none()
    }

    /// Nothing but timestamps: what all segments have that follow the handshake and miss nothing.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.mss.is_none()
            & self.window_scale.is_none()
            & !self.sack_permitted
            & self.fast_open.is_none()
            & self.is_fixed()
    }

    /// Bytes that `emit` writes: a multiple of 4, at most 40.
    #[inline]
    pub fn emitted_len(&self) -> usize {
        match self.timestamps {
            Some(_) if self.is_plain() => STAMPS_LEN,
            None if self.is_plain() => 0,
            _ => self.any_len(),
        }
    }

    fn any_len(&self) -> usize {
        if self.is_fixed() {
            return self.len_without_sack();
        }
        let len = self.len_with_sack();
        len + self.ecn_room().map_or(0, |counters| counters.emitted_len())
    }

    fn len_with_sack(&self) -> usize {
        let sack = match self.sack_room() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        self.len_without_sack() + sack
    }

    /// The counters that fit: RFC 9768 §3.2.3.3 gives SACK the precedence.
    /// RFC 9768 §3.2.3.3-1.
    fn ecn_room(&self) -> Option<EcnBytes> {
        let room = MAX_LEN.saturating_sub(self.len_with_sack());
        self.ecn_bytes?.fitting(room)
    }

    fn len_without_sack(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let stamps = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let cookie = match self.fast_open {
            Some(cookie) => (2 + cookie.as_bytes().len()).next_multiple_of(4),
            None => 0,
        };
        mss + stamps + scale + cookie
    }

    /// SACK blocks that fit beside the other options.
    fn sack_room(&self) -> usize {
        let room = MAX_LEN.saturating_sub(self.len_without_sack() + 4) / 8;
        room.min(self.sack.len())
    }

    /// Writes the options, each group padded to 4 bytes: MSS; SACK permitted and timestamps; window
    /// scale; SACK; AccECN; Fast Open. SACK blocks and counters that do not fit are dropped from
    /// the end. Returns the length, or `None` if `out` is too short. RFC 9293 MUST-69.
    pub(super) fn emit(&self, out: &mut [u8]) -> Option<usize> {
        if let Some(options) = self.lone_stamps() {
            *out.first_chunk_mut()? = options;
            return Some(STAMPS_LEN);
        }
        if let Some(options) = self.usual_syn() {
            *out.first_chunk_mut()? = options;
            return Some(SYN_LEN);
        }
        self.emit_any(out)
    }

    /// The options of what follows the handshake, if there is nothing but timestamps: what `emit`
    /// writes.
    #[inline(always)]
    pub fn lone_stamps(&self) -> Option<[u8; STAMPS_LEN]> {
        let stamps = self.timestamps?;
        self.is_plain().then(|| stamps.emitted())
    }

    /// The options of a SYN as most have them, if it is such a one: what `emit` writes, and `read`
    /// expects.
    #[inline]
    pub fn usual_syn(&self) -> Option<[u8; SYN_LEN]> {
        let is_usual = self.sack_permitted && self.fast_open.is_none() && self.is_fixed();
        let (mss, scale) = (self.mss?, self.window_scale?);
        let [a, b] = mss.to_be_bytes();
        let [_, _, kind, len, c, d, e, f, g, h, i, j] = self.timestamps?.emitted();
        is_usual.then_some([
            MSS,
            4,
            a,
            b,
            SACK_PERMITTED,
            2,
            kind,
            len,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            NOP,
            WINDOW_SCALE,
            3,
            scale,
        ])
    }

    fn emit_any(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.any_len();
        let mut rest = out.get_mut(..len)?;
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            rest = put(rest, [MSS, 4, a, b])?;
        }
        rest = self.emit_stamps(rest)?;
        if let Some(shift) = self.window_scale {
            rest = put(rest, [NOP, WINDOW_SCALE, 3, shift])?;
        }
        if !self.is_fixed() {
            rest = self.emit_sack(rest)?;
            if let Some(counters) = self.ecn_room() {
                rest = counters.emit(rest)?;
            }
        }
        if let Some(cookie) = self.fast_open {
            emit_cookie(cookie, rest);
        }
        Some(len)
    }

    fn emit_stamps<'a>(&self, mut rest: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let [first, second] = if self.sack_permitted {
            [SACK_PERMITTED, 2]
        } else {
            [NOP, NOP]
        };
        if let Some(Timestamps { tsval, tsecr }) = self.timestamps {
            rest = put(rest, [first, second, TIMESTAMPS, 10])?;
            rest = put(rest, tsval.to_be_bytes())?;
            rest = put(rest, tsecr.to_be_bytes())?;
        } else if self.sack_permitted {
            rest = put(rest, [NOP, NOP, SACK_PERMITTED, 2])?;
        }
        Some(rest)
    }

    fn emit_sack<'a>(&self, mut rest: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let blocks = self.sack_room();
        if blocks == 0 {
            return Some(rest);
        }
        rest = put(rest, [NOP, NOP, SACK, 2 + 8 * blocks as u8])?;
        for (left, right) in self.sack.iter().take(blocks) {
            rest = put(rest, left.0.to_be_bytes())?;
            rest = put(rest, right.0.to_be_bytes())?;
        }
        Some(rest)
    }
}

fn put(out: &mut [u8], bytes: [u8; 4]) -> Option<&mut [u8]> {
    let (word, rest) = out.split_first_chunk_mut::<4>()?;
    *word = bytes;
    Some(rest)
}

/// Fills the rest of the options with the cookie option and NOPs.
fn emit_cookie(cookie: FastOpenCookie, rest: &mut [u8]) {
    let cookie = cookie.as_bytes();
    let bytes = [FAST_OPEN, 2 + cookie.len() as u8];
    let padded = bytes
        .iter()
        .chain(cookie)
        .copied()
        .chain(std::iter::repeat(NOP));
    for (to, from) in rest.iter_mut().zip(padded) {
        *to = from;
    }
}

/// One option as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawOption<'a> {
    /// No operation: padding.
    Nop,
    /// Any other option, value without kind and length.
    Other {
        /// Option kind.
        kind: u8,
        /// Its value.
        value: &'a [u8],
    },
    /// An option of this kind whose length is missing, less than 2, or beyond the header. Always
    /// the last.
    Malformed(u8),
}

/// The options on the wire, in order, up to the end of the list.
#[derive(Clone, Debug)]
pub struct RawOptions<'a> {
    rest: &'a [u8],
}

impl<'a> RawOptions<'a> {
    /// Walks the bytes between the fixed header and the payload.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

// RFC 9293 MUST-68, MUST-7, MUST-64.
impl<'a> Iterator for RawOptions<'a> {
    type Item = RawOption<'a>;

    fn next(&mut self) -> Option<RawOption<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        match kind {
            END => {
                self.rest = &[];
                None
            }
            NOP => {
                self.rest = rest;
                Some(RawOption::Nop)
            }
            _ => {
                let len = rest.first().map_or(0, |len| usize::from(*len));
                let (Some(value), Some(rest)) = (self.rest.get(2..len), self.rest.get(len..))
                else {
                    self.rest = &[];
                    return Some(RawOption::Malformed(kind));
                };
                self.rest = rest;
                Some(RawOption::Other { kind, value })
            }
        }
    }
}
