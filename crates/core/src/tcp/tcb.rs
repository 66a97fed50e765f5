//! The control block: what a data segment or an ACK needs in two cache lines ([`Hot`]), the rest
//! apart ([`Cold`]).

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::error::Error;
use crate::event::Ready;
use crate::id::{PortId, Token};
use crate::info::State;
use crate::ip::Path;
use crate::tcp::ecn::EcnState;
use crate::tcp::flags::Flags;
use crate::tcp::loss;
use crate::tcp::option_sets::SetId;
use crate::tcp::path::PathSearch;
use crate::tcp::receive;
use crate::tcp::send;
use crate::tcp::setup::OpenState;
use crate::tcp::statistics::Statistics;
use crate::tcp::teardown::Challenges;

/// What a data segment or an ACK needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Hot {
    /// When the wheel fires for this connection: the earliest of its deadlines, or earlier. `FAR`:
    /// not scheduled.
    pub wheel_at: Instant,
    pub loss: loss::Hot,
    pub snd: send::Hot,
    pub rcv: receive::Hot,
    pub ts_recent: u32,
    /// Our timestamps are the millisecond clock plus this.
    pub ts_offset: u32,
    /// When a segment was last received: low 32 bits of a millisecond count.
    pub last_received: u32,
    pub flags: Flags,
    pub state: State,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub port: PortId,
    /// Time-outs (or unanswered probes) in a row.
    pub retries: u8,
    /// News that the application has not polled.
    pub ready: Ready,
    /// Flags of a segment that nothing is unusual about, PSH aside.
    pub predicted: TcpFlags,
}

const _: () = assert!(size_of::<Hot>() == 128);

/// What is needed less often, or only to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cold {
    /// Where segments go, and from which address.
    pub path: Path,
    pub snd: send::Cold,
    pub loss: loss::Cold,
    /// The application will not read any more.
    pub read_shut: bool,
    /// FIN_WAIT_2 without an application ends then.
    pub fin_wait_2_at: Instant,
    pub iss: SeqNumber,
    pub irs: SeqNumber,
    pub rcv: receive::Cold,
    /// What larger and smaller segments have shown of the path.
    pub search: PathSearch,
    pub ecn: EcnState,
    pub options: SetId,
    pub statistics: Statistics,
    pub token: Token,
    /// Slot of the listener; counts with `BACKLOG` or `UNANNOUNCED`.
    pub listener: u32,
    pub error: Option<Error>,
    /// What ICMP or neighbour resolution said; reported when the connection times out
    /// (RFC 1122 §4.2.3.9).
    pub soft_error: Option<Error>,
    /// MSS option of the peer, or the default.
    pub peer_mss: u16,
    /// MSS option that we sent.
    pub local_mss: u16,
    pub challenges: Challenges,
    pub open: OpenState,
    /// Keepalive probes sent without an answer.
    pub keepalive_probes: u8,
    pub keepalive_at: Instant,
}

const _: () = assert!(size_of::<Cold>() <= 600);

impl Hot {
    /// Sequence numbers sent and not acknowledged, SYN and FIN included.
    pub fn flight(&self) -> u32 {
        self.snd.flight()
    }

    /// RCV.WND: what is left of the window that we offered.
    pub fn rcv_wnd(&self) -> u32 {
        self.rcv.wnd()
    }

    pub fn has(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
    }

    #[inline]
    pub fn insert(&mut self, flags: Flags) {
        Flags::raise(&mut self.flags, flags);
    }

    #[inline]
    pub fn remove(&mut self, flags: Flags) {
        Flags::lower(&mut self.flags, flags);
    }

    #[inline]
    pub fn set(&mut self, flags: Flags, value: bool) {
        Flags::put(&mut self.flags, flags, value);
    }
}
