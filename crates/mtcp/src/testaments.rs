//! What the stacks of several processes leave to those that take their places, should they end without a word.

use std::io;
use std::sync::Arc;

use mtcp_core::Testament;
use ring::region::Shared;

/// Memory with a testament for each seat. Processes that are forked have it, too.
#[derive(Clone, Debug)]
pub(crate) struct Testaments {
    memory: Arc<Shared>,
    connections: u32,
}

impl Testaments {
    /// For so many seats, and stacks of so many connections. Costs memory as it is used.
    ///
    /// # Errors
    /// No memory or descriptor.
    pub(crate) fn new(seats: u8, connections: u32) -> io::Result<Self> {
        let bytes = usize::from(seats) * Testament::size(connections);
        Ok(Self {
            memory: Arc::new(Shared::create("mtcp-testaments", bytes)?),
            connections,
        })
    }

    /// That of a seat.
    pub(crate) fn of(&self, seat: u8) -> Testament {
        let at = usize::from(seat) * Testament::size(self.connections);
        Testament::new(Arc::clone(&self.memory), at, self.connections)
    }
}
