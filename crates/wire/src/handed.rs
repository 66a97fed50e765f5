//! The words behind a frame that one stack hands to others with the same addresses: its queue got
//! what belongs to one of them.

/// What the stack that hands a frame on says of it. On the link between the stacks it follows the
/// frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// Stacks that do not know it, one bit each; the one that sends it included.
    pub tried: u64,
    /// The stack that most likely does.
    pub likely: u8,
    /// The port it came in on.
    pub port: u8,
    /// For every other stack, not for the one that knows it.
    pub for_all: bool,
    /// None knows it: for one that can take it up.
    pub orphan: bool,
    /// For the wire: the stack that sends it has no queue any more.
    pub relay: bool,
}

impl Handed {
    /// Length of the words, in bytes.
    pub const LEN: usize = 16;
    /// Stacks that can be told from each other.
    pub const MAX_STACKS: u8 = 64;

    /// Writes `frame` with these words behind it. Returns the length of both; 0 and nothing written
    /// if `into` is too short.
    pub fn emit(&self, frame: &[u8], into: &mut [u8]) -> usize {
        match into.get_mut(..frame.len() + Self::LEN) {
            Some(into) => into[..frame.len()].copy_from_slice(frame),
            None => return 0,
        }
        self.append(frame.len(), into)
    }

    /// Writes these words behind the frame of `len` bytes that `into` begins with. Returns the
    /// length of both; 0 and nothing written if it is too short.
    pub fn append(&self, len: usize, into: &mut [u8]) -> usize {
        let behind = into.get_mut(len..).unwrap_or_default();
        let Some(words) = behind.first_chunk_mut::<{ Self::LEN }>() else {
            return 0;
        };
        *words = [0; Self::LEN];
        words[..8].copy_from_slice(&self.tried.to_be_bytes());
        words[8..10].copy_from_slice(&[self.likely, self.port]);
        words[10..13].copy_from_slice(&[self.for_all, self.orphan, self.relay].map(u8::from));
        len + Self::LEN
    }

    /// The frame, and the words behind it. `None`: there are none.
    pub fn split(bytes: &[u8]) -> Option<(&[u8], Self)> {
        let (frame, words) = bytes.split_last_chunk::<{ Self::LEN }>()?;
        let (tried, rest) = words.split_first_chunk::<8>()?;
        let [likely, port, for_all, orphan, relay, ..] = *rest else {
            return None;
        };
        let words = Self {
            tried: u64::from_be_bytes(*tried),
            likely,
            port,
            for_all: for_all != 0,
            orphan: orphan != 0,
            relay: relay != 0,
        };
        Some((frame, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_frame_arrives_with_it() {
        let words = Handed {
            tried: 1 << 63 | 5,
            likely: 2,
            port: 1,
            for_all: true,
            orphan: false,
            relay: true,
        };
        let mut bytes = [0xaa; 40];
        let len = words.emit(b"a frame", &mut bytes);
        assert_eq!(len, 7 + Handed::LEN);
        assert_eq!(
            Handed::split(&bytes[..len]),
            Some((b"a frame".as_slice(), words))
        );
    }

    #[test]
    fn what_is_too_short_is_refused() {
        let words = Handed {
            tried: 1,
            likely: 0,
            port: 0,
            for_all: false,
            orphan: true,
            relay: false,
        };
        assert_eq!(words.emit(b"a frame", &mut [0; 22]), 0);
        assert_eq!(words.emit(b"a frame", &mut [0; 3]), 0);
        assert_eq!(Handed::split(&[0; 15]), None);
    }
}
