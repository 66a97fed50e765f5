//! Connections to our own addresses. Where the listener is this process's alone they stay inside
//! its stack. A listener that other processes have, too, or have alone, listens in the kernel,
//! which any process reaches over the loopback interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mtcp::interfaces;

use crate::engine::Engine;
use crate::rules::{Rules, plain, rules};
use crate::socket::{Body, Socket};

/// How one of our own addresses is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stack,
    /// By the kernel, at this address.
    Kernel(SocketAddr),
}

/// How to reach `remote`, if that is an address of ours.
pub(crate) fn way_to_ourselves(engine: &Engine, remote: SocketAddr) -> Option<Way> {
    if !rules().is_some_and(|rules| rules.is_own(remote)) {
        return None;
    }
    let listens = |socket: &&Socket| listens_at(socket, remote);
    let listener = engine
        .sockets
        .iter()
        .map(|(_, socket)| socket)
        .find(listens);
    let is_local = interfaces::is_local(plain(remote.ip()));
    Some(match listener {
        Some(listener) if !listener.inherited && !listener.shared => Way::Stack,
        // The kernel has it at an address that leads nowhere there.
        Some(Socket {
            local: Some(local), ..
        }) if !local.ip().is_unspecified() && !interfaces::is_local(plain(local.ip())) => {
            Way::Stack
        }
        // Nobody's, as the stack says, too, where it takes no queue to ask it.
        None if can_start(engine) && !listens_in_kernel(remote.port(), is_local) => Way::Stack,
        _ => Way::Kernel(kernel_at(remote, is_local)),
    })
}

/// Whether there is a stack, or one could be without taking anything from anybody.
fn can_start(engine: &Engine) -> bool {
    let takes_nothing = |rules: &Rules| rules.loops() || rules.is_attached();
    !engine.stack.is_idle() || rules().is_some_and(takes_nothing)
}

/// Whether the kernel has a listener at this port, which may be another process's, where it can be
/// reached. One at an address that the kernel has not (`is_local`) listens on the stack alone.
fn listens_in_kernel(port: u16, is_local: bool) -> bool {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .any(|table| {
            let mut lines = table.lines();
            lines.any(|line| is_listener_at(line, port, is_local))
        })
}

/// Whether a line of that table (proc(5)) is of one: `0: 0100007F:1F90 00000000:0000 0A …`.
fn is_listener_at(line: &str, port: u16, is_local: bool) -> bool {
    const LISTEN: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, _, state) = (words.next(), words.next(), words.next());
    let Some((ip, at)) = local.and_then(|local| local.rsplit_once(':')) else {
        return false;
    };
    let is_reached = is_local || ip.bytes().all(|digit| digit == b'0');
    is_reached && state == Some(LISTEN) && u16::from_str_radix(at, 16) == Ok(port)
}

/// Whether it takes connections to this address.
fn listens_at(socket: &Socket, at: SocketAddr) -> bool {
    let Body::Listener { .. } = socket.body else {
        return false;
    };
    socket.local.is_some_and(|local| {
        let (local_ip, ip) = (plain(local.ip()), plain(at.ip()));
        local.port() == at.port() && (local_ip.is_unspecified() || local_ip == ip)
    })
}

/// Where the kernel reaches a listener at all addresses: there, if the kernel has the address, else
/// on its loopback interface.
fn kernel_at(remote: SocketAddr, is_local: bool) -> SocketAddr {
    let ip = match plain(remote.ip()) {
        _ if is_local => remote.ip(),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) if remote.is_ipv6() => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    SocketAddr::new(ip, remote.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mtcp::Domain;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_kernel_reaches_it_where_it_has_an_address() {
        for (remote, is_local, there) in [
            ("10.0.0.2:80", false, "127.0.0.1:80"),
            ("10.0.0.2:80", true, "10.0.0.2:80"),
            ("[fd00::2]:80", false, "[::1]:80"),
            ("[::ffff:10.0.0.2]:80", false, "[::ffff:127.0.0.1]:80"),
        ] {
            assert_eq!(kernel_at(at(remote), is_local), at(there));
        }
    }

    #[test]
    fn a_listener_of_the_kernel_is_found() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1";
        assert!(is_listener_at(line, 8080, true) && !is_listener_at(line, 80, true));
        assert!(!is_listener_at(&line.replace("0A", "01"), 8080, true));
        // At an address that is the stack's alone, and at all addresses.
        assert!(!is_listener_at(line, 8080, false));
        assert!(is_listener_at(
            &line.replace("0100007F", "00000000"),
            8080,
            false
        ));
        assert!(!is_listener_at(
            "  sl  local_address rem_address   st",
            8080,
            true
        ));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens_in_kernel(port, true));
    }

    #[test]
    fn listeners_are_at_an_address_or_at_all() {
        let listener = |local: &str| {
            let body = Body::Listener {
                backlog: 1,
                ours: None,
            };
            let mut socket = Socket::new(0, Domain::V4, false, body);
            socket.local = Some(at(local));
            socket
        };
        let remote = at("10.0.0.2:80");
        assert!(listens_at(&listener("0.0.0.0:80"), remote));
        assert!(listens_at(&listener("[::]:80"), remote));
        assert!(listens_at(&listener("10.0.0.2:80"), remote));
        assert!(!listens_at(&listener("10.0.0.3:80"), remote));
        assert!(!listens_at(&listener("0.0.0.0:81"), remote));
    }
}
