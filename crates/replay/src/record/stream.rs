//! One direction of a connection: its bytes in order, each once, and those that the capture has
//! not.

use std::collections::BTreeMap;

use wire::seq::SeqNumber;

/// Bytes that wait for others in front of them; of more, what is in front is lost.
const WAITING_MAX: usize = 4 << 20;
/// Segments of the connection after which what is missing, and was acknowledged, is lost: a capture
/// may have packets in another order than the wire.
const REORDERING: u32 = 8;

/// What comes next in a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes that the receiver has and the capture has not.
    Lost(u64),
}

/// A direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Number of the next byte, and how many came before.
    next: Option<SeqNumber>,
    offset: u64,
    /// What came early, by its offset.
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: usize,
    /// Segments of the connection that came since the first of them.
    since: u32,
    /// What the receiver has.
    acknowledged: u64,
    fin: Option<u64>,
}

impl Stream {
    /// Whether its beginning is known.
    pub(super) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// The first byte has this number.
    pub(super) fn begin(&mut self, first: SeqNumber) {
        self.next = Some(first);
    }

    /// Whether all up to the FIN is there.
    pub(super) fn has_ended(&self) -> bool {
        self.fin.is_some_and(|fin| self.offset >= fin)
    }

    /// The offset of a number, if it is near what comes next.
    fn offset_of(&self, number: SeqNumber) -> Option<u64> {
        let distance = number.distance_from(self.next?);
        self.offset.checked_add_signed(i64::from(distance))
    }

