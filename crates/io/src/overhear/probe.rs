//! The question who has our addresses ([`crate::claim`]), by the packet sockets that hear the
//! answers beside whoever receives what is ours.

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use wire::frame::MacAddr;

use crate::claim::{Holder, INTERVAL, PROBES, question, said};
use crate::poll::{self, PollFd, PollFlags};

use super::Overheard;

/// Questions on their way.
#[derive(Debug)]
pub(crate) struct Probe {
    overheard: Overheard,
    mac: MacAddr,
    addresses: Vec<IpAddr>,
    asked: Instant,
}

impl Probe {
    /// Asks for the first time.
    pub(crate) fn start(interface: u32, mac: MacAddr, addresses: &[IpAddr]) -> io::Result<Self> {
        let probe = Self {
            overheard: Overheard::new(interface, addresses, false)?,
            mac,
            addresses: addresses.to_vec(),
            asked: Instant::now(),
        };
        probe.ask();
        Ok(probe)
    }

    /// Asks again, and waits for answers. What was done since [`Probe::start`] took part of that
    /// time.
    pub(crate) fn finish(mut self) -> io::Result<Option<Holder>> {
        for number in 1..=PROBES {
            let holder = self.wait(self.asked + number * INTERVAL)?;
            if holder.is_some() {
                return Ok(holder);
            }
            if number < PROBES {
                self.ask();
            }
        }
        Ok(None)
    }

    fn ask(&self) {
        for address in &self.addresses {
            let frame = question(self.mac, *address);
            // A queue that is full, an interface that goes down: the next question may get through,
            // and the stack asks, too.
            if let Err(error) = self.overheard.say(&frame) {
                log::debug!("cannot ask who has {address}: {error}");
            }
        }
    }

    fn wait(&mut self, until: Instant) -> io::Result<Option<Holder>> {
        loop {
            if self.overheard.listen() {
                let (mac, addresses) = (self.mac, &self.addresses);
                let mut holder = None;
                self.overheard.lend(|frames| {
                    let said = frames.iter().filter_map(|frame| said(frame.bytes));
                    let mut others = said.filter(|(ip, of)| *of != mac && addresses.contains(ip));
                    holder = others.next();
                });
                if holder.is_some() {
                    return Ok(holder);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let doorbells = self.overheard.doorbells();
            let mut fds: Vec<_> = doorbells
                .map(|doorbell| PollFd::from_borrowed_fd(doorbell, PollFlags::IN))
                .collect();
            poll::sleep(&mut fds, Some(left))?;
        }
    }
}
