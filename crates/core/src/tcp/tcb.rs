//! The control block: what a data segment or an ACK needs in two cache lines ([`Hot`]), the rest apart ([`Cold`]).

use bitflags::bitflags;
use ring::whole::store;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::cc::{Algorithm, Window};
use crate::error::Error;
use crate::event::Ready;
use crate::id::{PortId, Token};
use crate::info::State;
use crate::ip::Path;
use crate::tcp::autotune::Autotune;
use crate::tcp::challenge::Challenges;
use crate::tcp::ecn::EcnState;
use crate::tcp::fast_open::FastOpen;
use crate::tcp::option_sets::SetId;
use crate::tcp::pacing::Pacing;
use crate::tcp::path_probe::PathSearch;
use crate::tcp::prr::Prr;
use crate::tcp::rack::Reordering;
use crate::tcp::ranges::{Range, RangeSet};
use crate::tcp::rate::Rate;
use crate::tcp::recovery::Departed;
use crate::tcp::rtt::{MinRtt, Rtt};
use crate::tcp::tail::TailProbe;
use crate::tcp::tally::Tally;

bitflags! {
    /// One-bit facts about a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u32 {
        /// Both sides offered timestamps (RFC 7323 §3.2).
        const TIMESTAMPS = 1 << 0;
        /// Both sides offered SACK (RFC 2018 §2).
        const SACK = 1 << 1;
        /// No Nagle.
        const NODELAY = 1 << 2;
        /// Our SYN (or SYN-ACK) wants to be sent.
        const SYN_DUE = 1 << 3;
        /// Our SYN was sent more than once.
        const SYN_RETRANSMITTED = 1 << 4;
        /// `fin_seq` is fixed: the application shut its side down.
        const FIN_QUEUED = 1 << 5;
        /// An ACK wants to be sent in the next `transmit`.
        const ACK_NOW = 1 << 6;
        /// An ACK wants to be sent at `ack_at`.
        const ACK_DELAYED = 1 << 7;
        /// A keepalive probe wants to be sent.
        const KEEPALIVE_DUE = 1 << 8;
        /// A zero-window probe wants to be sent.
        const PROBE_DUE = 1 << 9;
        /// `rtx_at` is the time of the next window probe, not of a retransmission.
        const PERSIST = 1 << 10;
        /// `rtt_seq` is being timed.
        const TIMING = 1 << 11;
        /// In fast recovery.
        const RECOVERY = 1 << 12;
        /// Recovering from a time-out (go-back).
        const LOSS = 1 << 13;
        /// The next retransmission goes out whatever `cwnd` says.
        const FORCE_RETRANSMIT = 1 << 14;
        /// Ranges are held out of order; `Cold::held` names them.
        const HOLES = 1 << 15;
        /// The peer holds ranges out of order; `Cold::sacked` has them.
        const SACKED = 1 << 16;
        /// The sequence number of the peer's FIN is known, and not reached.
        const PEER_FIN = 1 << 17;
        /// `Close` was called: nobody will read or write any more.
        const APP_CLOSED = 1 << 18;
        /// TCP is done with it: no flow, no timers, no output. The slot waits for the application.
        const DETACHED = 1 << 19;
        /// `Event::Accepted` has not been polled.
        const UNANNOUNCED = 1 << 20;
        /// In its listener's backlog: `Command::Accept` has not come.
        const BACKLOG = 1 << 21;
        /// The neighbour's reachability can be confirmed.
        const PROGRESS = 1 << 22;
        /// `Cold` holds deadlines (keepalive, idle, user time-out, FIN_WAIT_2).
        const COLD_TIMERS = 1 << 23;
        /// On the control list of its port.
        const ON_CONTROL = 1 << 24;
        /// On the data list of its port.
        const ON_DATA = 1 << 25;
        /// Waits for its neighbour to be resolved.
        const PARKED = 1 << 26;
        /// A tail loss probe wants to be sent (RFC 8985 §7.3).
        const TAIL_PROBE_DUE = 1 << 27;
        /// Both sides offered window scaling (RFC 7323 §2.2).
        const SCALING = 1 << 28;
        /// What is in flight was sent at more than one time; `Cold::sent` names the log.
        const SENT_LOG = 1 << 29;
        /// `early_at` is RACK's reordering timer, not the probe time-out.
        const REORDER_TIMER = 1 << 30;
        /// The next ACK reports `Cold::duplicate` (RFC 2883).
        const DUPLICATE = 1 << 31;
    }
}

