//! What a stack has in memory that outlives its process, and what the one that takes its place
//! makes of it: connections that nobody has any more, with the bytes that their peers have not
//! acknowledged.
//!
//! The process may have ended between any two instructions, so a control block and the stream
//! beside it need not agree. Of what follows from each other, the one that is ahead holds; what
//! cannot be is no connection.

use std::io;
use std::mem::offset_of;

use ring::region::Plot;
use ring::stream::{LeftUnsent, Remains, StreamsConfig};
use wire::seq::SeqNumber;

use crate::config::Config;
use crate::info::State;
use crate::tcp::flags::Flags;
use crate::tcp::options::{Agreed, MAX_WINDOW_SCALE, TIMESTAMPS_LEN};
use crate::tcp::tcb::Hot;

const PAGE: usize = 4096;
/// Bytes that say where a control block is.
const PLACE: usize = 4;
/// RFC 7323 §2.3: no window is larger.
const MAX_WINDOW: u32 = 1 << 30;

/// Where what is read of a control block lies, and which flags there are.
pub(crate) const LAYOUT: [usize; 17] = [
    PLACE,
    Flags::all().bits() as usize,
    size_of::<Hot>(),
    offset_of!(Hot, loss.mss),
    offset_of!(Hot, state),
    offset_of!(Hot, flags),
    offset_of!(Hot, snd.una),
    offset_of!(Hot, snd.nxt),
    offset_of!(Hot, snd.wnd),
    offset_of!(Hot, snd.max_wnd),
    offset_of!(Hot, rcv.nxt),
    offset_of!(Hot, rcv.adv),
    offset_of!(Hot, rcv.last_ack_sent),
    offset_of!(Hot, ts_recent),
    offset_of!(Hot, ts_offset),
    offset_of!(Hot, snd_wscale),
    offset_of!(Hot, rcv_wscale),
];

/// The sizes of what a stack has in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Control blocks.
    pub connections: u32,
    /// Bytes of send buffers.
    pub send_pool: usize,
    /// The largest of them, bytes.
    pub max_buffer: u32,
}

impl Holdings {
    /// Those of a stack.
    pub fn of(config: &Config) -> Self {
        Self {
            connections: config.max_connections,
            send_pool: config.send_pool,
            max_buffer: config.max_buffer,
        }
    }

    /// Bytes of a plot that they take.
    ///
    /// # Errors
    /// More than there can be.
    pub fn size(&self) -> io::Result<usize> {
        let hot = (self.connections as usize).checked_mul(size_of::<Hot>());
        let size = hot.and_then(|hot| hot.checked_add(self.hot().ok()?));
        size.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Where the control blocks begin: behind the streams and the places.
    fn hot(&self) -> io::Result<usize> {
        Ok(self.places()? + (self.connections as usize * PLACE).next_multiple_of(PAGE))
    }

    /// Where the places of the control blocks begin.
    fn places(&self) -> io::Result<usize> {
        Remains::size(&self.streams())
    }

    fn streams(&self) -> StreamsConfig {
        StreamsConfig {
            slots: self.connections,
            recv_pool_bytes: 0,
            send_pool_bytes: self.send_pool,
            max_buffer: self.max_buffer,
            prefault: 0,
        }
    }
}

/// Where the sequence numbers of a connection begin, which says how those of a control block belong
/// to the bytes of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// Of the byte with index 0 in the send stream.
    pub sent: SeqNumber,
    /// IRS.
    pub irs: SeqNumber,
}

/// A connection whose process is gone.
#[derive(Clone, Debug)]
pub(crate) struct Orphan {
    pub state: State,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    pub snd_wnd: u32,
    pub max_snd_wnd: u32,
    pub rcv_nxt: SeqNumber,
    pub rcv_adv: SeqNumber,
    pub last_ack_sent: SeqNumber,
    pub ts_recent: u32,
    pub ts_offset: u32,
    pub agreed: Agreed,
    /// From `snd_una` on.
    pub bytes: Vec<u8>,
}

/// Reads what is left in a plot.
#[derive(Debug)]
pub(crate) struct Estate<'a> {
    plot: &'a Plot,
    remains: Remains<'a>,
    /// Where it is said of each slot where its control block is ...
    places: usize,
    /// ... and where those are.
    hot: usize,
    connections: u32,
    /// Bytes that may still be taken: there cannot be more than there is memory for them.
    room: usize,
}

impl<'a> Estate<'a> {
    pub fn new(plot: &'a Plot, holdings: &Holdings) -> io::Result<Self> {
        Ok(Self {
            plot,
            remains: Remains::new(plot, &holdings.streams())?,
            places: holdings.places()?,
            hot: holdings.hot()?,
            connections: holdings.connections,
            room: holdings.send_pool,
        })
    }

    /// The connection in `slot`, if another can go on with it. Not if the peer is to learn that
    /// data is lost (RFC 2525 §2.17), or knows of nothing that it could not bring again.
    pub fn orphan(&mut self, slot: u32, start: Start) -> Option<Orphan> {
        let block = self.block(slot)?;
        let unsent = self.remains.of(slot).filter(|unsent| !unsent.unread)?;
        let mut orphan = block.orphan(start, &unsent)?;
        let known = block.last_ack_sent != start.irs + 1;
        if !known && unsent.len == 0 && !block.flags.contains(Flags::FIN_QUEUED) {
            return None;
        }
        let from = orphan.snd_una - start.sent;
        let len = unsent.len.saturating_sub(from.wrapping_sub(unsent.head)) as usize;
        self.room = self.room.checked_sub(len)?;
        orphan.bytes = vec![0; len];
        let whole = len == 0 || self.remains.copy(&unsent, from, &mut orphan.bytes);
        whole.then_some(orphan)
    }

