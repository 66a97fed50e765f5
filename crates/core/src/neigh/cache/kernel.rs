//! Neighbours that the kernel of this host asks and knows: what it tells of them, and how it is
//! kept from forgetting those that are in use.
//!
//! The states of RFC 4861 §7.3 are the kernel's then. Here a neighbour can be sent to or not, and
//! the kernel is reminded of who is in use, as it does not see the traffic.

use std::net::IpAddr;

use wire::frame::MacAddr;
use wire::time::Instant;

use crate::counters::Counters;
use crate::id::PortId;

use super::{Cache, HOLD_DOWN, REACHABLE, RETRANS, Solicitation, State};

/// Questions that wait until the kernel is asked.
pub const MAX_QUESTIONS: usize = 4_096;

/// What the kernel says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Where it is.
    At {
        /// Its hardware address.
        mac: MacAddr,
        /// It answered lately, or the administrator said so.
        reachable: bool,
    },
    /// It does not answer.
    Failed,
    /// The kernel does not know it any more.
    Forgotten,
}

impl Cache {
    /// From now on the kernel asks.
    pub fn leave_to_kernel(&mut self) {
        self.kernel = true;
    }

    /// How long a neighbour that did not answer is not asked again: the kernel asks it again when
    /// somebody sends to it, which is to be no more than once a second.
    pub(super) fn hold_down(&self) -> std::time::Duration {
        if self.kernel { RETRANS } else { HOLD_DOWN }
    }

    /// A neighbour in use whose time has come: the kernel is reminded of it.
    pub(super) fn remind(&mut self, now: Instant, slot: u32) -> Solicitation {
        self.wheel.schedule(slot, now + REACHABLE);
        let entry = &mut self.entries[slot as usize];
        entry.asked = Some(now);
        Solicitation {
            port: entry.port,
            target: entry.addr,
            to: Some(entry.mac),
        }
    }

    /// The kernel said something of a neighbour. It means nothing about those that we do not want
    /// to send to.
    pub fn hear(
        &mut self,
        now: Instant,
        (port, addr): (PortId, IpAddr),
        told: Told,
        counters: &mut Counters,
    ) {
        let Some(slot) = self.find(port, addr) else {
            return;
        };
        self.forget_known();
        let state = self.entries[slot as usize].state;
        match (told, state) {
            (Told::At { mac, reachable }, State::Incomplete | State::Failed) => {
                self.learn(now, slot, mac, reachable);
            }
            (Told::At { mac, reachable }, _) => self.follow(now, slot, mac, reachable),
            (Told::Failed, State::Incomplete | State::Stale | State::Delay | State::Probe) => {
                self.fail(now, slot, counters);
            }
            // What comes from it proves more than what it does not answer.
            (Told::Failed, State::Reachable | State::Failed) => {}
            (Told::Forgotten, State::Reachable | State::Delay | State::Probe) => {
                self.set_state(slot, State::Probe);
                self.wheel.schedule(slot, now);
            }
            (Told::Forgotten, State::Stale | State::Incomplete | State::Failed) => {}
        }
    }

    /// The kernel knows where a neighbour is that we know, too.
    fn follow(&mut self, now: Instant, slot: u32, mac: MacAddr, reachable: bool) {
        let entry = &mut self.entries[slot as usize];
        let changed = entry.mac != mac;
        entry.mac = mac;
        if reachable {
            self.set_reachable(now, slot);
        } else if changed {
            self.set_stale(slot);
        }
    }
}
