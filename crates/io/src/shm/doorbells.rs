//! Doorbells: what wakes the other side of a link. Either side may make a descriptor that both have
//! block, shut it down or fill it. So each call says for itself that it does not block, the two
//! ends are different sockets, and each peer gets new ones.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Notifications that one call drains: a peer may send more and more.
const NOTIFICATIONS: usize = 16;

/// Ends that become readable, and for each the end that notifies it. They are datagram sockets, so
/// that nothing but notifications passes.
pub(super) fn doorbells(queues: u16) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = |_| socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let pairs: Result<Vec<_>, _> = (0..queues).map(pair).collect();
    Ok(pairs?.into_iter().unzip())
}

/// Wakes the sleeper at the other end.
pub(super) fn notify(end: &OwnedFd) {
    // A full socket refuses: it has been notified already. The peer's end may be anything, or gone.
    let _ = send(end, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Drains notifications. Another thread may have been quicker.
pub(super) fn drain(end: &OwnedFd) {
    for _ in 0..NOTIFICATIONS {
        if recv(end, &mut [0u8; 1], RecvFlags::DONTWAIT).is_err() {
            return;
        }
    }
}

/// Doorbells between threads and processes of ours, which no peer has.
pub(super) fn eventfds(queues: u16) -> io::Result<Vec<OwnedFd>> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    (0..queues).map(|_| Ok(eventfd(0, flags)?)).collect()
}

/// Notifies a doorbell of ours.
pub(super) fn signal(doorbell: &OwnedFd) {
    // A full counter refuses: it is readable already.
    let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;
    use crate::poll;

    fn is_notified(end: &OwnedFd) -> bool {
        let ready = poll::readable(end.as_fd(), None, Some(Duration::ZERO));
        !ready.unwrap().is_empty()
    }

    fn block(end: &OwnedFd) {
        let flags = fcntl_getfl(end).unwrap();
        fcntl_setfl(end, flags - OFlags::NONBLOCK).unwrap();
    }

    #[test]
    fn notifications_are_drained_at_once() {
        let (own, peer) = doorbells(1).unwrap();
        drain(&own[0]);
        assert!(!is_notified(&own[0]));
        notify(&peer[0]);
        notify(&peer[0]);
        assert!(is_notified(&own[0]));
        drain(&own[0]);
        assert!(!is_notified(&own[0]));
    }

    /// Either side has both ends, and makes them block; each call returns all the same.
    #[test]
    fn a_peer_cannot_make_us_wait() {
        let (own, peer) = doorbells(1).unwrap();
        let (own, peer) = (&own[0], &peer[0]);
        block(own);
        block(peer);
        drain(own);
        for _ in 0..10_000 {
            notify(peer);
        }
        assert!(is_notified(own));
        while is_notified(own) {
            drain(own);
        }
        drain(own);
    }

    #[test]
    fn what_a_peer_shuts_down_does_not_keep_us_awake() {
        let (own, peer) = doorbells(1).unwrap();
        rustix::net::shutdown(&peer[0], rustix::net::Shutdown::Both).unwrap();
        notify(&peer[0]);
        assert!(!is_notified(&own[0]));
    }

    #[test]
    fn what_is_no_socket_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        notify(&writer);
        drain(&reader);
    }
}
