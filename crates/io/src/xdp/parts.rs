//! Received packets that lie in several frames, put together.

use std::ops::Range;

use wire::frame::{BURST, LONGEST, RxFrame};

/// In the options of a descriptor: the packet goes on in the next one (`linux/if_xdp.h`).
pub(super) const XDP_PKT_CONTD: u32 = 1 << 0;

/// Where a packet lies that a part made whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// It is all of the part with this number in the burst, and lies where that was.
    Alone(u32),
    /// It is these bytes of the joiner's, up to the next [`Joiner::begin`].
    Joined(Range<usize>),
}

/// Where parts of packets are copied together. A packet may end in another burst than it began in,
/// or be longer than any.
///
/// The lists of a burst lie here, too, not on the stack of a thread of the program, which may be a
/// small one.
#[derive(Debug)]
pub(super) struct Joiner {
    bytes: Box<[u8]>,
    /// The packets of this burst.
    wholes: Vec<Whole>,
    /// Room for [`Joiner::lend`]; empty otherwise.
    frames: Vec<RxFrame<'static>>,
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
            wholes: Vec::with_capacity(BURST),
            frames: Vec::with_capacity(BURST),
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
        self.wholes.clear();
    }

    /// Takes the part with this number, with which a packet ends or not.
    pub(super) fn add(&mut self, number: u32, part: &[u8], ends: bool) {
        let whole = self.join(number, part, ends);
        // There is room for those of a burst, which is all that is asked for.
        self.wholes.extend(whole);
    }

    fn join(&mut self, number: u32, part: &[u8], ends: bool) -> Option<Whole> {
        if self.skips {
            self.skips = !ends;
            return None;
        }
        if ends && !self.is_open {
            return Some(Whole::Alone(number));
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

    /// Lends the packets of this burst to `each`, if there are any: `at` says where a part lies,
    /// `make` what is said of a packet. Returns how many there are.
    pub(super) fn lend<'a>(
        &'a mut self,
        at: impl Fn(u32) -> &'a [u8],
        make: impl Fn(&'a [u8]) -> RxFrame<'a>,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        let mut frames: Vec<RxFrame<'a>> = std::mem::take(&mut self.frames);
        frames.extend(self.wholes.iter().map(|whole| {
            make(match whole {
                Whole::Alone(number) => at(*number),
                Whole::Joined(range) => self.bytes.get(range.clone()).unwrap_or_default(),
            })
        }));
        let count = frames.len();
        if count > 0 {
            each(&frames);
        }
        frames.clear();
        self.frames = emptied(frames);
        count
    }

    /// Packets that were longer than any is.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// The same memory, for frames of another life: what makes nothing of nothing keeps it.
fn emptied(frames: Vec<RxFrame<'_>>) -> Vec<RxFrame<'static>> {
    let none = |frame: RxFrame<'_>| RxFrame {
        bytes: &[],
        ..frame
    };
    frames.into_iter().map(none).collect()
}

#[cfg(test)]
mod tests {
    use wire::frame::RxMeta;

    use super::*;

    const SIZE: u32 = 4096;
    const PART: usize = SIZE as usize;

    /// A burst of these parts, each with whether a packet ends with it: the packets that it made
    /// whole.
    fn burst(joiner: &mut Joiner, parts: &[(&[u8], bool)]) -> Vec<Vec<u8>> {
        joiner.begin();
        for (number, (part, ends)) in (0..).zip(parts) {
            joiner.add(number, part, *ends);
        }
        let (mut packets, at) = (Vec::new(), joiner.frames.as_ptr());
        let frame = |bytes| RxFrame {
            bytes,
            meta: RxMeta::default(),
        };
        let count = joiner.lend(
            |number| parts[number as usize].0,
            frame,
            |frames| packets = frames.iter().map(|frame| frame.bytes.to_vec()).collect(),
        );
        assert_eq!(count, packets.len());
        assert!(
            joiner.frames.is_empty() && joiner.frames.as_ptr() == at,
            "made anew"
        );
        packets
    }

    #[test]
    fn parts_are_put_together_beside_packets_that_are_whole() {
        let mut joiner = Joiner::new(SIZE);
        let parts: [(&[u8], bool); 6] = [
            (b"whole", true),
            (b"one", false),
            (b"two", true),
            (b"three", false),
            (b"four", true),
            (b"whole", true),
        ];
        let packets = burst(&mut joiner, &parts);
        assert_eq!(packets, [&b"whole"[..], b"onetwo", b"threefour", b"whole"]);
        assert_eq!(
            joiner.wholes[1..3],
            [Whole::Joined(0..6), Whole::Joined(6..15)]
        );
    }

    #[test]
    fn a_packet_may_end_in_another_burst() {
        let mut joiner = Joiner::new(SIZE);
        let first: [(&[u8], bool); 3] = [(b"zero", false), (b"", true), (b"one", false)];
        assert_eq!(burst(&mut joiner, &first), [b"zero"]);
        for _ in 0..3 {
            assert!(burst(&mut joiner, &[(b"more", false)]).is_empty());
        }
        let packets = burst(&mut joiner, &[(b"two", true)]);
        assert_eq!(packets, [b"onemoremoremoretwo"]);
    }

    /// However many parts come, and whatever their lengths.
    #[test]
    fn a_packet_without_an_end_is_lost_and_the_next_is_not() {
        let mut joiner = Joiner::new(SIZE);
        for _ in 0..10 {
            assert!(burst(&mut joiner, &[(&[7; PART][..], false); BURST]).is_empty());
        }
        assert_eq!(joiner.lost(), 1);
        let rest: [(&[u8], bool); 2] = [(&[7; PART], true), (b"whole", true)];
        assert_eq!(burst(&mut joiner, &rest), [b"whole"], "without its end");
        let packets = burst(&mut joiner, &[(b"one", false), (b"two", true)]);
        assert_eq!(packets, [b"onetwo"]);
        assert_eq!(joiner.lost(), 1);
    }

    #[test]
    fn a_burst_of_long_packets_has_room() {
        let mut joiner = Joiner::new(SIZE);
        for _ in 0..3 {
            let parts: Vec<(&[u8], bool)> =
                (0..BURST).map(|at| (&[7; PART][..], at % 2 == 1)).collect();
            let packets = burst(&mut joiner, &parts);
            assert_eq!(packets.len(), BURST / 2);
            assert!(packets.iter().all(|packet| packet.len() == 2 * PART));
        }
        assert_eq!(joiner.lost(), 0);
    }

    #[test]
    fn parts_of_nothing_are_parts() {
        let mut joiner = Joiner::new(SIZE);
        assert_eq!(
            burst(&mut joiner, &[(b"", false), (b"end", true)]),
            [b"end"]
        );
        assert_eq!(burst(&mut joiner, &[(b"", false), (b"", true)]), [b""]);
    }
}
