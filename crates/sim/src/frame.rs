//! A frame on its way.

use wire::frame::RxChecksum;

/// An Ethernet frame without FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// What the receiving port will say of its transport checksum.
    pub checksum: RxChecksum,
}

impl From<Vec<u8>> for Frame {
    /// Its checksum will be verified by the receiver.
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            checksum: RxChecksum::Unverified,
        }
    }
}
