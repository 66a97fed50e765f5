//! TCP_DEFER_ACCEPT: a handshake that ends without data waits for some, as a half-open record.

use crate::tcp::Tcp;
use crate::tcp::half_open::{HalfOpen, Options};
use crate::tcp::segment::Segment;
use wire::tcp::TcpFlags;

impl Tcp {
    /// The ACK that would complete a handshake brings no data: whether it is to be ignored, until
    /// the SYN-ACK was sent again as often as the listener says.
    pub fn is_deferred(&self, record: &HalfOpen, seg: &Segment<'_>) -> bool {
        let brings_news = !seg.payload.is_empty() || seg.has(TcpFlags::FIN);
        !brings_news && record.retries < self.deferral(record)
    }

    fn deferral(&self, record: &HalfOpen) -> u8 {
        let listener = self.listeners.at(u32::from(record.listener));
        listener.map_or(0, |listener| listener.options.defer_accept)
    }

    /// The SYN-ACK was not answered with data. As on Linux: who has acknowledged it is asked once
    /// more, at the end of the time, and accepted with or without data then.
    pub fn is_waiting_for_data(&self, record: &HalfOpen) -> bool {
        record.has(Options::ACKED) && record.retries + 1 < self.deferral(record)
    }
}
