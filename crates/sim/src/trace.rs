//! What went over the links: a hash that proves determinism, the last frames, and all of them as
//! text if someone wants them.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;

use wire::display::FrameDisplay;
use wire::time::Instant;

use crate::end::End;
use crate::pattern::mix;

/// Frames that a failure shows.
const TAIL: usize = 40;

/// Bytes of a frame that tell it from others.
const HEADERS: usize = 64;

/// What happened to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An end handed it to its link.
    Sent,
    /// The link lost it.
    Lost,
    /// It reached an end.
    Arrived,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Sent => ">",
            Self::Lost => "x",
            Self::Arrived => "<",
        }
    }
}

/// See the module.
pub(crate) struct Trace {
    hash: u64,
    frames: u64,
    tail: VecDeque<(Instant, End, Fate, Vec<u8>)>,
    text: Option<Box<dyn Write + Send>>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hash,
            frames,
            tail: _,
            text,
        } = self;
        f.debug_struct("Trace")
            .field("hash", hash)
            .field("frames", frames)
            .field("text", &text.is_some())
            .finish_non_exhaustive()
    }
}

impl Trace {
    pub fn new(seed: u64) -> Self {
        Self {
            hash: mix(seed),
            frames: 0,
            tail: VecDeque::with_capacity(TAIL),
            text: None,
        }
    }

    /// Writes every frame as a line of text from now on.
    pub fn write_to(&mut self, text: Box<dyn Write + Send>) {
        self.text = Some(text);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn note(&mut self, now: Instant, end: End, fate: Fate, bytes: &[u8]) {
        self.frames += 1;
        let meta = now.as_nanos() ^ mix(fate as u64) ^ mix(bytes.len() as u64);
        let hashed = match fate {
            Fate::Sent => bytes,
            // Its bytes are known; what a link did to them shows in what its end sends next.
            Fate::Lost | Fate::Arrived => bytes.get(..HEADERS).unwrap_or(bytes),
        };
        self.hash = hash(mix(self.hash ^ meta), hashed);
        if let Some(text) = &mut self.text {
            // A trace that cannot be written is not worth a failure.
            let _ = writeln!(text, "{}", line(now, end, fate, bytes));
        }
        self.remember(now, end, fate, bytes);
    }

    /// Keeps the headers of the last frames; their buffers are used again.
    fn remember(&mut self, now: Instant, end: End, fate: Fate, bytes: &[u8]) {
        let mut copy = match self.tail.len() < TAIL {
            true => Vec::new(),
            false => self.tail.pop_front().map_or_else(Vec::new, |(.., old)| old),
        };
        copy.clear();
        copy.extend_from_slice(bytes);
        self.tail.push_back((now, end, fate, copy));
    }

    /// The last frames as text.
    pub fn tail(&self) -> Vec<String> {
        let lines = self.tail.iter();
        lines
            .map(|(now, end, fate, bytes)| line(*now, *end, *fate, bytes))
            .collect()
    }
}

fn hash(start: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| {
        (hash ^ word)
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(start, |hash, word| step(hash, u64::from_le_bytes(*word)));
    rest.iter()
        .fold(hash, |hash, byte| step(hash, (*byte).into()))
}

fn line(now: Instant, end: End, fate: Fate, bytes: &[u8]) -> String {
    let end = match end {
        End::Host(host, port) => format!("h{}.{}", host.0, port.0),
        End::Peer(peer) => format!("p{}", peer.0),
        End::Switch(switch) => format!("s{}", switch.0),
    };
    format!("{now:?} {end} {} {}", fate.word(), FrameDisplay(bytes))
}