/// What a data segment or an ACK needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// When the wheel fires for this connection: the earliest of its deadlines, or earlier. `FAR`: not scheduled.
    pub wheel_at: Instant,
    /// Retransmission or persist timer. `FAR`: off.
    pub rtx_at: Instant,
    /// Tail loss probe or reordering timer (RFC 8985 §8). `FAR`: off.
    pub early_at: Instant,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    pub snd_wl1: SeqNumber,
    pub snd_wl2: SeqNumber,
    /// Scaled, bytes.
    /// RFC 9293 REC-1.
    pub snd_wnd: u32,
    /// Largest window the peer ever offered, bytes.
    /// RFC 5961 §5.2-2.
    pub max_snd_wnd: u32,
    pub rcv_nxt: SeqNumber,
    /// Right edge of the window that we offered: `rcv_nxt + rcv_wnd`. Never moves left.
    pub rcv_adv: SeqNumber,
    pub last_ack_sent: SeqNumber,
    pub ts_recent: u32,
    /// Our timestamps are the millisecond clock plus this.
    pub ts_offset: u32,
    /// Delayed ACK timer: low 32 bits of a millisecond count; counts with `ACK_DELAYED`.
    pub ack_at: u32,
    pub window: Window,
    /// Sequence number of our FIN; counts with `FIN_QUEUED`.
    pub fin_seq: SeqNumber,
    /// The end of the segment being timed, and the time (µs, low 32 bits) when it was sent; count with `TIMING`.
    pub rtt_seq: SeqNumber,
    pub rtt_at: u32,
    /// When a segment was last received: low 32 bits of a millisecond count.
    pub last_received: u32,
    pub rtt: Rtt,
    pub flags: Flags,
    /// Most payload of a segment that we send, bytes, fixed options already deducted (Eff.snd.MSS of RFC 9293 §3.7.1).
    pub mss: u16,
    /// Largest payload received so far: what a full-sized segment of the peer is.
    pub rcv_mss: u16,
    pub state: State,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub port: PortId,
    pub dup_acks: u8,
    /// Pure ACKs that want to be sent besides the one that acknowledges something: one per out-of-order segment.
    pub dup_acks_due: u8,
    /// How often the RTO was doubled since the last measurement (RFC 6298 §5.5).
    pub backoff: u8,
    /// ACKs left to send without delay.
    pub quick_acks: u8,
    /// Time-outs (or unanswered probes) in a row.
    pub retries: u8,
    /// News that the application has not polled.
    pub ready: Ready,
    /// Flags of a segment that nothing is unusual about, PSH aside.
    pub predicted: TcpFlags,
}

const _: () = assert!(size_of::<Hot>() == 128);

/// How new data left the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Bytes in flight.
    pub flight: u32,
    /// Bytes of the window that were still free.
    pub room: u32,
}

