//! Where a simulated stack puts its frames.

use wire::checksum;
use wire::ethernet::EthernetHeader;
use wire::frame::{FrameSink, RxChecksum, TxChecksum, TxMeta};

use crate::frame::Frame;

/// Frames of one `transmit`. A bounded number, like a real ring.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    /// Written frames.
    pub out: &'a mut Vec<Frame>,
    /// Buffers to use again.
    pub spare: &'a mut Vec<Vec<u8>>,
    /// Frames that still fit.
    pub slots: u64,
    pub mtu: u16,
    /// Leave checksums that the stack left to the link as they are, and say that they can be
    /// trusted.
    pub trust: bool,
    /// A frame was refused.
    pub full: bool,
    /// What the stack did wrong.
    pub problem: Option<String>,
}

impl FrameSink for Tx<'_> {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.slots == 0 {
            self.full = true;
            return false;
        }
        let room = usize::from(self.mtu) + EthernetHeader::MAX_LEN;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(room, 0xee);
        let meta = fill(&mut bytes);
        if meta.len == 0 {
            self.spare.push(bytes);
            return true;
        }
        self.slots -= 1;
        if meta.len > usize::from(self.mtu) + EthernetHeader::LEN {
            self.problem = Some(format!(
                "a frame of {} bytes exceeds the MTU {}",
                meta.len, self.mtu
            ));
        }
        bytes.truncate(meta.len);
        let checksum = self.finish(&mut bytes, meta.checksum);
        self.out.push(Frame { bytes, checksum });
        true
    }
}

impl Tx<'_> {
    fn finish(&mut self, bytes: &mut [u8], checksum: TxChecksum) -> RxChecksum {
        let TxChecksum::Partial { start, offset } = checksum else {
            return RxChecksum::Unverified;
        };
        if self.trust {
            return RxChecksum::Trusted;
        }
        if !complete(bytes, usize::from(start), usize::from(offset)) {
            self.problem = Some(format!(
                "a partial checksum at {start}+{offset} of {} bytes",
                bytes.len()
            ));
        }
        RxChecksum::Unverified
    }
}

/// Does what a network card does with [`TxChecksum::Partial`]; false if the places are not in the
/// frame.
fn complete(bytes: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(transport) = bytes.get_mut(start..) else {
        return false;
    };
    let sum = checksum::checksum(transport);
    let Some(field) = transport.get_mut(offset..offset + 2) else {
        return false;
    };
    field.copy_from_slice(&sum.to_be_bytes());
    true
}
