//! The sockets of a stack, for people: a piece of the list in a turn, so that packets do not wait
//! for it, whoever asks for however many.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;

use mtcp_core::info::State;
use mtcp_core::{ListLimits, ListedSocket};

use super::channel::Channel;
use crate::runner::Runner;

/// Places of sockets that are looked at for one piece, whether there is one or not.
const LOOKS: u32 = 2048;

/// A socket of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The user whose program opened it, or listens where it came to.
    pub uid: u32,
    /// The process that attached. `None`: no program has it, for it is not accepted yet, or closed.
    pub pid: Option<u32>,
    /// Our end.
    pub local: SocketAddr,
    /// The other end; of a listener port 0.
    pub remote: SocketAddr,
    /// Its state.
    pub state: State,
    /// As `Recv-Q` of ss(8).
    pub recv_queue: u32,
    /// As `Send-Q` of ss(8).
    pub send_queue: u32,
}

/// A piece of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Sockets: none of another user than was asked for.
    pub sockets: Vec<Socket>,
    /// Where to go on. `None`: that was all.
    pub next: Option<u64>,
}

/// A piece that somebody has asked for.
pub(super) struct Listing {
    /// Of this user; `None`: of all.
    pub(super) of: Option<u32>,
    pub(super) from: u64,
    /// Sockets in it at most.
    pub(super) most: usize,
    pub(super) answer: Box<dyn FnOnce(Piece) + Send>,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, from, most, .. } = self;
        write!(f, "Listing({most} of {of:?} from {from})")
    }
}

/// Those that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Listings(VecDeque<Listing>);

impl Listings {
    pub(super) fn push(&mut self, listing: Listing) {
        self.0.push_back(listing);
    }

    /// Answers the first that waits. False: none does.
    pub(super) fn answer_one(&mut self, runner: &mut Runner, channels: &[Option<Channel>]) -> bool {
        let Some(Listing {
            of,
            from,
            most,
            answer,
        }) = self.0.pop_front()
        else {
            return false;
        };
        let limits = ListLimits {
            sockets: most,
            looks: LOOKS,
        };
        let mut listed = Vec::new();
        let is_wanted = |uid| of.is_none_or(|of| of == uid);
        let next = runner.list_sockets(from, limits, is_wanted, &mut listed);
        let channels = channels.iter().flatten();
        let pids = HashMap::from_iter(channels.map(|one| (one.home, one.program.pid)));
        answer(Piece {
            sockets: listed.iter().map(|one| Socket::of(one, &pids)).collect(),
            next,
        });
        true
    }
}

impl Socket {
    /// `pids`: by home.
    fn of(listed: &ListedSocket, pids: &HashMap<u32, u32>) -> Self {
        let ListedSocket {
            local,
            remote,
            state,
            recv_queue,
            send_queue,
            owner,
            home,
        } = *listed;
        Self {
            uid: owner,
            pid: home.and_then(|home| pids.get(&home).copied()),
            local,
            remote,
            state,
            recv_queue,
            send_queue,
        }
    }
}
