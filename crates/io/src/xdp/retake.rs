//! An interface that is removed and made again under its name, as when the container at its other
//! end restarts. The stack keeps its connections meanwhile, as the kernel would, and sends into
//! nothing; its queues are opened anew on the new interface, as soon as that is there and up.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use wire::time::Instant;

use crate::context::error;
use crate::netlink::{self, Link};
use crate::overhear::Overheard;

use super::config::{Frames, ZeroCopy};
use super::error::{BIND, REGISTER, explain};
use super::program::Program;
use super::queue::{Extras, Lost, Queue, Rx};
use super::resources::{Made, gso, overhear, register, tx};

/// How often to look whether the interface is there again.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// What it takes to open the queues of a port anew.
#[derive(Debug)]
pub(super) struct Retaker {
    /// The interface as it was when it was opened.
    pub(super) link: Link,
    pub(super) program: Arc<Program>,
    pub(super) frames: Frames,
    pub(super) zero_copy: ZeroCopy,
    pub(super) addresses: Vec<IpAddr>,
    /// The kernel has them, too.
    pub(super) addresses_shared: bool,
    /// Whether frames of several segments go out.
    pub(super) gso: bool,
    /// Whether other processes have queues of the interface, too.
    pub(super) shared: bool,
    /// What has to come back. Empty: the interface is there.
    pub(super) lost: Vec<Lost>,
    /// Whether this port listens to what is said beside the stack.
    pub(super) listens: bool,
    pub(super) due: Instant,
    /// The interface that could not be taken, and why: told once.
    pub(super) told: Option<(u32, String)>,
}

/// A port's part of the interface that is there again.
pub(super) type Taken = (Vec<Queue>, Option<Overheard>);

impl Retaker {
    /// Whether the interface is still there.
    pub(super) fn is_there(&self) -> bool {
        netlink::link_by_index(self.link.index).is_ok()
    }

    /// Whether to look for it now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.waits() && now >= self.due
    }

    /// Whether the interface is gone.
    pub(super) fn waits(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Notes that the interface is gone, with what that leaves.
    #[cold]
    pub(super) fn lose(&mut self, queues: Vec<Queue>, listens: bool) {
        self.listens = listens;
        self.lost = queues.into_iter().map(Queue::into_lost).collect();
        self.program.detach(self.link.index);
        log::warn!(
            "interface {} was removed: connections wait until it is there again, and new ones fail with ENETDOWN",
            self.link.name
        );
    }

    /// Opens the queues on the interface of that name, if there is one. What is in the way is told
    /// once for each interface.
    #[cold]
    pub(super) fn retake(&mut self, now: Instant) -> Option<Taken> {
        self.due = now + LOOK;
        let link = netlink::link(&self.link.name).ok()?;
        if !link.admin_up {
            return None;
        }
        match self.open(&link) {
            Ok(taken) => {
                log::warn!(
                    "interface {} is there again: its queues are taken",
                    link.name
                );
                self.lost.clear();
                (self.link.index, self.told) = (link.index, None);
                Some(taken)
            }
            Err(error) => {
                let text = error.to_string();
                if self.told.as_ref() != Some(&(link.index, text.clone())) {
                    log::warn!(
                        "interface {} is there again, and is not taken: {text}",
                        link.name
                    );
                    self.told = Some((link.index, text));
                }
                None
            }
        }
    }

    /// The stack was told what the link can do, and counts on it.
    fn check(&self, link: &Link) -> io::Result<()> {
        let name = &link.name;
        let alike = if link.mtu < self.link.mtu {
            Err(format!(
                "its MTU is {}, and was {}: `ip link set {name} mtu {1}`",
                link.mtu, self.link.mtu
            ))
        } else if link.kind != self.link.kind {
            Err("it is of another kind: start the program again".to_owned())
        } else {
            Ok(())
        };
        alike.map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn open(&mut self, link: &Link) -> io::Result<Taken> {
        self.check(link)?;
        let addresses = (&self.addresses[..], self.link.mac);
        self.program.move_to(link, addresses, self.shared)?;
        let sockets: io::Result<Vec<_>> = self
            .lost
            .iter()
            .map(|lost| self.bind(link, lost.number))
            .collect();
        let overheard = self
            .listens
            .then(|| overhear(link, &self.addresses, self.addresses_shared))
            .flatten();
        let mut queues = Vec::new();
        for ((bound, extras), lost) in sockets?.into_iter().zip(&mut self.lost) {
            let rx = mem::take(&mut lost.rx);
            queues.push(Queue::new(lost.number, bound, Extras { rx, ..extras }));
        }
        Ok((queues, overheard))
    }

    fn bind(&self, link: &Link, number: u32) -> io::Result<(Made, Extras)> {
        let name = &link.name;
        let made = register(self.frames).map_err(|error| explain(name, REGISTER, &error))?;
        let socket = &made.0;
        socket
            .bind((link.index, number), self.zero_copy, self.frames)
            .map_err(|error| explain(name, BIND, &error))?;
        self.program
            .steer(number, socket.as_fd())
            .map_err(|error| explain(name, BIND, &error))?;
        let extras = Extras {
            gso: self.gso.then(|| gso(link)).flatten(),
            tx: tx(link, socket, self.frames),
            rx: Rx::Socket,
        };
        if self.gso && extras.gso.is_none() {
            let cause = io::Error::from(io::ErrorKind::Unsupported);
            return Err(error("frames of several segments", cause));
        }
        Ok((made, extras))
    }
}
