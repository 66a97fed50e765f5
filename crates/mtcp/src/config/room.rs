//! What a process reserves, fitted to the limit on its address space (RLIMIT_AS, `ulimit -v`), and
//! what it may come to need, to the memory of its control group.
//!
//! A stack reserves address space for all that it may ever hold, and memory as it is needed: only a
//! limit on the former is in the way of that. But a group that comes to need more than it may have
//! is killed.

use rustix::process::{Resource, getrlimit};

use super::{Config, IoSpec, cgroup};

/// What stacks take of something that is limited, bytes.
struct Cost {
    /// The part of the limit that may be theirs.
    part: (u64, u64),
    /// Of a connection, open or closed by its application, in all tables.
    connection: u64,
    /// Of a byte of `buffer_memory`, in halves of a byte: two pools, and what is known of their
    /// blocks.
    halves_per_byte: u64,
    /// Of what does not depend on either: the link, records of handshakes and of connections that
    /// are over.
    rest: u64,
}

const ADDRESS_SPACE: Cost = Cost {
    part: (1, 3),
    connection: 5 << 10,
    halves_per_byte: 9,
    rest: 56 << 20,
};
/// What is taken as it is needed.
const MEMORY: Cost = Cost {
    part: (3, 4),
    connection: 1 << 10,
    halves_per_byte: 4,
    rest: 40 << 20,
};
/// With less, not even the programs for an interface can be read.
const LEAST_LIMIT: u64 = 96 << 20;
/// What the place of a program takes that may attach to a daemon, bytes of address space.
const PROGRAM: u64 = 4 << 20;
/// The fewest that are worth a daemon.
const LEAST_PROGRAMS: u32 = 8;
/// The fewest that are worth a stack.
const LEAST_CONNECTIONS: u64 = 256;
const LEAST_MEMORY: u64 = 4 << 20;

/// As many programs as a sixth of the address space has room for, at most `most`.
pub(crate) fn programs(most: u32) -> u32 {
    let limit = getrlimit(Resource::As).current;
    limit.map_or(most, |limit| most.min(programs_in(limit)))
}

fn programs_in(limit: u64) -> u32 {
    count(limit / 6 / PROGRAM).max(LEAST_PROGRAMS)
}

/// Bytes of buffers that a daemon has for a program which may have `wanted`: so many that four
/// programs take a third of the address space.
pub(crate) fn program_memory(wanted: usize) -> usize {
    let limit = getrlimit(Resource::As).current;
    limit.map_or(wanted, |limit| wanted.min((limit / 12) as usize))
}

