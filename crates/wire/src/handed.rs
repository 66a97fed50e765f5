//! The words behind a frame that one stack hands to others with the same addresses: its queue got what belongs to one of them.

/// What the stack that hands a frame on says of it. On the link between the stacks it follows the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Handed {
    /// Length of the words, in bytes.
    pub const LEN: usize = 16;
    /// Stacks that can be told from each other.
    pub const MAX_STACKS: u8 = 64;

    /// Writes `frame` with these words behind it. Returns the length of both; 0 and nothing written if `into` is too short.
    pub fn emit(&self, frame: &[u8], into: &mut [u8]) -> usize {
        let Some((place, words)) = into.split_at_mut_checked(frame.len()) else {
            return 0;
        };
        let Some(words) = words.first_chunk_mut::<{ Self::LEN }>() else {
            return 0;
        };
        place.copy_from_slice(frame);
        *words = [0; Self::LEN];
        words[..8].copy_from_slice(&self.tried.to_be_bytes());
        let [for_all, orphan] = [self.for_all.into(), self.orphan.into()];
        words[8..12].copy_from_slice(&[self.likely, self.port, for_all, orphan]);
        frame.len() + Self::LEN
    }

    /// The frame, and the words behind it. `None`: there are none.
    pub fn split(bytes: &[u8]) -> Option<(&[u8], Self)> {
        let (frame, words) = bytes.split_last_chunk::<{ Self::LEN }>()?;
        let (tried, rest) = words.split_first_chunk::<8>()?;
        let [likely, port, for_all, orphan, ..] = *rest else {
            return None;
        };
        let words = Self {
            tried: u64::from_be_bytes(*tried),
            likely,
            port,
            for_all: for_all != 0,
            orphan: orphan != 0,
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
        };
        assert_eq!(words.emit(b"a frame", &mut [0; 22]), 0);
        assert_eq!(words.emit(b"a frame", &mut [0; 3]), 0);
        assert_eq!(Handed::split(&[0; 15]), None);
    }
}
