//! How scripts are judged.

use super::dialect::Dialect;

/// How scripts are judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Packets that no line expected, sent after the last expected one, are no failure (as in
    /// packetdrill itself).
    pub ignore_rest: bool,
    /// For whom scripts were written.
    pub dialect: Dialect,
}
