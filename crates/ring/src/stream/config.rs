//! Sizes of streams.

/// Sizes of a pair of [`streams`](super::streams).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsConfig {
    /// Connection slots; 64 bytes each, from the first use of a slot on.
    pub slots: u32,
    /// All receive buffers together, bytes.
    pub recv_pool_bytes: usize,
    /// All send buffers together, bytes.
    pub send_pool_bytes: usize,
    /// The largest buffer of one direction, bytes; rounded up to a [size there is](crate::pool), at
    /// most 32 MiB.
    pub max_buffer: u32,
    /// Of so many slots, the record and 2 KiB for the buffer of either direction are backed by
    /// memory from the start.
    pub prefault: u32,
}

/// How many bytes a slot may hold; at most [`StreamsConfig::max_buffer`] each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes received and not read, in order or not.
    pub recv: u32,
    /// Bytes written and not acknowledged.
    pub send: u32,
}

/// What of a pool is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Bytes of all of it.
    pub bytes: usize,
    /// Bytes of buffers handed out.
    pub in_use: usize,
    /// Slots with a buffer, or with one that was given back and not looked for since.
    pub buffers: usize,
}
