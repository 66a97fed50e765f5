//! What one direction of a link is like.

use std::time::Duration;

use wire::impair::Impairments;

use super::burst::BurstLoss;
use super::outage::Outages;

/// What one direction of a link is like. The default carries everything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PipeConfig {
    /// Loss, duplication, reordering, corruption, delay and jitter. Corruption spares what an
    /// Ethernet FCS would have caught on a real link: it changes IP packets (as a bad router
    /// would), never addresses of frames nor ARP.
    pub impairments: Impairments,
    /// Loss of many frames in a row, besides the loss of single ones in `impairments`.
    pub bursts: BurstLoss,
    /// Bandwidth in bits per second; `None`: without bound.
    pub bits_per_second: Option<u64>,
    /// Bytes that may wait for the bandwidth; a frame that finds more waiting is lost. 0: without
    /// bound.
    pub queue_bytes: u64,
    /// Frames that may wait for the bandwidth, the one on the wire included. 0: without bound.
    pub queue_frames: u32,
    /// An ECN-capable packet that finds more bytes waiting is marked (RFC 3168 §5); other packets
    /// pass until the queue is full. 0: no packet is marked.
    pub mark_bytes: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Frames arrive in the order in which they were sent, however their delays differ.
    pub in_order: bool,
    /// Frames with a larger IP packet vanish. 0: without bound.
    pub mtu: u16,
    /// Who sent a packet that is too big and must not be fragmented is told so (RFC 1191 §4,
    /// RFC 4443 §3.2).
    pub tells_too_big: bool,
    /// Nothing gets through.
    pub down: bool,
    /// Nothing gets through now and then.
    pub outages: Outages,
}
