//! What a capture had, and what of it came into the log.

/// Counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Packets, and TCP segments among them.
    pub packets: u64,
    /// Of the packets.
    pub segments: u64,
    /// Packets of which the capture has only the beginning.
    pub cut: u64,
    /// Pieces of packets, which are not put together.
    pub fragments: u64,
    /// Packets with headers that are wrong.
    pub damaged: u64,
    /// Packets of a link that nobody here knows.
    pub unknown_link: u64,
    /// TCP connections with data.
    pub connections: u64,
    /// Segments with data of connections that had begun before the capture, or had ended.
    pub beginless: u64,
    /// Connections that do not begin as HTTP/1.
    pub not_http: u64,
    /// Connections that went on to another protocol, such as WebSocket.
    pub other_protocol: u64,
    /// Connections in which something came that is no HTTP/1.
    pub not_understood: u64,
    /// Places in streams where the capture lacks bytes, and how many.
    pub gaps: u64,
    /// Bytes of streams that the capture lacks.
    pub lost_bytes: u64,
    /// Connections that could not be followed behind such a place.
    pub not_followed: u64,
    /// Transactions of the log.
    pub transactions: u64,
    /// Transactions that are left out because the capture lacks some of their response.
    pub incomplete: u64,
    /// Requests without the end of a response.
    pub unfinished: u64,
    /// Transactions that no log can have.
    pub unfit: u64,
    /// The file ends within a packet.
    pub file_is_cut: bool,
}

impl Recorded {
    pub(super) fn lost(&mut self, bytes: u64) {
        self.gaps += 1;
        self.lost_bytes += bytes;
    }

    /// Whether the capture lacks something of the connections in it.
    #[must_use]
    pub fn has_losses(&self) -> bool {
        self.gaps + self.cut + self.fragments + self.damaged > 0 || self.file_is_cut
    }
}
