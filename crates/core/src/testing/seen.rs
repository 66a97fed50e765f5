//! What the scripted peer has seen of the stack: the numbers that segments of tests are relative
//! to.

use std::collections::BTreeMap;

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader};

use super::seg::{Payload, Seg};

/// The sequence number of the peer's SYN: near the wrap.
pub const PEER_ISS: SeqNumber = SeqNumber(u32::MAX - 1000);

/// See the module.
#[derive(Debug, Default)]
pub struct Seen {
    /// ISS of the stack towards each port of the peer, as seen in its SYNs.
    iss: BTreeMap<u16, SeqNumber>,
    /// First TSval.
    ts_base: Option<u32>,
    /// ECN field of the segment looked at last.
    ecn: Ecn,
}

impl Seen {
    /// A `port` of the peer had a SYN-ACK that did not come from the stack.
    pub fn learn(&mut self, port: u16, iss: SeqNumber, tsval: u32) {
        self.iss.insert(port, iss);
        self.ts_base.get_or_insert(tsval);
    }

    /// A segment came to `port`.
    pub(super) fn note(&mut self, port: u16, header: &TcpHeader, ecn: Ecn) {
        self.ecn = ecn;
        if header.flags.contains(TcpFlags::SYN) {
            self.iss.insert(port, header.seq);
        }
        if let (None, Some(stamps)) = (self.ts_base, header.options.timestamps) {
            self.ts_base = Some(stamps.tsval);
        }
    }

    /// The sequence number of the stack's SYN to `port`.
    pub(super) fn iss(&self, port: u16) -> SeqNumber {
        self.iss.get(&port).copied().unwrap_or_default()
    }

    /// The first timestamp of the stack.
    pub(super) fn stamp(&self) -> u32 {
        self.ts_base.unwrap_or(0)
    }

    /// The segment is the one that is wanted.
    #[track_caller]
    pub(super) fn check(&self, wanted: &Seg, header: &TcpHeader, payload: &[u8], shown: &str) {
        let mut ignored = if wanted.look_at_psh {
            TcpFlags::empty()
        } else {
            TcpFlags::PSH
        };
        // Data and FIN always carry an ACK.
        if wanted.payload != Payload::Empty || wanted.flags.contains(TcpFlags::FIN) {
            ignored |= TcpFlags::ACK;
        }
        assert_eq!(
            header.flags - ignored,
            wanted.flags - ignored,
            "flags of {shown}"
        );
        if let Some(seq) = wanted.seq {
            let iss = self.iss(header.dst_port);
            assert_eq!(header.seq - iss, seq, "sequence number of {shown}");
        }
        if let Some(ack) = wanted.ack {
            assert_eq!(
                header.ack - PEER_ISS,
                ack,
                "acknowledgment number of {shown}"
            );
        }
        if let Some(window) = wanted.window {
            assert_eq!(header.window, window, "window of {shown}");
        }
        assert_eq!(header.urgent, wanted.urgent, "urgent pointer of {shown}");
        match &wanted.payload {
            Payload::Empty => assert_eq!(payload.len(), 0, "payload of {shown}"),
            Payload::Len(len) => assert_eq!(payload.len(), *len, "payload of {shown}"),
            Payload::Bytes(bytes) => assert_eq!(payload, bytes, "payload of {shown}"),
        }
        if let Some(ecn) = wanted.ecn {
            assert_eq!(self.ecn, ecn, "ECN field of {shown}");
        }
        self.check_options(wanted, header, shown);
    }

    #[track_caller]
    fn check_options(&self, wanted: &Seg, header: &TcpHeader, shown: &str) {
        let options = &header.options;
        if wanted.mss.is_some() {
            assert_eq!(options.mss, wanted.mss, "MSS of {shown}");
        }
        if wanted.wscale.is_some() {
            assert_eq!(
                options.window_scale, wanted.wscale,
                "window scale of {shown}"
            );
        }
        if wanted.sack_permitted {
            assert!(options.sack_permitted, "SACK-permitted of {shown}");
        }
        if let Some((tsval, tsecr)) = wanted.stamps {
            let stamps = options.timestamps.expect("timestamps");
            let base = self.stamp();
            let relative = (stamps.tsval.wrapping_sub(base), stamps.tsecr);
            assert_eq!(relative, (tsval, tsecr), "timestamps of {shown}");
        }
        if wanted.ecn_bytes.is_some() {
            assert_eq!(options.ecn_bytes, wanted.ecn_bytes, "counters of {shown}");
        }
        if let Some(blocks) = &wanted.sack {
            let sent: Vec<_> = options
                .sack
                .iter()
                .map(|(left, right)| (left - PEER_ISS, right - PEER_ISS))
                .collect();
            assert_eq!(&sent, blocks, "SACK blocks of {shown}");
        }
    }

    /// A segment as messages show it.
    pub(super) fn show(&self, header: &TcpHeader, len: usize, elapsed: u64) -> String {
        format!(
            "<{} seq {} len {len} ack {} win {}> at {elapsed} ms",
            header.flags,
            header.seq - self.iss(header.dst_port),
            header.ack - PEER_ISS,
            header.window,
        )
    }
}
