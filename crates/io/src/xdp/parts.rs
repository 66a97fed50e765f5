//! Received packets that lie in several frames, put together.

use std::ops::Range;

use wire::frame::{BURST, LONGEST};

/// In the options of a descriptor: the packet goes on in the next one (`linux/if_xdp.h`).
pub(super) const XDP_PKT_CONTD: u32 = 1 << 0;

/// What a part made whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// It is all of a packet, and lies where it was.
    Alone,
    /// The packet is these bytes of [`Joiner::bytes`], up to the next [`Joiner::begin`].
    Joined(Range<usize>),
}

/// Where parts of packets are copied together. A packet may end in another burst than it began in, or be longer than any.
#[derive(Debug)]
pub(super) struct Joiner {
    bytes: Box<[u8]>,
    /// Where the packet that is not whole yet lies.
    open: Range<usize>,
    /// A packet has begun and is not whole.
    is_open: bool,
    /// The rest of the packet is to be lost.
    skips: bool,
    lost: u64,
}

impl Joiner {
    /// For frames of `size` bytes.
    pub(super) fn new(size: u32) -> Self {
        Self {
            bytes: vec![0; LONGEST + BURST * size as usize].into(),
            open: 0..0,
            is_open: false,
            skips: false,
            lost: 0,
        }
    }

    /// A burst of at most [`BURST`] parts begins. What was made whole before is gone.
    pub(super) fn begin(&mut self) {
        let len = self.open.len();
        self.bytes.copy_within(self.open.clone(), 0);
        self.open = 0..len;
    }

    /// Takes the next part, with which a packet ends or not.
    pub(super) fn add(&mut self, part: &[u8], ends: bool) -> Option<Whole> {
        if self.skips {
            self.skips = !ends;
            return None;
        }
        if ends && !self.is_open {
            return Some(Whole::Alone);
        }
        let end = self.open.end + part.len();
        let fits = self.open.len() + part.len() <= LONGEST;
        let room = self.bytes.get_mut(self.open.end..end).filter(|_| fits);
        let Some(room) = room else {
            self.lost += 1;
            self.skips = !ends;
            self.close(self.open.start);
            return None;
        };
        room.copy_from_slice(part);
        self.open.end = end;
        self.is_open = !ends;
        ends.then(|| {
            let whole = self.open.clone();
            self.close(end);
            Whole::Joined(whole)
        })
    }

    /// The next packet goes here.
    fn close(&mut self, at: usize) {
        self.open = at..at;
        self.is_open = false;
    }

    /// Where packets lie that were made whole.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Packets that were longer than any is.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 4096;
    const PART: usize = SIZE as usize;

    fn join(joiner: &mut Joiner, part: &[u8], ends: bool) -> Option<Vec<u8>> {
        match joiner.add(part, ends)? {
            Whole::Alone => Some(part.to_vec()),
            Whole::Joined(at) => Some(joiner.bytes()[at].to_vec()),
        }
    }

    #[test]
    fn parts_are_put_together_beside_packets_that_are_whole() {
        let mut joiner = Joiner::new(SIZE);
        joiner.begin();
        assert_eq!(joiner.add(b"whole", true), Some(Whole::Alone));
        assert_eq!(joiner.add(b"one", false), None);
        assert_eq!(joiner.add(b"two", true), Some(Whole::Joined(0..6)));
        assert_eq!(joiner.add(b"three", false), None);
        assert_eq!(joiner.add(b"four", true), Some(Whole::Joined(6..15)));
        assert_eq!(&joiner.bytes()[..15], b"onetwothreefour");
        assert_eq!(joiner.add(b"whole", true), Some(Whole::Alone));
    }

    #[test]
    fn a_packet_may_end_in_another_burst() {
        let mut joiner = Joiner::new(SIZE);
        joiner.begin();
        joiner.add(b"zero", false);
        joiner.add(b"", true);
        joiner.add(b"one", false);
        for _ in 0..3 {
            joiner.begin();
            joiner.add(b"more", false);
        }
        joiner.begin();
        let whole = join(&mut joiner, b"two", true).unwrap();
        assert_eq!(whole, b"onemoremoremoretwo");
    }

    /// However many parts come, and whatever their lengths.
    #[test]
    fn a_packet_without_an_end_is_lost_and_the_next_is_not() {
        let mut joiner = Joiner::new(SIZE);
        for _ in 0..10 {
            joiner.begin();
            for _ in 0..BURST {
                assert_eq!(joiner.add(&[7; PART], false), None);
            }
        }
        assert_eq!(joiner.lost(), 1);
        assert_eq!(joiner.add(&[7; PART], true), None, "its end");
        assert_eq!(joiner.add(b"whole", true), Some(Whole::Alone));
        joiner.begin();
        joiner.add(b"one", false);
        assert_eq!(join(&mut joiner, b"two", true).unwrap(), b"onetwo");
        assert_eq!(joiner.lost(), 1);
    }

    #[test]
    fn a_burst_of_long_packets_has_room() {
        let mut joiner = Joiner::new(SIZE);
        for round in 0..3 {
            joiner.begin();
            for at in 0..BURST {
                let ends = at % 2 == 1;
                let whole = join(&mut joiner, &[round; PART], ends);
                assert_eq!(whole.map(|whole| whole.len()), ends.then_some(2 * PART));
            }
        }
        assert_eq!(joiner.lost(), 0);
    }

    #[test]
    fn parts_of_nothing_are_parts() {
        let mut joiner = Joiner::new(SIZE);
        joiner.begin();
        joiner.add(b"", false);
        assert_eq!(join(&mut joiner, b"end", true).unwrap(), b"end");
        joiner.add(b"", false);
        assert_eq!(join(&mut joiner, b"", true).unwrap(), b"");
    }
}
