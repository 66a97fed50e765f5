//! What goes over the socket: once, from the listener to a new peer, the size of the link with its
//! memory and doorbells, or a refusal.
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | `mtcpshm` and version, 3 |
//! | 8 | 0: an offer, 1: refused, there is a peer already |
//! | 10..12 | queues |
//! | 12..14 | MTU |
//! | 16..20 | slots |
//! | 20..24 | bytes per slot |
//!
//! Numbers are in the machine's byte order: both ends are on it. Descriptors with an offer: the
//! memory, for each queue what wakes the listener, for each queue what wakes the connector
//! (`doorbells.rs`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::config::{MAX_QUEUES, ShmConfig};
use crate::{context, poll};

const MAGIC: [u8; 8] = *b"mtcpshm\x03";
const LEN: usize = 24;
const OFFER: u8 = 0;
const REFUSED: u8 = 1;
const MAX_FDS: usize = 1 + 2 * MAX_QUEUES as usize;
/// How long a connecting side waits for the listener to take notice.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a listener offers.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) config: ShmConfig,
    pub(super) memory: OwnedFd,
    pub(super) listener_doorbells: Vec<OwnedFd>,
    pub(super) connector_doorbells: Vec<OwnedFd>,
}

/// Sends an offer to a peer that was just accepted.
pub(super) fn send_offer(
    socket: &OwnedFd,
    config: &ShmConfig,
    memory: BorrowedFd<'_>,
    listener_doorbells: &[OwnedFd],
    connector_doorbells: &[OwnedFd],
) -> io::Result<()> {
    let doorbells = listener_doorbells.iter().chain(connector_doorbells);
    let fds: Vec<_> = std::iter::once(memory)
        .chain(doorbells.map(AsFd::as_fd))
        .collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(context::invalid("shm link: too many queues"));
    }
    let message = emit(OFFER, config);
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&message)], &mut control, flags)?;
    Ok(())
}

/// Tells a peer that another one is there. Best effort: the socket closes next.
pub(super) fn send_refusal(socket: &OwnedFd, config: &ShmConfig) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::send(socket, &emit(REFUSED, config), flags);
}

/// Waits for the listener's offer.
///
/// # Errors
/// No answer in five seconds, a refusal, or something that no listener says.
pub(super) fn receive_offer(socket: &OwnedFd) -> io::Result<Offer> {
    let ready = loop {
        match poll::readable(socket.as_fd(), None, Some(HANDSHAKE_TIMEOUT)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ready => break ready?,
        }
    };
    if ready.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the listener does not answer: is it stopped?",
        ));
    }
    let mut message = [0; LEN];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut message)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut iov, &mut control, flags)?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the listener closed",
        ));
    }
    let cut = received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if cut || received.bytes != LEN {
        return Err(context::corrupt("no mTCP listener there"));
    }
    let config = parse(&message)?;
    sort_descriptors(config, fds)
}

fn sort_descriptors(config: ShmConfig, fds: Vec<OwnedFd>) -> io::Result<Offer> {
    let queues = usize::from(config.queues);
    let mut fds = fds.into_iter();
    let memory = fds.next();
    let listener_doorbells: Vec<_> = fds.by_ref().take(queues).collect();
    let connector_doorbells: Vec<_> = fds.by_ref().take(queues).collect();
    match memory {
        Some(memory) if connector_doorbells.len() == queues && fds.next().is_none() => Ok(Offer {
            config,
            memory,
            listener_doorbells,
            connector_doorbells,
        }),
        _ => Err(context::corrupt(
            "the listener sent another number of descriptors than it has queues",
        )),
    }
}

fn emit(kind: u8, config: &ShmConfig) -> [u8; LEN] {
    let ShmConfig {
        queues,
        slots,
        slot_bytes,
        mtu,
    } = *config;
    let mut message = [0; LEN];
    [
        message[0], message[1], message[2], message[3], message[4], message[5], message[6],
        message[7],
    ] = MAGIC;
    message[8] = kind;
    [message[10], message[11]] = queues.to_ne_bytes();
    [message[12], message[13]] = mtu.to_ne_bytes();
    [message[16], message[17], message[18], message[19]] = slots.to_ne_bytes();
    [message[20], message[21], message[22], message[23]] = slot_bytes.to_ne_bytes();
    message
}

fn parse(message: &[u8; LEN]) -> io::Result<ShmConfig> {
    let m = message;
    if m[..8] != MAGIC {
        return Err(context::corrupt(
            "no mTCP listener there, or one of another version",
        ));
    }
    match m[8] {
        OFFER => {}
        REFUSED => {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the listener has a peer already",
            ));
        }
        other => return Err(context::corrupt(format_args!("message of kind {other}"))),
    }
    let config = ShmConfig {
        queues: u16::from_ne_bytes([m[10], m[11]]),
        mtu: u16::from_ne_bytes([m[12], m[13]]),
        slots: u32::from_ne_bytes([m[16], m[17], m[18], m[19]]),
        slot_bytes: u32::from_ne_bytes([m[20], m[21], m[22], m[23]]),
    };
    config.check()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn sockets() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    fn doorbells(n: usize) -> Vec<OwnedFd> {
        (0..n)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap())
            .collect()
    }

    #[test]
    fn an_offer_arrives_with_all_descriptors() {
        let (a, b) = sockets();
        for queues in [1, 3, MAX_QUEUES] {
            let config = ShmConfig {
                queues,
                slots: 8,
                ..ShmConfig::default()
            };
            let n = usize::from(queues);
            let memory = doorbells(1);
            send_offer(&a, &config, memory[0].as_fd(), &doorbells(n), &doorbells(n)).unwrap();
            let offer = receive_offer(&b).unwrap();
            assert_eq!(offer.config, config);
            assert_eq!(offer.listener_doorbells.len(), n);
            assert_eq!(offer.connector_doorbells.len(), n);
        }
    }

    #[test]
    fn a_refusal_says_so() {
        let (a, b) = sockets();
        send_refusal(&a, &ShmConfig::default());
        let error = receive_offer(&b).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn a_closed_listener_is_an_error() {
        let (a, b) = sockets();
        drop(a);
        let error = receive_offer(&b).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[test]
    fn hostile_offers_are_refused() {
        let config = ShmConfig::default();
        let good = emit(OFFER, &config);
        let mut bad_magic = good;
        bad_magic[0] ^= 1;
        let mut bad_kind = good;
        bad_kind[8] = 7;
        let mut bad_slots = good;
        bad_slots[16] = 3;
        let mut no_queues = good;
        [no_queues[10], no_queues[11]] = [0, 0];
        for message in [
            &bad_magic[..],
            &bad_kind,
            &bad_slots,
            &no_queues,
            &good[..23],
        ] {
            let (a, b) = sockets();
            rustix::net::send(&a, message, SendFlags::empty()).unwrap();
            let error = receive_offer(&b).unwrap_err();
            assert_ne!(error.kind(), io::ErrorKind::TimedOut);
        }
        // A valid message with too few descriptors.
        let (a, b) = sockets();
        send_offer(&a, &config, doorbells(1)[0].as_fd(), &doorbells(1), &[]).unwrap();
        assert!(receive_offer(&b).is_err());
    }
}
