//! Routes, addresses and links that change while connections live.
//!
//! A connection goes by its path, which is not looked up for each packet. When something changes,
//! those at hand are looked at, a few at a time; one that is packed is looked at when it is
//! unpacked.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use wire::time::Instant;

use crate::config::Network;
use crate::error::Error;
use crate::ip::Path;
use crate::tcp::conn::Conn;
use crate::tcp::path::PathActions;
use crate::tcp::queues::Output;
use crate::tcp::shared::Shared;

/// The next hop of who has none: nobody is asked for it.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Connections that are still to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Rerouting {
    slots: Vec<u32>,
}

impl Rerouting {
    /// Takes these links, addresses and routes in the place of what there was; `slots` are those of
    /// the connections at hand.
    pub fn change(
        &mut self,
        network: Network,
        shared: &mut Shared,
        slots: impl Iterator<Item = u32>,
    ) -> io::Result<()> {
        let old = shared.config.replace_network(network);
        if let Err(error) = shared.net.links.routing.replace(&shared.config) {
            shared.config.replace_network(old);
            return Err(error);
        }
        self.slots.clear();
        self.slots.extend(slots);
        Ok(())
    }

    /// The slot of the next one.
    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        self.slots.pop()
    }

    /// When it wants to be asked for the next one.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.slots.is_empty()).then_some(Instant::ZERO)
    }
}

/// Has a connection take the path that there is now.
#[cold]
pub(crate) fn take_path(conn: &mut Conn<'_>, now: Instant) {
    let (local, remote) = (conn.key.local().ip(), conn.key.remote().ip());
    match conn.sh.net.path(remote, Some(local)) {
        Ok(new) if new.port == conn.cold.path.port => go_by(conn, now, &new),
        // Its packets would leave by a link that it is not on, or nowhere. The kernel keeps such a
        // connection, too, until it times out or there is a way again.
        Ok(_) | Err(_) => lose_path(conn),
    }
}

fn go_by(conn: &mut Conn<'_>, now: Instant, new: &Path) {
    let path = &mut conn.cold.path;
    let has_moved = (path.next_hop, path.known) != (new.next_hop, new.known);
    (path.next_hop, path.known) = (new.next_hop, new.known);
    let actions = conn.path().on_link_mtu(now, new.mtu);
    let has_data = conn.hot.state.may_transmit() && conn.hot.flight() > 0;
    if actions.contains(PathActions::GO_BACK) && has_data {
        conn.go_back(now);
    }
    if has_moved {
        try_new_way(conn, now);
    }
}

fn lose_path(conn: &mut Conn<'_>) {
    conn.cold.path.next_hop = NOBODY;
    conn.cold.path.known = None;
    conn.cold.soft_error = Some(Error::NetworkUnreachable);
    stop_waiting(conn);
}

/// What was lost on a way that is no more is not waited for any longer; what had none goes.
fn try_new_way(conn: &mut Conn<'_>, now: Instant) {
    stop_waiting(conn);
    conn.mark_output();
    if conn.hot.retries > 0 && conn.hot.loss.rtx_at != Instant::FAR {
        conn.hot.loss.rtx_at = now;
        conn.wake_at(now);
    }
}

/// A neighbour that the connection does not go by any more is not waited for.
fn stop_waiting(conn: &mut Conn<'_>) {
    if conn.lists().is_on(Output::Parked) {
        conn.unpark();
    }
}
