//! What a queue takes from the kernel: a socket with its memory, and what there is besides where
//! the link allows it.

use std::io;
use std::net::IpAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

use crate::netlink::Link;
use crate::overhear::Overheard;
use crate::privileges;

use super::config::Frames;
use super::error::{LISTEN, errno, explain};
use super::frame_rings::FrameRings;
use super::gso::GsoSocket;
use super::queue::Tx;
use super::socket::XskSocket;
use super::tx_batch::TxBatch;

/// A socket with its frames.
pub(super) type Made = (XskSocket, FrameRings);

/// What listens beside the stack. Without it, neighbours that move are found when they stop
/// answering.
/// `shared`: the kernel has the addresses, too.
pub(super) fn overhear(link: &Link, addresses: &[IpAddr], shared: bool) -> Option<Overheard> {
    Overheard::new(link.index, addresses, shared)
        .map_err(|error| {
            log::warn!(
                "{}: going on without: neighbours that move are noticed later",
                explain(&link.name, LISTEN, &error)
            );
        })
        .ok()
}

/// What sends frames of several segments.
pub(super) fn gso(link: &Link) -> Option<GsoSocket> {
    let socket = GsoSocket::new(link.index);
    socket
        .inspect_err(|error| {
            log::debug!(
                "XDP on {}: no frames of several segments: {error}",
                link.name
            );
        })
        .ok()
}

/// Where frames are sent to: batches where the link does at once what frames cause, as a veth pair
/// does; the driver of a card has its queue for that.
pub(super) fn tx(link: &Link, socket: &XskSocket, frames: Frames) -> Tx {
    // A batch has no room for packets that lie in several frames.
    if !link.is_veth() || frames.are_parts() || !may_measure() {
        return Tx::Socket;
    }
    let netns = socket.netns_cookie().map_err(Into::into);
    let batch = netns.and_then(|netns| TxBatch::new(link.index, netns));
    batch.map_or_else(
        |error| {
            log::debug!("XDP on {}: no transmit batches: {error}", link.name);
            Tx::Socket
        },
        Tx::Batch,
    )
}

/// Whether the kernel takes programs for traffic control that compare pointers, as ours do. Where
/// it does not, it finds that out by looking at all of a program, once more for each size of its
/// log: a second of its time.
pub(super) fn may_measure() -> bool {
    privileges::allows(privileges::own(), CapabilitySet::PERFMON)
}

/// A socket with frames; with the limit on locked memory raised when that is what is in the way, or
/// else with fewer frames.
pub(super) fn register(frames: Frames) -> io::Result<Made> {
    let is_limit = |made: &io::Result<_>| {
        let error = made.as_ref().err().and_then(|error| errno(error));
        error == Some(libc::ENOBUFS)
    };
    let mut made = XskSocket::with_memory(frames);
    if is_limit(&made) && raise_memlock() {
        made = XskSocket::with_memory(frames);
    }
    let mut fewer = frames;
    while is_limit(&made)
        && let Some(half) = fewer.half()
    {
        fewer = half;
        made = XskSocket::with_memory(fewer);
        if made.is_ok() {
            log::warn!(
                "XDP: the limit on locked memory leaves room for {} of {} frames per queue: `ulimit -l unlimited` or CAP_IPC_LOCK for all",
                fewer.count(),
                frames.count()
            );
        }
    }
    made
}

/// Lifts the limit on locked memory of this process, or raises it as far as is allowed. Returns
/// whether it is higher now.
pub(super) fn raise_memlock() -> bool {
    let before = getrlimit(Resource::Memlock);
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    let most = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    [none, most]
        .into_iter()
        .any(|limit| setrlimit(Resource::Memlock, limit).is_ok())
        && getrlimit(Resource::Memlock).current != before.current
}