impl Config {
    /// Refuses what would end in the middle of opening an interface.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub(crate) fn check_room(&self, spec: &IoSpec) -> Result<(), String> {
        match getrlimit(Resource::As).current {
            Some(limit) if limit < LEAST_LIMIT && matches!(spec, IoSpec::Afxdp(_)) => Err(format!(
                "the limit on address space is {} MB, an interface needs {}: raise it (ulimit -v unlimited)",
                limit >> 20,
                LEAST_LIMIT >> 20
            )),
            _ => Ok(()),
        }
    }

    /// Has the stacks of this process take at most a third of the address space that it may have,
    /// and three quarters of the memory of its control group, as far as that is possible. All
    /// processes with the same limits and settings come to the same.
    pub(crate) fn fit(&mut self) {
        if let Some(limit) = getrlimit(Resource::As).current
            && self.fit_to(limit, &ADDRESS_SPACE)
        {
            self.tell("address space", limit, "ulimit -v");
        }
        if let Some(limit) = cgroup::memory_limit()
            && self.fit_to(limit, &MEMORY)
        {
            self.tell(
                "the control group's memory",
                limit,
                "memory.max of its cgroup",
            );
        }
    }

    /// The address space that the stacks of this process take at most, bytes.
    pub fn address_space(&self) -> u64 {
        let stacks = u64::from(self.processes).max(self.cores as u64).max(1);
        self.taken(&ADDRESS_SPACE)
            .saturating_add(ADDRESS_SPACE.rest)
            .saturating_mul(stacks)
    }

    /// What one stack takes, but for what does not depend on its sizes.
    fn taken(&self, cost: &Cost) -> u64 {
        let connections = u64::from(self.max_concurrency) + u64::from(self.orphans());
        connections
            .saturating_mul(cost.connection)
            .saturating_add((self.buffer_memory as u64).saturating_mul(cost.halves_per_byte) / 2)
    }

    fn tell(&self, what: &str, limit: u64, which: &str) {
        log::warn!(
            "the limit on {what} ({} MB, {which}) leaves room for {} connections with {} MB of buffers: raise it for more",
            limit >> 20,
            self.max_concurrency,
            self.buffer_memory >> 20
        );
    }

    /// Returns whether anything had to be made smaller.
    fn fit_to(&mut self, limit: u64, cost: &Cost) -> bool {
        let stacks = u64::from(self.processes).max(self.cores as u64).max(1);
        let (some, all) = cost.part;
        let room = (limit / all * some / stacks).saturating_sub(cost.rest);
        let connections = u64::from(self.max_concurrency) + u64::from(self.orphans());
        let memory = self.buffer_memory as u64;
        if self.taken(cost) <= room {
            return false;
        }
        // Half of the room for connections, if they need as much, and the rest for their buffers.
        let most = (room / 2 / cost.connection).max(2 * LEAST_CONNECTIONS);
        if connections > most {
            self.max_concurrency = count(most / 2).min(self.max_concurrency);
            self.max_orphans = count(most / 2).min(self.orphans());
        }
        let taken = connections.min(most) * cost.connection;
        let left = room.saturating_sub(taken) / cost.halves_per_byte * 2;
        self.buffer_memory = left.max(LEAST_MEMORY).min(memory) as usize;
        true
    }
}

fn count(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(megabytes: u64) -> (u32, u32, u64) {
        let mut config = Config::default();
        config.fit_to(megabytes << 20, &ADDRESS_SPACE);
        let memory = config.buffer_memory as u64 >> 20;
        (config.max_concurrency, config.max_orphans, memory)
    }

    #[test]
    fn where_there_is_room_nothing_changes() {
        let all = Config::default();
        let memory = all.buffer_memory as u64 >> 20;
        assert_eq!(fitted(4096), (all.max_concurrency, all.max_orphans, memory));
    }

    #[test]
    fn what_is_reserved_fits_into_a_third_of_the_limit() {
        for limit in [400, 1000, 2000] {
            let (sockets, orphans, memory) = fitted(limit);
            let orphans = if orphans == 0 { sockets } else { orphans };
            let tables = (u64::from(sockets + orphans) * ADDRESS_SPACE.connection) >> 20;
            assert!(
                tables + memory * 9 / 2 + (ADDRESS_SPACE.rest >> 20) <= limit / 3,
                "{limit}: {sockets} {memory}"
            );
        }
        assert_eq!(fitted(1000), (10_000, 0, 39));
    }

    #[test]
    fn a_daemon_has_places_for_programs_in_a_sixth() {
        assert_eq!(programs_in(1000 << 20), 41);
        assert_eq!(programs_in(0), LEAST_PROGRAMS);
        assert_eq!(programs_in(u64::MAX), u32::MAX);
    }

    #[test]
    fn the_least_is_had_whatever_the_limit() {
        assert_eq!(fitted(1), (256, 256, 4));
    }

    #[test]
    fn what_may_be_needed_fits_into_three_quarters_of_a_group() {
        let fitted = |megabytes: u64| {
            let mut config = Config {
                max_concurrency: 65_000,
                ..Config::default()
            };
            let smaller = config.fit_to(megabytes << 20, &MEMORY);
            (smaller, config.max_concurrency, config.buffer_memory >> 20)
        };
        assert_eq!(fitted(100), (true, 8960, 8));
        let (smaller, connections, megabytes) = fitted(300);
        assert!(smaller && connections > 40_000 && megabytes > 40);
        assert!(!fitted(1000).0);
    }
}
