//! What the stacks of several processes leave to those that take their places, should they end without a word.

use std::io;
use std::sync::Arc;

use mtcp_core::{Holdings, Testament};
use ring::region::{Plots, Shared};

/// Memory with a testament for each seat, and a plot. Processes that are forked have it, too.
#[derive(Clone, Debug)]
pub(crate) struct Testaments {
    memory: Arc<Shared>,
    /// `None`: there is no address space for so much. What was written ends with who wrote it then.
    plots: Option<Arc<Plots>>,
    holdings: Holdings,
}

impl Testaments {
    /// For so many seats, and stacks that have as much as `holdings` say. Costs memory as it is used.
    ///
    /// # Errors
    /// No memory or descriptor.
    pub(crate) fn new(seats: u8, holdings: Holdings) -> io::Result<Self> {
        let bytes = usize::from(seats) * Testament::size(holdings.connections);
        Ok(Self {
            memory: Arc::new(Shared::create("mtcp-testaments", bytes)?),
            plots: Plots::create("mtcp-streams", seats.into(), holdings.size()?).ok(),
            holdings,
        })
    }

    /// That of a seat, for who has taken it: the process that had it before is gone.
    pub(crate) fn of(&self, seat: u8) -> Testament {
        let connections = self.holdings.connections;
        let at = usize::from(seat) * Testament::size(connections);
        let testament = Testament::new(Arc::clone(&self.memory), at, connections);
        let plots = self.plots.as_ref();
        match plots.and_then(|plots| plots.take(seat.into())) {
            Some(plot) => testament.with_plot(plot, self.holdings),
            None => testament,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 128 TiB, parts are taken.
    #[test]
    fn without_address_space_only_endpoints_are_kept() {
        let holdings = Holdings {
            connections: 16,
            send_pool: 512 << 30,
            max_buffer: 1 << 20,
        };
        assert!(Testaments::new(2, holdings).unwrap().plots.is_some());
        let without = Testaments::new(u8::MAX, holdings).unwrap();
        assert!(without.plots.is_none());
        let _ = without.of(7);
    }
}
