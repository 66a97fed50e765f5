//! A Fast Open cookie that the stack takes from the peer.

use std::sync::Arc;

use mtcp::{Context, VirtualClock, Waiter};
use wire::tcp::TcpFlags;
use wire::time::Instant;

use super::compose;
use super::flows::{Cookies, Flow};
use super::observe::{SeenBody, look};
use super::script::{IpSpec, TcpOption, TcpSpec};
use super::settings::Settings;
use crate::call::Kind;
use crate::constants::{AF_INET, AF_INET6, SOCK_STREAM, SOL_TCP, TCP_FASTOPEN};
use crate::host::{boot, turn};
use crate::perform::Timeline;

/// In scripts this name stands for a cookie that is good without having been asked for.
pub(super) const VALID: &str = "TFO_COOKIE";

/// Who waits where nothing does.
#[derive(Debug)]
struct Nobody(VirtualClock);

impl Waiter for Nobody {
    fn wait(&self, context: &mut Context, _: Option<Instant>) {
        context.wake_handle().interrupt();
    }
}

impl Timeline for Nobody {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn is_over(&self) -> bool {
        true
    }
}

/// Asks a stack with the same secret at the same time for one.
pub(super) fn valid(settings: &Settings) -> Option<Vec<u8>> {
    let nobody = Arc::new(Nobody(VirtualClock::default()));
    let waiter: Arc<dyn Waiter> = Arc::clone(&nobody) as _;
    let (mut twin, mut far) = boot(settings.config.clone(), &nobody.0, waiter).ok()?;
    let socket = Kind::Socket {
        domain: if settings.local_ip.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        },
        kind: SOCK_STREAM,
        protocol: 0,
    };
    let fd = socket.perform(&mut twin, &*nobody).ok()?.value as i32;
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
        kind.perform(&mut twin, &*nobody).ok()?;
    }
    let ports = (settings.bind_port, 1);
    let state = (&Flow::default(), &Cookies::new());
    let syn = compose::tcp(settings, ports, state, &IpSpec::default(), &request()).ok()?;
    far.send(&syn);
    turn(&mut twin);
    let sent = far.take()?;
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
