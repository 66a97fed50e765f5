//! The user calls (RFC 9293 §3.9.1) that are about listeners.

use crate::command::{Options, Reply};
use crate::error::Error;
use crate::tcp::setup::cookie;
use crate::tcp::setup::listen::Listener;
use crate::tcp::setup::part::SetupPart;

impl SetupPart<'_> {
    /// OPEN, passive.
    pub fn listen(&mut self, mut listener: Listener) -> Result<Reply, Error> {
        let ip = listener.local.ip();
        if !(ip.is_unspecified() || self.sh.net.is_local(ip)) {
            return Err(Error::AddressNotAvailable);
        }
        if listener.local.port() == 0 {
            let port = self.free_listen_port(listener).ok_or(Error::AddressInUse)?;
            listener.local.set_port(port);
        }
        let id = self.state.listeners.insert(listener)?;
        self.set_options(id.slot, &listener.options);
        self.steer_listener(id.slot, true);
        Ok(Reply::Listening(id, listener.local))
    }

    /// Replaces the options of a listener.
    pub fn set_options(&mut self, slot: u32, options: &Options) {
        self.withdraw(slot);
        if let Some(entry) = self.state.listeners.at_mut(slot) {
            let set = self.sh.options.take(options);
            let before = entry.set_options(*options, set);
            self.sh.options.release(before);
        }
    }

    /// Has SYNs for a listener come to us, where they do not in any case, or no more.
    pub fn steer_listener(&mut self, slot: u32, comes: bool) {
        let (Some(steering), Some(entry)) = (self.flows.steering(), self.state.listeners.at(slot))
        else {
            return;
        };
        for local in entry.ends() {
            if comes {
                steering.listen(local);
            } else {
                steering.unlisten(local);
            }
        }
    }

    /// Tells the link what another stack's had heard, which this one goes on for.
    pub fn steer_all(&mut self) {
        for slot in 0..self.state.listeners.used() {
            if self.state.listeners.live(slot).is_some() {
                self.steer_listener(slot, true);
            }
        }
        let sent = self.state.cookies.last_sent();
        if let (Some(steering), Some(sent)) = (self.flows.steering(), sent) {
            steering.expect_cookies(sent + cookie::LIFETIME);
        }
    }

    fn free_listen_port(&self, mut listener: Listener) -> Option<u16> {
        let (first, last) = self.sh.config.ephemeral;
        (first.max(1)..=last).find(|&port| {
            listener.local.set_port(port);
            self.state.listeners.is_free(&listener)
        })
    }
}
