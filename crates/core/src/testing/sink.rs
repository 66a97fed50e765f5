//! A link's transmit side that keeps what it is given.

use std::collections::VecDeque;

use wire::frame::{FrameSink, TxChecksum, TxMeta};

/// Keeps frames, as many as `room` says.
#[derive(Debug)]
pub struct Sink {
    /// Sent and not looked at.
    pub frames: VecDeque<Vec<u8>>,
    /// Frames that may still be sent.
    pub room: usize,
    /// Length of the frames that are lent, bytes.
    pub frame_len: usize,
    /// Length of the longest frames that are lent for GSO frames, bytes.
    pub gso_len: usize,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            room: usize::MAX,
            frame_len: 1518,
            gso_len: usize::MAX,
        }
    }
}

impl FrameSink for Sink {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.lend(self.frame_len, fill);
        true
    }

    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.lend(len.min(self.gso_len).max(self.frame_len), fill);
        true
    }
}

impl Sink {
    fn lend(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) {
        let mut frame = vec![0xee; len];
        let meta = fill(&mut frame);
        assert!(meta.len <= frame.len(), "frame longer than what was lent");
        assert_eq!(
            meta.checksum,
            TxChecksum::Complete,
            "this link does not finish checksums"
        );
        frame.truncate(meta.len);
        if !frame.is_empty() {
            self.frames.push_back(frame);
        }
    }
}