    /// `None`: there is none, or it is packed (`blocks`). What idles has nothing to send.
    fn block(&self, slot: u32) -> Option<Block> {
        let (mut place, mut bytes) = ([0; PLACE], [0; size_of::<Hot>()]);
        let at = self.places + slot as usize * PLACE;
        if slot >= self.connections || !self.plot.read_at(at, &mut place) {
            return None;
        }
        let place = u32::from_ne_bytes(place);
        let at = self.hot + place as usize * size_of::<Hot>();
        let is_there = place < self.connections && self.plot.read_at(at, &mut bytes);
        is_there.then(|| Block::parse(&bytes)).flatten()
    }
}

/// What matters of a control block. Its bytes are looked at one by one: not all of them need be
/// values of their types.
#[derive(Clone, Copy, Debug)]
struct Block {
    state: State,
    flags: Flags,
    snd_una: SeqNumber,
    snd_nxt: SeqNumber,
    snd_wnd: u32,
    max_snd_wnd: u32,
    rcv_nxt: SeqNumber,
    rcv_adv: SeqNumber,
    last_ack_sent: SeqNumber,
    ts_recent: u32,
    ts_offset: u32,
    mss: u16,
    snd_wscale: u8,
    rcv_wscale: u8,
}

impl Block {
    fn parse(bytes: &[u8; size_of::<Hot>()]) -> Option<Self> {
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
            word.map_or(0, |word| u32::from_ne_bytes(*word))
        };
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let mss = offset_of!(Hot, loss.mss);
        Some(Self {
            state: state(byte(offset_of!(Hot, state)))?,
            flags: Flags::from_bits_retain(word(offset_of!(Hot, flags))),
            snd_una: SeqNumber(word(offset_of!(Hot, snd.una))),
            snd_nxt: SeqNumber(word(offset_of!(Hot, snd.nxt))),
            snd_wnd: word(offset_of!(Hot, snd.wnd)).min(MAX_WINDOW),
            max_snd_wnd: word(offset_of!(Hot, snd.max_wnd)).min(MAX_WINDOW),
            rcv_nxt: SeqNumber(word(offset_of!(Hot, rcv.nxt))),
            rcv_adv: SeqNumber(word(offset_of!(Hot, rcv.adv))),
            last_ack_sent: SeqNumber(word(offset_of!(Hot, rcv.last_ack_sent))),
            ts_recent: word(offset_of!(Hot, ts_recent)),
            ts_offset: word(offset_of!(Hot, ts_offset)),
            mss: u16::from_ne_bytes([byte(mss), byte(mss + 1)]),
            snd_wscale: byte(offset_of!(Hot, snd_wscale)).min(MAX_WINDOW_SCALE),
            rcv_wscale: byte(offset_of!(Hot, rcv_wscale)).min(MAX_WINDOW_SCALE),
        })
    }

    /// The connection as it will go on, without its bytes.
    fn orphan(&self, start: Start, unsent: &LeftUnsent) -> Option<Orphan> {
        // An ACK moves both, one after the other.
        let snd_una = self.snd_una.max(start.sent + unsent.head);
        let end = start.sent + unsent.head + unsent.len;
        let fin_sent = u32::from(self.flags.contains(Flags::FIN_QUEUED));
        if snd_una > self.snd_nxt || self.snd_nxt > end + fin_sent {
            return None;
        }
        let offered = self.rcv_adv - self.rcv_nxt;
        let owed = self.rcv_nxt - self.last_ack_sent;
        Some(Orphan {
            state: state_after(self.state, snd_una > end)?,
            snd_una,
            snd_nxt: self.snd_nxt,
            snd_wnd: self.snd_wnd,
            max_snd_wnd: self.max_snd_wnd.max(self.snd_wnd),
            rcv_nxt: self.rcv_nxt,
            rcv_adv: self.rcv_nxt + if offered > MAX_WINDOW { 0 } else { offered },
            last_ack_sent: self.rcv_nxt - if owed > MAX_WINDOW { 0 } else { owed },
            ts_recent: self.ts_recent,
            ts_offset: self.ts_offset,
            agreed: self.agreed(),
            bytes: Vec::new(),
        })
    }

    fn agreed(&self) -> Agreed {
        let timestamps = self.flags.contains(Flags::TIMESTAMPS);
        let options = if timestamps { TIMESTAMPS_LEN } else { 0 };
        Agreed {
            // What the peer and the path take together.
            peer_mss: self.mss.saturating_add(options),
            snd_wscale: self.snd_wscale,
            rcv_wscale: self.rcv_wscale,
            scaling: self.flags.contains(Flags::SCALING),
            timestamps,
            sack: self.flags.contains(Flags::SACK),
        }
    }
}

/// The state of a connection when the end of its process has closed it (RFC 9293 §3.10.4), if its
/// FIN has been acknowledged or not. `None`: there is nothing to go on with.
fn state_after(state: State, fin_acked: bool) -> Option<State> {
    Some(match (state, fin_acked) {
        (State::Established | State::FinWait1, false) => State::FinWait1,
        (State::CloseWait | State::LastAck, false) => State::LastAck,
        (State::Closing, false) => State::Closing,
        (State::FinWait1 | State::FinWait2, true) => State::FinWait2,
        _ => return None,
    })
}

fn state(byte: u8) -> Option<State> {
    const LIVE: [State; 6] = [
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
    ];
    LIVE.into_iter().find(|&state| state as u8 == byte)
}
