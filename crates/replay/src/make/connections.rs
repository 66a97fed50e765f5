//! Which transaction is on which connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Connections that are open: as many as transactions are in flight.
#[derive(Debug)]
pub(super) struct Connections {
    per_connection: f64,
    opened: u64,
    made: u64,
    /// When those connections are free again, the first one first, and their numbers.
    open: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Connections {
    pub(super) fn new(per_connection: f64) -> Self {
        Self {
            per_connection,
            opened: 0,
            made: 0,
            open: BinaryHeap::new(),
        }
    }

    /// The connection of a transaction, and whether it is kept afterwards.
    pub(super) fn next(&mut self, start_us: u64, end_us: u64) -> (u64, bool) {
        let free = self
            .open
            .peek()
            .is_some_and(|Reverse((at, _))| *at <= start_us);
        let reused = if free { self.open.pop() } else { None };
        let connection = match reused {
            Some(Reverse((_, connection))) => connection,
            None => {
                self.opened += 1;
                self.opened - 1
            }
        };
        self.made += 1;
        // With what is promised, as many on a connection as were asked for.
        let planned = (self.made + self.open.len() as u64) as f64;
        let keep = planned < self.per_connection * self.opened as f64;
        if keep {
            self.open.push(Reverse((end_us, connection)));
        }
        (connection, keep)
    }
}