    /// Takes a segment; what comes next goes to `sink`.
    pub(super) fn segment(
        &mut self,
        seq: SeqNumber,
        payload: &[u8],
        fin: bool,
        sink: &mut dyn FnMut(Piece<'_>),
    ) {
        // Numbers from before the beginning are those of a keepalive or of a capture that began
        // late.
        let old = self.next.map_or(0, |next| next - seq);
        let (at, payload) = match self.offset_of(seq) {
            Some(at) => (at, payload),
            None => match payload.get(old as usize..) {
                Some(rest) => (self.offset, rest),
                None => return,
            },
        };
        if fin {
            self.fin = Some(at + payload.len() as u64);
        }
        if payload.is_empty() {
            return;
        }
        if at > self.offset {
            self.keep(at, payload);
            if self.waiting_bytes > WAITING_MAX {
                self.give_up(sink);
            }
            return;
        }
        self.deliver(at, payload, sink);
        self.deliver_waiting(sink);
    }

    fn keep(&mut self, at: u64, payload: &[u8]) {
        if self.waiting.is_empty() {
            self.since = 0;
        }
        let known = self.waiting.get(&at).map_or(0, Vec::len);
        if payload.len() > known {
            self.waiting_bytes += payload.len() - known;
            self.waiting.insert(at, payload.to_vec());
        }
    }

    /// What of `payload` at `at` is new.
    fn deliver(&mut self, at: u64, payload: &[u8], sink: &mut dyn FnMut(Piece<'_>)) {
        let known = self.offset - at;
        let Some(new) = payload.get(known as usize..).filter(|new| !new.is_empty()) else {
            return;
        };
        self.advance(new.len() as u64);
        sink(Piece::Bytes(new));
    }

    fn deliver_waiting(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() > self.offset {
                return;
            }
            let (at, payload) = first.remove_entry();
            self.waiting_bytes -= payload.len();
            self.deliver(at, &payload, sink);
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.next = self.next.map(|next| next + bytes as u32);
    }

    /// The receiver says what it has.
    pub(super) fn acknowledge(&mut self, ack: SeqNumber) {
        if let Some(at) = self.offset_of(ack) {
            self.acknowledged = self.acknowledged.max(at);
        }
    }

    /// Another segment of the connection came, in either direction.
    pub(super) fn turn(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        let Some((first, _)) = self.waiting.first_key_value() else {
            return;
        };
        self.since += 1;
        if self.since >= REORDERING && self.acknowledged >= *first {
            self.give_up(sink);
            self.since = 0;
        }
    }

    /// What is missing in front of what waits is lost.
    fn give_up(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        let Some((&first, _)) = self.waiting.first_key_value() else {
            return;
        };
        let lost = first - self.offset;
        self.advance(lost);
        sink(Piece::Lost(lost));
        self.deliver_waiting(sink);
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        while !self.waiting.is_empty() {
            self.give_up(sink);
        }
        // Where no FIN was captured, the last number that was acknowledged is that of one.
        let fin = self.fin.unwrap_or(self.acknowledged.saturating_sub(1));
        let end = fin.min(self.acknowledged);
        if end > self.offset {
            let lost = end - self.offset;
            self.advance(lost);
            sink(Piece::Lost(lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of segments, in this order; what is lost is `?`.
    struct Sink(String);

    impl Sink {
        fn take(&mut self, piece: &Piece<'_>) {
            match piece {
                Piece::Bytes(bytes) => self.0.push_str(std::str::from_utf8(bytes).unwrap()),
                Piece::Lost(count) => self.0.push_str(&"?".repeat(*count as usize)),
            }
        }
    }

    const FIRST: u32 = u32::MAX - 2;

    fn stream() -> Stream {
        let mut stream = Stream::default();
        stream.begin(SeqNumber(FIRST));
        stream
    }

    fn at(offset: u32) -> SeqNumber {
        SeqNumber(FIRST) + offset
    }

    fn feed(stream: &mut Stream, out: &mut Sink, offset: u32, bytes: &str) {
        stream.segment(at(offset), bytes.as_bytes(), false, &mut |piece| {
            out.take(&piece)
        });
    }

    #[test]
    fn whatever_the_order_every_byte_comes_once() {
        let mut out = Sink(String::new());
        let mut stream = stream();
        for (offset, bytes) in [
            (3, "def"),
            (0, "ab"),
            (1, "bcd"),
            (0, "abc"),
            (8, "ij"),
            (6, "gh"),
            (7, "hijk"),
        ] {
            feed(&mut stream, &mut out, offset, bytes);
        }
        assert_eq!(out.0, "abcdefghijk");
        stream.finish(&mut |piece| out.take(&piece));
        assert_eq!(out.0, "abcdefghijk");
    }

    #[test]
    fn what_the_receiver_has_and_the_capture_has_not_is_lost() {
        let mut out = Sink(String::new());
        let mut stream = stream();
        feed(&mut stream, &mut out, 0, "ab");
        feed(&mut stream, &mut out, 5, "fg");
        for _ in 0..20 {
            stream.turn(&mut |piece| out.take(&piece));
        }
        // Maybe it is still on its way.
        assert_eq!(out.0, "ab");
        stream.acknowledge(at(7));
        stream.turn(&mut |piece| out.take(&piece));
        assert_eq!(out.0, "ab???fg");
        stream.acknowledge(at(9));
        stream.segment(at(9), b"", true, &mut |piece| out.take(&piece));
        stream.finish(&mut |piece| out.take(&piece));
        assert_eq!(out.0, "ab???fg??");
        assert!(stream.has_ended());
    }

    #[test]
    fn a_fin_that_is_missing_is_no_byte() {
        let mut out = Sink(String::new());
        let mut stream = stream();
        feed(&mut stream, &mut out, 0, "ab");
        stream.acknowledge(at(3));
        stream.finish(&mut |piece| out.take(&piece));
        assert_eq!(out.0, "ab");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut lost = 0;
        let mut stream = stream();
        let piece = vec![b'x'; 60_000];
        for number in 0..100 {
            let offset = 100 + number * 60_000;
            stream.segment(at(offset), &piece, false, &mut |piece| {
                lost += u64::from(piece == Piece::Lost(100));
            });
            assert!(stream.waiting_bytes <= WAITING_MAX + piece.len());
        }
        assert_eq!(lost, 1);
    }
}
