//! What a stack holds.

/// What a stack holds at a moment: all zeros when nothing is left of anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Control blocks, those included that wait for the application to close them.
    pub connections: u32,
    /// Of these, those that have all of their state at hand,
    pub resident: u32,
    /// and those that idle, packed.
    pub compact: u32,
    /// Half-open records.
    pub half_open: u32,
    /// TIME_WAIT records.
    pub time_wait: u32,
    /// Listeners.
    pub listeners: u32,
    /// Entries of the flow table.
    pub flows: u32,
    /// Entries of the timing wheel.
    pub timers: u32,
    /// Connections and records that want to send.
    pub queued: u32,
    /// Peers that are to be told that the stack before is gone.
    pub survivors: u32,
    /// Connections with news that was not polled.
    pub events: u32,
    /// Sets of ranges held out of order, ours and the peers'.
    pub range_sets: u32,
    /// Logs of what connections have in flight.
    pub sent_logs: u32,
    /// Logs of delivery rates, and models of paths.
    pub rate_logs: u32,
    /// Reactions to loss that may have to be taken back.
    pub undos: u32,
    /// Bytes of receive buffers.
    pub recv_bytes: usize,
}

/// What the application has written and closed, and peers have not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Undelivered {
    /// Connections. Of each, at least the FIN is not acknowledged.
    pub connections: u32,
    /// Bytes of their streams.
    pub bytes: u64,
}
