//! What came to the wrong stack: where several stacks have the same addresses, each with a queue of
//! its own, a frame whose connection, listener or neighbour this one does not know goes to the
//! others, one after the other, and only the last of them answers with a RST. What says where a
//! neighbour is goes to all of them.

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{FrameSink, LINK_HEADERS, RxFrame, TxMeta};
use wire::handed::Handed;
use wire::ip::Protocol;

use crate::config::{Config, Seat};
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;

/// Frames that may wait to be handed over: several bursts.
const ROOM: usize = 256;
/// RFC 826: an answer.
const ARP_REPLY: [u8; 2] = [0, 2];
/// RFC 4861 §4.4.
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// A frame, and who has seen it: no other stack, or some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub port: PortId,
    pub frame: &'a [u8],
    /// Stacks that do not know it.
    pub tried: u64,
    /// This stack wants it back, to answer it, if they all do not.
    pub returns: bool,
    /// None does: one that can is to take it up.
    pub orphan: bool,
}

impl Origin<'_> {
    /// All were asked, in vain.
    pub fn orphaned(self) -> Self {
        Self {
            tried: if self.orphan { self.tried } else { 0 },
            orphan: true,
            ..self
        }
    }
}

/// The frames that wait for the others to take them, oldest first, in a ring that is allocated
/// once.
#[derive(Debug)]
pub(crate) struct Handover {
    seat: Seat,
    bytes: Box<[u8]>,
    /// Bytes that each has room for.
    each: usize,
    lens: [usize; ROOM],
    first: usize,
    count: usize,
}

impl Handover {
    /// `None`: there are no other stacks.
    pub fn new(config: &Config) -> Option<Self> {
        let seat = config.seat.filter(|seat| seat.seats > 1)?;
        let mtu = |interface: &crate::config::Interface| interface.capabilities.mtu;
        let mtu = config.interfaces.iter().map(mtu).max().unwrap_or_default();
        let each = usize::from(mtu) + LINK_HEADERS + Handed::LEN;
        Some(Self {
            seat,
            bytes: vec![0; each * ROOM].into(),
            each,
            lens: [0; ROOM],
            first: 0,
            count: 0,
        })
    }

    /// Whether a connection that is opened here may have this local port: answers come to any of
    /// the stacks, which know by it whose they are; and no two have the same.
    pub fn owns(&self, port: u16) -> bool {
        port % u16::from(self.seat.seats) == u16::from(self.seat.index)
    }

    /// Hands on what is for the local `port` and unknown here. False: there is nobody left to ask.
    pub fn pass(&mut self, origin: &Origin<'_>, port: u16, counters: &mut Counters) -> bool {
        let tried = origin.tried | 1 << self.seat.index;
        if tried.count_ones() >= u32::from(self.seat.seats) {
            return false;
        }
        let words = Handed {
            tried: if origin.returns { origin.tried } else { tried },
            likely: (port % u16::from(self.seat.seats)) as u8,
            port: origin.port.0,
            for_all: false,
            orphan: origin.orphan,
            relay: false,
        };
        self.push(origin.frame, &words, counters);
        true
    }

    /// Tells the others what a frame from the wire says of a neighbour, if it is of that kind.
    pub fn spread(&mut self, port: PortId, frame: &RxFrame<'_>, counters: &mut Counters) {
        if !is_about_neighbours(frame.bytes) {
            return;
        }
        let words = Handed {
            tried: 1 << self.seat.index,
            likely: self.seat.index,
            port: port.0,
            for_all: true,
            orphan: false,
            relay: false,
        };
        self.push(frame.bytes, &words, counters);
    }

    fn push(&mut self, frame: &[u8], words: &Handed, counters: &mut Counters) {
        let place = (self.first + self.count) % ROOM;
        let into = self
            .bytes
            .get_mut(place * self.each..(place + 1) * self.each);
        let len = match into {
            Some(into) if self.count < ROOM => words.emit(frame, into),
            _ => 0,
        };
        if len == 0 {
            return counters.drop(DropReason::HandoverFull);
        }
        self.lens[place] = len;
        self.count += 1;
        counters.handed_out += 1;
    }

    /// Gives away what waits, as far as the sink has room.
    pub fn transmit(&mut self, sink: &mut impl FrameSink) {
        while self.count > 0 {
            let start = self.first * self.each;
            let len = self.lens[self.first];
            let frame = self.bytes.get(start..start + len).unwrap_or_default();
            if !sink.send(|into| copy(frame, into)) {
                return;
            }
            self.first = (self.first + 1) % ROOM;
            self.count -= 1;
        }
    }
}

fn copy(frame: &[u8], into: &mut [u8]) -> TxMeta {
    let len = match into.get_mut(..frame.len()) {
        Some(into) => {
            into.copy_from_slice(frame);
            frame.len()
        }
        None => 0,
    };
    TxMeta {
        len,
        ..TxMeta::default()
    }
}

/// Whether a frame answers, or tells everybody, where a neighbour is (RFC 826, RFC 4861 §4.4). Only
/// one of the stacks has asked, and another may have got it.
fn is_about_neighbours(frame: &[u8]) -> bool {
    let Ok((header, payload)) = EthernetHeader::parse(frame) else {
        return false;
    };
    match header.ether_type {
        EtherType::ARP => payload.get(6..8) == Some(&ARP_REPLY),
        EtherType::IPV6 => {
            payload.get(6) == Some(&Protocol::ICMPV6.0)
                && payload.get(40) == Some(&NEIGHBOUR_ADVERTISEMENT)
        }
        _ => false,
    }
}
