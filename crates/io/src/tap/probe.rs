//! The question who has our addresses ([`crate::claim`]), on the link itself.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use wire::frame::{FrameSink, TxMeta};

use crate::claim::{Holder, INTERVAL, PROBES, in_use, question, said};
use crate::poll::{self, PollFd, PollFlags};
use crate::{Port, tap::TapPort};

/// Asks on the first queue of `ports` and listens on all: another host of the network that the
/// kernel may have joined the interface to could have one of the addresses. What comes meanwhile is
/// lost. Takes 100 ms.
///
/// # Errors
/// One has it: `AddrInUse`. The interface is gone.
pub fn refuse_taken(ports: &mut [TapPort], addresses: &[IpAddr]) -> io::Result<()> {
    for _ in 0..PROBES {
        let until = Instant::now() + INTERVAL;
        ask(ports, addresses)?;
        if let Some(holder) = listen(ports, addresses, until)? {
            let name = ports.first().map_or("", TapPort::name);
            return Err(in_use(holder, name));
        }
    }
    Ok(())
}

fn ask(ports: &mut [TapPort], addresses: &[IpAddr]) -> io::Result<()> {
    let Some(port) = ports.first_mut() else {
        return Ok(());
    };
    for &address in addresses {
        let question = question(port.mac(), address);
        // One for which there is no room is asked by the stack.
        port.send(|frame| match frame.get_mut(..question.len()) {
            Some(into) => {
                into.copy_from_slice(&question);
                TxMeta {
                    len: question.len(),
                    ..TxMeta::default()
                }
            }
            None => TxMeta::default(),
        });
    }
    port.flush()
}

fn listen(
    ports: &mut [TapPort],
    addresses: &[IpAddr],
    until: Instant,
) -> io::Result<Option<Holder>> {
    loop {
        let mut holder = None;
        for port in ports.iter_mut() {
            let mac = port.mac();
            port.receive(|frames| {
                let said = frames.iter().filter_map(|frame| said(frame.bytes));
                let mut others = said.filter(|(ip, of)| *of != mac && addresses.contains(ip));
                holder = holder.or_else(|| others.next());
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        if holder.is_some() || left.is_zero() {
            return Ok(holder);
        }
        let fds = ports
            .iter()
            .map(|port| PollFd::from_borrowed_fd(port.fd.as_fd(), PollFlags::IN));
        poll::sleep(&mut fds.collect::<Vec<_>>(), Some(left))?;
    }
}
