//! Byte streams between application and stack.
use crate::region::PagePolicy;
use std::io;
/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsConfig {
    /// Connection slots.
    pub slots: u32,
    /// Bytes of receive buffers at most.
    pub recv_pool_bytes: usize,
    /// Bytes of send buffers at most.
    pub send_pool_bytes: usize,
    /// The largest buffer of a direction, bytes.
    pub max_buffer: u32,
}
/// Bytes a slot may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Received and not yet read, with what is out of order.
    pub recv: u32,
    /// Written and not yet acknowledged.
    pub send: u32,
}
/// Why an operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// No such slot.
    NoSlot,
    /// The application still holds the slot.
    Held,
    /// The slot is not open.
    NotOpen,
    /// The pool is exhausted.
    NoMemory,
    /// Beyond the slot's limit.
    BeyondLimit,
}
bitflags::bitflags! {
    /// What the application must know of its connection, besides bytes; an errno in the high 16 bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Status: u32 {
        /// Established.
        const CONNECTED = 1;
        /// The peer's FIN was reached in order: no more bytes than readable now.
        const EOF = 2;
        /// The send direction is closed.
        const WRITE_CLOSED = 4;
        /// The connection failed; see `errno`.
        const ERROR = 8;
        /// The stack is done with it.
        const CLOSED = 16;
        /// Where the errno is.
        const ERRNO = 0xffff_0000;
    }
}
impl Status {
    /// The same with ERROR and `errno`.
    #[must_use]
    pub const fn with_errno(self, errno: u16) -> Self {
        Self::from_bits_retain((self.bits() & 0xffff) | Self::ERROR.bits() | (errno as u32) << 16)
    }
    /// The errno, 0 if none.
    pub const fn errno(self) -> u16 {
        (self.bits() >> 16) as u16
    }
}
/// Makes the two ends.
/// # Errors
/// The kernel's.
pub fn streams(config: &StreamsConfig) -> io::Result<(StackStreams, AppStreams)> {
    todo!()
}
/// `streams` with a choice of pages.
/// # Errors
/// The kernel's.
pub fn streams_with(
    config: &StreamsConfig,
    pages: PagePolicy,
) -> io::Result<(StackStreams, AppStreams)> {
    todo!()
}
/// The stack's end.
#[derive(Debug)]
pub struct StackStreams(());
/// The application's end.
#[derive(Debug)]
pub struct AppStreams(());
impl StackStreams {
    /// `reserve` and `grant` in one.
    /// # Errors
    /// NoSlot, Held.
    pub fn open(&mut self, slot: u32, limits: Limits) -> Result<(), StreamError> {
        todo!()
    }
    /// Opens the slot without giving it to the application yet (a connection nobody accepted): `close` always works on it.
    /// # Errors
    /// NoSlot, Held.
    pub fn reserve(&mut self, slot: u32, limits: Limits) -> Result<(), StreamError> {
        todo!()
    }
    /// Gives a reserved slot to the application (accepted). Announce it after this.
    /// # Errors
    /// NoSlot, NotOpen, Held.
    pub fn grant(&mut self, slot: u32) -> Result<(), StreamError> {
        todo!()
    }
    /// The stack is done: discards both directions and gives the receive buffers back. False while the application holds it.
    pub fn close(&mut self, slot: u32) -> bool {
        todo!()
    }
    /// Places bytes `offset` past the in-order ones.
    /// # Errors
    /// NoSlot, NotOpen, NoMemory, BeyondLimit.
    pub fn write_at(&mut self, slot: u32, offset: u32, bytes: &[u8]) -> Result<(), StreamError> {
        todo!()
    }
    /// The next `n` bytes are in order now (clamped to what was placed).
    pub fn commit(&mut self, slot: u32, n: u32) {
        todo!()
    }
    /// Committed and not yet read.
    pub fn recv_unread(&self, slot: u32) -> u32 {
        todo!()
    }
    /// Limit less unread.
    pub fn recv_free(&self, slot: u32) -> u32 {
        todo!()
    }
    /// Limit of the receive direction.
    pub fn recv_limit(&self, slot: u32) -> u32 {
        todo!()
    }
    /// Changes the limit (clamped to the largest buffer).
    pub fn set_recv_limit(&mut self, slot: u32, limit: u32) {
        todo!()
    }
    /// Changes the limit (clamped to the largest buffer).
    pub fn set_send_limit(&mut self, slot: u32, limit: u32) {
        todo!()
    }
    /// Gives receive buffers back if drained and nothing out of order is held.
    pub fn trim(&mut self, slot: u32, out_of_order: bool) -> bool {
        todo!()
    }
    /// As `trim`, for the next `budget` slots that have a receive buffer.
    pub fn sweep(&mut self, budget: usize) {
        todo!()
    }
    /// Written by the application and not yet consumed.
    pub fn send_len(&self, slot: u32) -> u32 {
        todo!()
    }
    /// Bytes at `offset`, at most `len`, in two pieces.
    pub fn peek(&self, slot: u32, offset: u32, len: u32) -> (&[u8], &[u8]) {
        todo!()
    }
    /// The first `n` bytes were acknowledged (clamped).
    pub fn consume(&mut self, slot: u32, n: u32) {
        todo!()
    }
    /// The application found no room and there is some now: send it a writable event. Call after `consume`.
    pub fn app_wants_space(&mut self, slot: u32) -> bool {
        todo!()
    }
    /// Replaces the status.
    pub fn set_status(&mut self, slot: u32, status: Status) {
        todo!()
    }
    /// Adds to the status.
    pub fn add_status(&mut self, slot: u32, status: Status) {
        todo!()
    }
    /// The status.
    pub fn status(&self, slot: u32) -> Status {
        todo!()
    }
    /// The application does not hold the slot (any more).
    pub fn app_released(&self, slot: u32) -> bool {
        todo!()
    }
    /// Bytes of receive buffers handed out.
    pub fn recv_bytes_in_use(&self) -> usize {
        todo!()
    }
    /// Hint: loads the slot's record early.
    pub fn prefetch(&self, slot: u32) {
        todo!()
    }
}
impl AppStreams {
    /// Reads.
    pub fn read(&mut self, slot: u32, buf: &mut [u8]) -> usize {
        todo!()
    }
    /// Reads without taking.
    pub fn peek(&self, slot: u32, buf: &mut [u8]) -> usize {
        todo!()
    }
    /// Takes `n` bytes without copying; returns how many there were.
    pub fn skip(&mut self, slot: u32, n: u32) -> u32 {
        todo!()
    }
    /// Bytes to read.
    pub fn readable(&self, slot: u32) -> u32 {
        todo!()
    }
    /// EOF was received and everything before it read.
    pub fn at_eof(&self, slot: u32) -> bool {
        todo!()
    }
    /// Writes; short when the limit or the pool is reached.
    pub fn write(&mut self, slot: u32, bytes: &[u8]) -> usize {
        todo!()
    }
    /// Bytes that fit.
    pub fn writable(&self, slot: u32) -> u32 {
        todo!()
    }
    /// Written and not yet acknowledged.
    pub fn unsent(&self, slot: u32) -> u32 {
        todo!()
    }
    /// The status.
    pub fn status(&self, slot: u32) -> Status {
        todo!()
    }
    /// Enough was read for the peer to be told: ring the Received doorbell.
    pub fn window_update_due(&mut self, slot: u32) -> bool {
        todo!()
    }
    /// Gives the send buffer back if drained.
    pub fn trim(&mut self, slot: u32) -> bool {
        todo!()
    }
    /// As `trim`, for the next `budget` slots that have a send buffer.
    pub fn sweep(&mut self, budget: usize) {
        todo!()
    }
    /// A slot whose write came up short for lack of pool memory, now that there is some: tell the application it is writable.
    pub fn poll_starved(&mut self) -> Option<u32> {
        todo!()
    }
    /// The application is done with the slot.
    pub fn release(&mut self, slot: u32) {
        todo!()
    }
    /// The application holds the slot.
    pub fn holds(&self, slot: u32) -> bool {
        todo!()
    }
    /// Bytes of send buffers handed out.
    pub fn send_bytes_in_use(&self) -> usize {
        todo!()
    }
}
