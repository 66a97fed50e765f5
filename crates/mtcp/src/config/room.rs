//! What a process reserves, fitted to the limit on its address space (RLIMIT_AS, `ulimit -v`).
//!
//! A stack reserves address space for all that it may ever hold, and memory as it is needed: only a limit on the former is in the way of that.

use rustix::process::{Resource, getrlimit};

use super::{Config, IoSpec};

/// Address space of a connection, open or closed by its application, in all tables.
const CONNECTION: u64 = 5 << 10;
/// Of a byte of `buffer_memory`, in halves of a byte: two pools, and what is known of their blocks.
const HALVES_PER_BYTE: u64 = 9;
/// Of what does not depend on either: the link, records of handshakes and of connections that are over.
const REST: u64 = 56 << 20;
/// With less, not even the programs for an interface can be read.
const LEAST_LIMIT: u64 = 96 << 20;
/// The fewest that are worth a stack.
const LEAST_CONNECTIONS: u64 = 256;
const LEAST_MEMORY: u64 = 4 << 20;

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

    /// Has the stacks of this process take at most a third of the address space that it may have, as far as that is possible. All processes with
    /// the same limit and settings come to the same.
    pub(crate) fn fit(&mut self) {
        if let Some(limit) = getrlimit(Resource::As).current
            && self.fit_to(limit)
        {
            log::warn!(
                "the limit on address space ({} MB, ulimit -v) leaves room for {} connections with {} MB of buffers: raise it for more",
                limit >> 20,
                self.max_concurrency,
                self.buffer_memory >> 20
            );
        }
    }

    /// Returns whether anything had to be made smaller.
    fn fit_to(&mut self, limit: u64) -> bool {
        let stacks = u64::from(self.processes).max(self.cores as u64).max(1);
        let room = (limit / 3 / stacks).saturating_sub(REST);
        let connections = u64::from(self.max_concurrency) + u64::from(self.orphans());
        let memory = self.buffer_memory as u64;
        let is_enough = connections
            .saturating_mul(CONNECTION)
            .saturating_add(memory.saturating_mul(HALVES_PER_BYTE) / 2)
            <= room;
        if is_enough {
            return false;
        }
        // Half of the room for connections, if they need as much, and the rest for their buffers.
        let most = (room / 2 / CONNECTION).max(2 * LEAST_CONNECTIONS);
        if connections > most {
            self.max_concurrency = count(most / 2).min(self.max_concurrency);
            self.max_orphans = count(most / 2).min(self.orphans());
        }
        let taken = connections.min(most) * CONNECTION;
        let left = room.saturating_sub(taken) / HALVES_PER_BYTE * 2;
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
        config.fit_to(megabytes << 20);
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
            let tables = (u64::from(sockets + orphans) * CONNECTION) >> 20;
            assert!(
                tables + memory * 9 / 2 + (REST >> 20) <= limit / 3,
                "{limit}: {sockets} {memory}"
            );
        }
        assert_eq!(fitted(1000), (10_000, 0, 39));
    }

    #[test]
    fn the_least_is_had_whatever_the_limit() {
        assert_eq!(fitted(1), (256, 256, 4));
    }
}
