//! One run of one side.

pub(crate) mod memory;
pub(crate) mod window;

use crate::signals::Stop;

use super::place::Place;
use super::side::Side;

use memory::Memory;
use window::Window;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) enum Probe {
    /// Traffic for a while.
    Window(Window),
    /// Connections that do nothing.
    Memory(Memory),
}

impl Probe {
    /// Runs `side` once; its figures, in the order of the case's metrics.
    ///
    /// # Errors
    /// An end could not start, took too long or lost connections.
    pub(crate) fn run(
        &self,
        place: &mut Place<'_>,
        side: Side,
        stop: &Stop,
    ) -> anyhow::Result<Vec<f64>> {
        match self {
            Self::Window(window) => window.run(place, side, stop),
            Self::Memory(memory) => memory.run(place, side, stop),
        }
    }
}
