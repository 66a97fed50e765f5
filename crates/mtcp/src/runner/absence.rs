//! A link that is gone for now, and what there is to open when something of it is there again.

use ::io::Port;

use super::Runner;

impl Runner {
    /// Whether the link is gone for now.
    pub(crate) fn is_away(&self) -> bool {
        self.port.is_away()
    }

    /// Whether [`Runner::look_again`] has something to do.
    pub(crate) fn wants_look(&self) -> bool {
        self.port.wants_look()
    }

    /// From now on it opens what comes later in [`Runner::look_again`] alone.
    pub(crate) fn look_when_asked(&mut self) {
        self.port.look_when_asked();
    }

    /// Opens what there is to open.
    pub(crate) fn look_again(&mut self) {
        self.port.look_again(self.clock.now());
    }
}
