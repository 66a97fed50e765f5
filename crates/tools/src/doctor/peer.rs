//! A real SYN to somebody, and what becomes of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::check::Check;
use crate::sockets::{Ready, Sockets};

/// Three SYNs' time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Connects to `peer`, and resets the connection.
pub(crate) fn check(sockets: &mut impl Sockets, peer: SocketAddr) -> Check {
    let what = format!("SYN to {peer}");
    let start = Instant::now();
    let outcome = connect(sockets, peer);
    let took = format!("{:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    match outcome {
        Ok(()) => Check::ok(what, format!("answered after {took}: frames go both ways")),
        Err(Errno::CONNREFUSED) => Check::ok(
            what,
            format!("refused after {took}, so that frames go both ways"),
        ),
        Err(Errno::TIMEDOUT) => Check::fail(
            what,
            "no answer",
            "see with tcpdump at the peer whether it comes, and with --pcap of 'mtcp load' whether the answer does",
        ),
        Err(Errno::HOSTUNREACH) => Check::fail(
            what,
            "nobody says where that is (ARP, neighbour discovery)",
            "check the address, the VLAN and the cable, or give --gateway",
        ),
        Err(error) => Check::fail(what, error.to_string(), "check --addr and --gateway"),
    }
}

fn connect(sockets: &mut impl Sockets, peer: SocketAddr) -> Result<(), Errno> {
    let socket = sockets.connect(None, peer, true)?;
    let outcome = wait(sockets, socket);
    sockets.close(socket);
    outcome
}

fn wait(sockets: &mut impl Sockets, socket: crate::sockets::Handle) -> Result<(), Errno> {
    sockets.add(socket, Ready::OUT, 0)?;
    let (end, mut events) = (Instant::now() + ANSWER_TIMEOUT, Vec::new());
    loop {
        let left = end.saturating_duration_since(Instant::now());
        sockets.wait(&mut events, Some(left))?;
        if !events.is_empty() {
            return sockets.take_error(socket).map_or(Ok(()), Err);
        }
        if left.is_zero() {
            return Err(Errno::TIMEDOUT);
        }
    }
}
