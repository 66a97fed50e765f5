//! SYN cookies (RFC 4987 §3.6): when there is no room for a half-open record, our initial sequence
//! number holds what has to be remembered, and the ACK brings it back. What does not fit into it
//! travels in the timestamp that the peer echoes; without timestamps window scaling and SACK are
//! not offered.
//!
//! Where other stacks go on for this one when it ends (`config::Seat`), the sequence number of
//! every SYN-ACK is a cookie, under a key that they have too.

use std::fmt;
use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher13;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, Timestamps};
use wire::time::Instant;

use crate::config::{Config, EcnUse, SynCookies};
use crate::flow::FlowKey;
use crate::id::PortId;
use crate::secret::keyed;
use crate::tcp::ecn::{Answer, Feedback};
use crate::tcp::options::window_scale_for;
use crate::tcp::segment::Segment;
use crate::tcp::setup::half_open::{HalfOpen, Options};

/// A cookie is good in the period in which it was made and in the next: one to two minutes.
const PERIOD_SECONDS: u64 = 64;
/// How long after it was sent a cookie may come back.
pub(crate) const LIFETIME: Duration = Duration::from_secs(2 * PERIOD_SECONDS);
/// The MSS values that a cookie can stand for; 64 is the smallest that we believe.
const MSS: [u16; 8] = [64, 536, 1220, 1300, 1380, 1440, 1460, 8940];
/// The low bits of a cookie: an index into `MSS`.
const MSS_MASK: u32 = 7;
/// The low bits of a timestamp: the peer's window scale, or `NO_SCALE` ...
const SCALE_MASK: u32 = 0x0f;
const NO_SCALE: u32 = 0x0f;
/// ... whether it understands SACK ...
const SACK_BIT: u32 = 0x10;
/// ... and whether ECN was agreed on (RFC 3168; the codes of RFC 9768 have no place here).
const ECN_BIT: u32 = 0x20;
const STAMP_MASK: u32 = 0x3f;

/// Makes and checks cookies.
pub(crate) struct Cookies {
    hasher: SipHasher13,
    /// When the last one was sent: without, no ACK can bring one back, and guessing is in vain.
    last_sent: Option<Instant>,
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("Cookies")
            .field("last_sent", &self.last_sent)
            .finish_non_exhaustive()
    }
}

/// What an ACK for a listener brings back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taken {
    /// No cookie could come back.
    Nothing,
    /// No cookie of ours, or one that is too old.
    Forged,
    Cookie(HalfOpen),
}

/// What a cookie stands for, besides the MSS.
struct Facts<'a> {
    key: &'a FlowKey,
    irs: SeqNumber,
    /// The low bits of the timestamp: those of any other segment of ours are not what the SYNs
    /// agreed on.
    told: u32,
}

impl<'a> Facts<'a> {
    fn of(record: &'a HalfOpen) -> Self {
        Self {
            key: &record.key,
            irs: record.irs,
            told: told(record),
        }
    }

