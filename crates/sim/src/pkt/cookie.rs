//! A Fast Open cookie that the stack takes from the peer.

use wire::tcp::TcpFlags;

use super::compose;
use super::flows::{Cookies, Flow};
use super::observe::{SeenBody, look};
use super::script::{IpSpec, TcpOption, TcpSpec};
use super::settings::Settings;
use crate::calls::constants::{AF_INET, AF_INET6, SOCK_STREAM, SOL_TCP, TCP_FASTOPEN};
use crate::calls::{Call, Kind, Process};

/// In scripts this name stands for a cookie that is good without having been asked for.
pub(super) const VALID: &str = "TFO_COOKIE";

/// Asks a stack with the same secret at the same time for one.
pub(super) fn valid(settings: &Settings) -> Option<Vec<u8>> {
    let mut twin = Process::new(settings.config.clone()).ok()?;
    twin.settle_in();
    let socket = Kind::Socket {
        domain: if settings.local_ip.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        },
        kind: SOCK_STREAM,
        protocol: 0,
    };
    let fd = Call::new(socket).poll(&mut twin)?.ok()?.value as i32;
    let addr = (settings.local_ip, settings.bind_port).into();
    let open = Kind::SetOption {
        fd,
        level: SOL_TCP,
        name: TCP_FASTOPEN,
        value: 1_i32.to_le_bytes().to_vec(),
    };
    for kind in [
        open,
        Kind::Bind { fd, addr },
        Kind::Listen { fd, backlog: 1 },
    ] {
        Call::new(kind).poll(&mut twin)?.ok()?;
    }
    let ports = (settings.bind_port, 1);
    let state = (&Flow::default(), &Cookies::new());
    let syn = compose::tcp(settings, ports, state, &IpSpec::default(), &request()).ok()?;
    twin.receive(&syn);
    let sent = twin.pop_sent()?;
    let SeenBody::Tcp(_, options, _) = look(sent.at, &sent.frame).ok()??.body else {
        return None;
    };
    options.into_iter().find_map(|option| match option {
        TcpOption::FastOpen(cookie) => Some(cookie),
        _ => None,
    })
}

/// A SYN that asks (RFC 7413 §4.1.1).
fn request() -> TcpSpec {
    TcpSpec {
        ports: None,
        flags: TcpFlags::SYN,
        seq: 0,
        len: 0,
        ack: None,
        window: Some(1000),
        urgent: None,
        options: Some(vec![TcpOption::Mss(1000), TcpOption::FastOpen(Vec::new())]),
    }
}
