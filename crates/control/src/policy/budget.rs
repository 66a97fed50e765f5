//! How much a program may have.

use super::Credentials;
use super::parse::Who;

/// What one program may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Connections.
    pub connections: u64,
    /// Listeners.
    pub listeners: u64,
    /// Bytes of shared memory.
    pub memory: u64,
    /// Events that wait for it.
    pub events: u64,
    /// Programs of its user that are connected to the daemon.
    pub programs: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            connections: 65_536,
            listeners: 1_024,
            memory: 256 << 20,
            events: 65_536,
            programs: 256,
        }
    }
}

/// A limit for some.
type Limit = (Vec<Who>, u64);

/// The limits of a settings file, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct BudgetRules {
    pub(super) connections: Vec<Limit>,
    pub(super) listeners: Vec<Limit>,
    pub(super) memory: Vec<Limit>,
    pub(super) events: Vec<Limit>,
    pub(super) programs: Vec<Limit>,
}

impl BudgetRules {
    pub(super) fn of(&self, who: &Credentials) -> Budget {
        let usual = Budget::default();
        Budget {
            connections: limit(&self.connections, who).unwrap_or(usual.connections),
            listeners: limit(&self.listeners, who).unwrap_or(usual.listeners),
            memory: limit(&self.memory, who).unwrap_or(usual.memory),
            events: limit(&self.events, who).unwrap_or(usual.events),
            programs: limit(&self.programs, who).unwrap_or(usual.programs),
        }
    }
}

/// The user's own limit, the last where there are several; else the highest of its groups; else
/// everybody's.
fn limit(limits: &[Limit], who: &Credentials) -> Option<u64> {
    let of = |is: fn(&Who) -> bool| {
        let named = move |list: &[Who]| list.iter().any(|one| is(one) && one.names(who));
        limits
            .iter()
            .filter(move |(list, _)| named(list))
            .map(|(_, limit)| *limit)
    };
    of(|one| matches!(one, Who::User(_)))
        .next_back()
        .or_else(|| of(|one| matches!(one, Who::Group(_))).max())
        .or_else(|| of(|one| matches!(one, Who::Everyone)).next_back())
}