    fn brought(seg: &'a Segment<'_>, told: u32) -> Self {
        Self {
            key: seg.key,
            irs: seg.seq - 1,
            told: told & STAMP_MASK,
        }
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / (PERIOD_SECONDS * 1_000_000_000)
}

impl Cookies {
    /// When the last one was sent.
    pub fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// Another process sent the last one then.
    pub fn set_last_sent(&mut self, at: Option<Instant>) {
        self.last_sent = at;
    }

    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            hasher: keyed(secret, "syn cookies"),
            last_sent: None,
        }
    }

    /// The cookie in the answer to a SYN.
    pub fn make(&mut self, now: Instant, record: &HalfOpen) -> SeqNumber {
        self.last_sent = Some(now);
        let fits = |mss: &u16| *mss <= record.peer_mss;
        let index = MSS.iter().rposition(fits).unwrap_or(0) as u32;
        self.cookie(period(now), &Facts::of(record), index)
    }

    /// A hash over all that it stands for, 29 bits of it, under a key that is another in each
    /// period; the index of the MSS below. A guess is right once in 2^28.
    fn cookie(&self, period: u64, facts: &Facts<'_>, index: u32) -> SeqNumber {
        let mut rotated = self.hasher;
        rotated.write_u64(period);
        let mut hasher = SipHasher13::new_with_keys(rotated.finish(), period);
        hasher.write(&facts.key.bytes());
        hasher.write_u32(facts.irs.0);
        hasher.write_u32(facts.told);
        hasher.write_u32(index);
        SeqNumber(hasher.finish() as u32 & !MSS_MASK | index)
    }

    /// Whether a cookie could come back now.
    fn is_expected(&self, now: Instant) -> bool {
        self.last_sent.is_some_and(|sent| now <= sent + LIFETIME)
    }

    /// What the ACK `seg` brings back: the half-open record of `listener` that a cookie stands for.
    pub fn take(&self, now: Instant, config: &Config, listener: u32, seg: &Segment<'_>) -> Taken {
        let off = config.syn_cookies == SynCookies::Off;
        let expected = config.bequeaths() || self.is_expected(now);
        if off || seg.has(TcpFlags::SYN) || !expected {
            return Taken::Nothing;
        }
        let facts = Facts::brought(seg, echoed(config, seg));
        match self.check(now, &facts, seg.ack - 1) {
            Some(mss) => Taken::Cookie(recall(config, listener, mss, seg)),
            None => Taken::Forged,
        }
    }

    /// The MSS that a cookie stands for, if it is one of ours and not too old.
    /// RFC 4987 §3.6-2.
    fn check(&self, now: Instant, facts: &Facts<'_>, cookie: SeqNumber) -> Option<u16> {
        let index = cookie.0 & MSS_MASK;
        let period = period(now);
        let mut ours = [Some(period), period.checked_sub(1)].into_iter().flatten();
        ours.any(|period| self.cookie(period, facts, index) == cookie)
            .then(|| MSS.get(index as usize).copied())
            .flatten()
    }
}

/// What the SYNs agreed on, in a few bits.
fn told(record: &HalfOpen) -> u32 {
    let scale = if record.has(Options::SCALING) {
        u32::from(record.snd_wscale)
    } else {
        NO_SCALE
    };
    let sack = if record.has(Options::SACK) {
        SACK_BIT
    } else {
        0
    };
    let ecn = if record.ecn.feedback() == Feedback::Classic {
        ECN_BIT
    } else {
        0
    };
    scale | sack | ecn
}

/// Hides that in the low bits of a timestamp, which never runs ahead of the clock: segments that
/// follow have to be newer.
fn stamp(clock: u32, bits: u32) -> u32 {
    let stamp = clock & !STAMP_MASK | bits;
    if bits > clock & STAMP_MASK {
        stamp.wrapping_sub(STAMP_MASK + 1)
    } else {
        stamp
    }
}

/// A timestamp that reminds of what the SYNs agreed on.
pub(crate) fn remind(stamps: Timestamps, record: &HalfOpen) -> Timestamps {
    Timestamps {
        tsval: stamp(stamps.tsval, told(record)),
        ..stamps
    }
}

/// What the peer brings back besides.
fn echoed(config: &Config, seg: &Segment<'_>) -> u32 {
    let stamps = seg.options.timestamps.filter(|_| config.timestamps);
    stamps.map_or(NO_SCALE, |Timestamps { tsecr, .. }| tsecr)
}

/// The half-open record that the cookie stands for.
fn recall(config: &Config, listener: u32, peer_mss: u16, seg: &Segment<'_>) -> HalfOpen {
    let stamps = seg.options.timestamps.filter(|_| config.timestamps);
    let told = echoed(config, seg);
    let scaling = config.window_scaling && told & SCALE_MASK != NO_SCALE;
    let mut agreed = Options::empty();
    agreed.set(Options::TIMESTAMPS, stamps.is_some());
    agreed.set(Options::SACK, told & SACK_BIT != 0);
    let ecn = config.ecn != EcnUse::Off && told & ECN_BIT != 0;
    agreed.set(Options::SCALING, scaling);
    HalfOpen {
        key: *seg.key,
        iss: seg.ack - 1,
        irs: seg.seq - 1,
        ts_recent: stamps.map_or(0, |stamps| stamps.tsval),
        sent_at: 0,
        listener: listener as u16,
        peer_mss,
        window: seg.window,
        snd_wscale: if scaling {
            (told & SCALE_MASK) as u8
        } else {
            0
        },
        rcv_wscale: if scaling {
            window_scale_for(config.max_buffer)
        } else {
            0
        },
        port: PortId(0),
        retries: 0,
        agreed,
        ecn: if ecn {
            Answer::CLASSIC
        } else {
            Answer::REFUSAL
        },
    }
}
