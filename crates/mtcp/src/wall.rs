//! The firewall of the host, which frames that come to the stack do not pass: who listens asks it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::io::netlink::{Firewall, Link};

use crate::{Errno, Result};

/// Which ports stay closed. By default none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wall(Option<Arc<Rules>>);

#[derive(Debug)]
enum Rules {
    Read(Firewall),
    /// Why not.
    Unread(String),
}

impl Wall {
    /// As the rules are now, for frames of this interface.
    pub(crate) fn of(link: &Link) -> Self {
        let rules = match Firewall::read(link) {
            Ok(rules) => Rules::Read(rules),
            Err(error) => Rules::Unread(error.to_string()),
        };
        Self(Some(Arc::new(rules)))
    }

    /// Whether all peers may connect to `local`, which means `addresses` if it is none in
    /// particular.
    ///
    /// # Errors
    /// `EACCES`; the log says why, and what to do.
    pub(crate) fn admits(
        &self,
        local: SocketAddr,
        only_v6: bool,
        addresses: &[IpAddr],
    ) -> Result<()> {
        match self.keeps_closed(local, only_v6, addresses) {
            None => Ok(()),
            Some(why) => {
                log::warn!("{why}");
                Err(Errno::EACCES)
            }
        }
    }

    /// The same. `None`: they may; else a line that says why not, and what to do.
    pub(crate) fn keeps_closed(
        &self,
        local: SocketAddr,
        only_v6: bool,
        addresses: &[IpAddr],
    ) -> Option<String> {
        let rules = self.0.as_ref()?;
        // RFC 4291 §2.5.5.2: an IPv4 address in the words of IPv6.
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let any = local.ip().is_unspecified();
        let is_meant = |address: &&IpAddr| match local.ip() {
            IpAddr::V4(_) => address.is_ipv4(),
            IpAddr::V6(_) => address.is_ipv6() || !only_v6,
        };
        let own = [local.ip()];
        let meant = if any { addresses } else { &own };
        let meant = meant.iter().filter(|address| !any || is_meant(address));
        let (local, why) = meant
            .map(|address| SocketAddr::new(*address, local.port()))
            .find_map(|local| Some((local, rules.closes(local)?)))?;
        Some(format!(
            "port {} of {} is not opened: {why}: change that, or open it to everybody with --ignore-firewall (ignore_firewall = yes)",
            local.port(),
            local.ip()
        ))
    }
}

impl Rules {
    fn closes(&self, local: SocketAddr) -> Option<String> {
        match self {
            Self::Read(firewall) => firewall
                .closes(local)
                .map(|chain| format!("the host's firewall closes it to some or all ({chain})")),
            Self::Unread(error) => Some(format!(
                "the rules of the host's firewall cannot be read ({error})"
            )),
        }
    }
}
