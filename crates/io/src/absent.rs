//! A link that there is no more: its stack goes on without a queue of its own.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use wire::frame::{Capabilities, FrameSink, MacAddr, RxFrame, TxMeta};

use crate::Port;
use crate::poll;

/// Nothing comes from it, and it takes nothing.
#[derive(Debug)]
pub struct AbsentPort {
    mac: MacAddr,
    capabilities: Capabilities,
}

impl AbsentPort {
    /// What is left of `port`.
    pub fn of(port: &impl Port) -> Self {
        Self {
            mac: port.mac(),
            capabilities: port.capabilities(),
        }
    }
}

impl FrameSink for AbsentPort {
    fn send(&mut self, _: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        false
    }
}

impl Port for AbsentPort {
    fn receive(&mut self, _: impl FnOnce(&[RxFrame<'_>])) -> usize {
        0
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        poll::woken(wake, timeout)
    }

    fn prepare_wait(&mut self, _: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        Ok(None)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }
}
