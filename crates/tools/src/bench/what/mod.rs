//! What can be measured: the cases of each kind.

mod bulk;
mod cpu;
mod fairness;
mod latency;
mod memory;
mod reset;
mod short;

use crate::fail::Failure;

use super::case::Case;
use super::options::{BenchArgs, Mode, What};

impl BenchArgs {
    /// What the options ask for.
    ///
    /// # Errors
    /// An option means nothing to what is measured.
    pub(crate) fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let exchanges = matches!(self.what(), What::Short | What::Cpu);
        let given = !self.messages.is_empty() || !self.size.is_empty();
        if given && !exchanges {
            return Err(Failure::error(
                format!(
                    "--messages and --size mean nothing to '{}'",
                    self.what().name()
                ),
                "leave them out, or measure 'short' or 'cpu'",
            ));
        }
        if self.mode == Mode::Service && self.what() == What::Memory {
            return Err(Failure::error(
                "'memory' reads that of one process, and with --mode service two have it",
                "use --mode inline or paired",
            ));
        }
        Ok(match self.what() {
            What::Short => short::cases(self),
            What::Reset => reset::cases(self),
            What::Latency => latency::cases(self),
            What::Bulk => bulk::cases(self),
            What::Cpu => cpu::cases(self),
            What::Memory => memory::cases(self),
            What::Fairness => fairness::cases(self),
        })
    }
}
