//! What the two ends share.

use super::marks::Marks;
use super::memory::Memory;
use super::record::Records;

/// What the two ends share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) records: Records,
    pub(super) marks: Marks,
    pub(super) recv_memory: Memory,
    pub(super) send_memory: Memory,
    /// Largest limit there can be, bytes.
    pub(super) max_limit: u32,
}
