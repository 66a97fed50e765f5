//! What the application must know of a connection besides its bytes.

bitflags::bitflags! {
    /// What the application must know of a connection besides its bytes; an errno in the high 16
    /// bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Status: u32 {
        /// The connection is established.
        const CONNECTED = 1;
        /// The peer's FIN was reached in order: nothing comes after the bytes readable now.
        const EOF = 2;
        /// The send direction is closed: writes are refused.
        const WRITE_CLOSED = 4;
        /// The connection failed; why, says [`Status::errno`]. Writes are refused.
        const ERROR = 8;
        /// The stack is done with the connection. Writes are refused.
        const CLOSED = 16;
        /// The peer has sent urgent data, now or before: reading stops at it, see
        /// [`AppStreams::urgent`](super::AppStreams::urgent).
        const URGENT = 32;
        /// The bits the errno is in.
        const ERRNO = 0xffff_0000;
    }
}

impl Status {
    /// This with `ERROR` and `errno` in place of any it had.
    #[must_use]
    pub const fn with_errno(self, errno: u16) -> Self {
        let flags = (self.bits() & !Self::ERRNO.bits()) | Self::ERROR.bits();
        Self::from_bits_retain(flags | (errno as u32) << 16)
    }

    /// The errno; 0 if none.
    #[must_use]
    pub const fn errno(self) -> u16 {
        (self.bits() >> 16) as u16
    }
}