/// What is needed less often, or only to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cold {
    /// Where segments go, and from which address.
    pub path: Path,
    pub last_sent: Instant,
    /// Behind the last segment that was sent and was not full: SND.SML of Minshall's variant of Nagle's algorithm.
    pub small_end: SeqNumber,
    /// SND.UP; counts with `is_urgent`: urgent data may be unacknowledged.
    pub snd_up: SeqNumber,
    pub is_urgent: bool,

    /// When new data was last sent.
    pub fill: Fill,
    /// When `snd_una` last advanced, or data was sent with nothing in flight: where the user time-out counts from.
    pub una_since: Instant,
    /// When the peer's window closed on what there is to send; counts with `PERSIST`.
    pub blocked_since: Instant,
    /// When the first probe went that the peer has not answered: low 32 bits of a millisecond count; counts with `PERSIST` and `Hot::retries`.
    pub probed_since: u32,
    /// The application will not read any more.
    pub read_shut: bool,
    /// FIN_WAIT_2 without an application ends then.
    pub fin_wait_2_at: Instant,
    pub iss: SeqNumber,
    pub irs: SeqNumber,
    /// `recover` of RFC 6582, RecoveryPoint of RFC 6675.
    pub recover: SeqNumber,
    /// Sequence number of the peer's FIN; counts with `PEER_FIN`.
    pub peer_fin: SeqNumber,
    /// Index of the set of ranges held out of order; counts with `HOLES`.
    pub held: u32,
    /// What the peer sent although it had arrived; counts with `DUPLICATE`.
    pub duplicate: Range,
    /// The scoreboard; not empty with `SACKED`.
    pub sacked: RangeSet,
    /// Index of the log of what is in flight; counts with `SENT_LOG`. Without, all was sent at `flight_at` (µs, low 32 bits).
    pub sent: u32,
    pub flight_at: u32,
    /// When the congestion window was last reduced, µs, low 32 bits.
    pub reduced_at: u32,
    /// The tail loss probe in flight.
    pub tail: TailProbe,
    /// Reordering on the path, and what is allowed for it.
    pub reordering: Reordering,
    /// The reduction of the window during recovery.
    pub prr: Prr,
    /// Index of what is needed to take the last reaction to loss back, as long as that may turn out to be wrong.
    pub doubt: Option<u32>,
    /// What larger and smaller segments have shown of the path.
    pub search: PathSearch,
    /// The peer reports duplicates (RFC 2883).
    pub dsack_seen: bool,
    /// Bytes that duplicate ACKs say have left the network, without SACK.
    pub departed: Departed,
    pub congestion: Algorithm,
    /// SND.NXT when the current round of congestion control began.
    pub round_end: SeqNumber,
    /// What was delivered, and when.
    pub rate: Rate,
    pub pacing: Pacing,
    pub ecn: EcnState,
    pub autotune: Autotune,
    pub options: SetId,
    /// Until when segments that are not full are held back. `FAR`: none is; `ZERO`: they may go, they were held long enough.
    pub held_until: Instant,
    /// The last write said that more follows.
    pub more_follows: bool,
    pub tally: Tally,
    pub token: Token,
    /// Slot of the listener; counts with `BACKLOG` or `UNANNOUNCED`.
    pub listener: u32,
    pub error: Option<Error>,
    /// What ICMP or neighbour resolution said; reported when the connection times out (RFC 1122 §4.2.3.9).
    pub soft_error: Option<Error>,
    /// MSS option of the peer, or the default.
    pub peer_mss: u16,
    /// MSS option that we sent.
    pub local_mss: u16,
    /// Window scale that we offer in a SYN.
    pub offer_wscale: u8,
    /// Our SYN went out again at once because the peer still had an earlier connection.
    pub syn_repeated: bool,
    pub challenges: Challenges,
    pub fast_open: FastOpen,
    /// Keepalive probes sent without an answer.
    pub keepalive_probes: u8,
    pub keepalive_at: Instant,
    /// Our timestamp when the retransmission timer last expired; counts with `Hot::backoff`.
    pub timeout_stamp: u32,
    pub min_rtt: MinRtt,
}

const _: () = assert!(size_of::<Cold>() <= 600);

impl Hot {
    /// Sequence numbers sent and not acknowledged, SYN and FIN included.
    pub fn flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// RCV.WND: what is left of the window that we offered.
    pub fn rcv_wnd(&self) -> u32 {
        self.rcv_adv - self.rcv_nxt
    }

    pub fn has(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
    }

    /// Most steps look at several flags at once, shortly after one was changed.
    #[inline]
    pub fn insert(&mut self, flags: Flags) {
        let flags = self.flags | flags;
        store(&mut self.flags, flags);
    }

    #[inline]
    pub fn remove(&mut self, flags: Flags) {
        let flags = self.flags - flags;
        store(&mut self.flags, flags);
    }

    #[inline]
    pub fn set(&mut self, flags: Flags, value: bool) {
        let with = self.flags | flags;
        store(&mut self.flags, if value { with } else { with - flags });
    }

    /// Whether our FIN has been sent.
    pub fn fin_sent(&self) -> bool {
        self.has(Flags::FIN_QUEUED) && self.snd_nxt > self.fin_seq
    }

    /// The sequence number of the first byte in the send stream: behind the SYN as long as that is not acknowledged.
    pub fn stream_start(&self) -> SeqNumber {
        match self.state {
            State::SynSent | State::SynReceived => self.snd_una + 1,
            _ => self.snd_una,
        }
    }
}
