//! What wakes the other side of a link. A descriptor that both sides have belongs to neither: either may make its calls block, shut it down or fill
//! it. So each call says for itself that it does not block, the two ends are different sockets, and each peer gets new ones.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Strokes that are heard at once, at most: a peer may go on and on.
const STROKES: usize = 16;

/// Ends that hear, and for each the end that strikes it. Datagrams: nothing but strokes passes from one end to the other.
pub(super) fn bells(queues: u16) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = |_| socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let pairs: Result<Vec<_>, _> = (0..queues).map(pair).collect();
    Ok(pairs?.into_iter().unzip())
}

/// Wakes who sleeps at the other end.
pub(super) fn strike(end: &OwnedFd) {
    // Refused when it is full: then it has been struck. The peer's end may be anything, or gone.
    let _ = send(end, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Forgets strokes. Another may have been quicker.
pub(super) fn hear(end: &OwnedFd) {
    for _ in 0..STROKES {
        if recv(end, &mut [0u8; 1], RecvFlags::DONTWAIT).is_err() {
            return;
        }
    }
}

/// Bells of our own processes alone, which no peer has.
pub(super) fn own_bells(queues: u16) -> io::Result<Vec<OwnedFd>> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    (0..queues).map(|_| Ok(eventfd(0, flags)?)).collect()
}

/// Rings a bell of our own.
pub(super) fn ring_own(bell: &OwnedFd) {
    // Refused when the counter is full: then it rings already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;
    use crate::poll;

    fn is_struck(end: &OwnedFd) -> bool {
        let ready = poll::readable(end.as_fd(), None, Some(Duration::ZERO));
        !ready.unwrap().is_empty()
    }

    fn block(end: &OwnedFd) {
        let flags = fcntl_getfl(end).unwrap();
        fcntl_setfl(end, flags - OFlags::NONBLOCK).unwrap();
    }

    #[test]
    fn a_stroke_is_heard_once() {
        let (ears, hammers) = bells(1).unwrap();
        hear(&ears[0]);
        assert!(!is_struck(&ears[0]));
        strike(&hammers[0]);
        strike(&hammers[0]);
        assert!(is_struck(&ears[0]));
        hear(&ears[0]);
        assert!(!is_struck(&ears[0]));
    }

    /// Either side has both ends, and makes them block; each call returns all the same.
    #[test]
    fn a_peer_cannot_make_us_wait() {
        let (ears, hammers) = bells(1).unwrap();
        let (ear, hammer) = (&ears[0], &hammers[0]);
        block(ear);
        block(hammer);
        hear(ear);
        for _ in 0..10_000 {
            strike(hammer);
        }
        assert!(is_struck(ear));
        while is_struck(ear) {
            hear(ear);
        }
        hear(ear);
    }

    #[test]
    fn what_a_peer_shuts_down_does_not_keep_us_awake() {
        let (ears, hammers) = bells(1).unwrap();
        rustix::net::shutdown(&hammers[0], rustix::net::Shutdown::Both).unwrap();
        strike(&hammers[0]);
        assert!(!is_struck(&ears[0]));
    }

    #[test]
    fn what_is_no_socket_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        strike(&writer);
        hear(&reader);
    }
}
