//! Who may use what: a pure function of a settings file and of who asks.

mod budget;
mod credentials;
mod parse;
mod settings;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;

use crate::Error;

pub use budget::Budget;
pub use credentials::Credentials;
pub use parse::{Names, NoNames};
pub use settings::{KEYS, Key, Settings};

use budget::BudgetRules;
use parse::{Addresses, Ports, Who};

/// The first port that everybody may listen at, where nothing else is said (Linux:
/// `net.ipv4.ip_unprivileged_port_start`).
pub const UNPRIVILEGED_PORT_START: u16 = 1024;

/// Ports of addresses that are only for those whom rules name for them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListenRule {
    who: Vec<Who>,
    addresses: Vec<Addresses>,
    ports: Vec<Ports>,
}

/// Addresses from which only those whom rules name for them may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConnectRule {
    who: Vec<Who>,
    addresses: Vec<Addresses>,
}

/// Who may attach, listen and connect, and how much each may have.
///
/// What no rule names is everybody's, but ports below the first unprivileged one are root's. What a
/// rule names is only for root and those whom rules name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    attach: Vec<Who>,
    listen: Vec<ListenRule>,
    connect: Vec<ConnectRule>,
    budgets: BudgetRules,
    unprivileged_port_start: u16,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attach: Vec::new(),
            listen: Vec::new(),
            connect: Vec::new(),
            budgets: BudgetRules::default(),
            unprivileged_port_start: UNPRIVILEGED_PORT_START,
        }
    }
}

impl Policy {
    /// The same, where everybody may listen at ports from `start` on.
    #[must_use]
    pub fn with_unprivileged_ports(mut self, start: u16) -> Self {
        self.unprivileged_port_start = start;
        self
    }

    /// Whether this program may attach.
    ///
    /// # Errors
    /// EACCES.
    pub fn allows_attach(&self, who: &Credentials) -> Result<(), Error> {
        if who.is_root() || self.attach.is_empty() || names(&self.attach, who) {
            return Ok(());
        }
        Err(Error::new(
            Errno::ACCESS,
            format!("user {} may not use this daemon", who.uid),
            "have its administrator add 'attach = USER' to its settings",
        ))
    }

    /// Whether this program may listen here. An unspecified address stands for all. Port 0 is one
    /// that the stack chooses, and asks again for.
    ///
    /// # Errors
    /// EACCES.
    pub fn allows_listen(
        &self,
        who: &Credentials,
        address: IpAddr,
        port: u16,
    ) -> Result<(), Error> {
        let address = address.to_canonical();
        if who.is_root() || port == 0 {
            return Ok(());
        }
        let of_port = || {
            let has_port = |rule: &&ListenRule| rule.ports.iter().any(|ports| ports.contain(port));
            self.listen.iter().filter(has_port)
        };
        let grants = |rule: &ListenRule| {
            names(&rule.who, who) && rule.addresses.iter().any(|some| some.cover(address))
        };
        let takes = |rule: &ListenRule| rule.addresses.iter().any(|some| some.overlap(address));
        let is_free = port >= self.unprivileged_port_start && !of_port().any(takes);
        if is_free || of_port().any(grants) {
            return Ok(());
        }
        let place = SocketAddr::new(address, port);
        Err(Error::new(
            Errno::ACCESS,
            format!("user {} may not listen at {place}", who.uid),
            format!("have the daemon's administrator add 'listen = USER {address} {port}'"),
        ))
    }

    /// Whether this program may connect from here; an unspecified address is one that the stack
    /// chooses, and asks again for. A port that the program chose itself must be one where it may
    /// listen, as it keeps others from it; 0: the stack chooses.
    ///
    /// # Errors
    /// EACCES.
    pub fn allows_connect(&self, who: &Credentials, local: SocketAddr) -> Result<(), Error> {
        let address = local.ip().to_canonical();
        let of = |rule: &&ConnectRule| rule.addresses.iter().any(|some| some.cover(address));
        let mut rules = self.connect.iter().filter(of).peekable();
        let is_free = who.is_root() || address.is_unspecified() || rules.peek().is_none();
        if !is_free && !rules.any(|rule| names(&rule.who, who)) {
            return Err(Error::new(
                Errno::ACCESS,
                format!("user {} may not connect from {address}", who.uid),
                format!("have the daemon's administrator add 'connect = USER {address}'"),
            ));
        }
        self.allows_listen(who, address, local.port())
    }

    /// How much this program may have.
    pub fn budget(&self, who: &Credentials) -> Budget {
        self.budgets.of(who)
    }
}

fn names(list: &[Who], who: &Credentials) -> bool {
    list.iter().any(|one| one.names(who))
}
