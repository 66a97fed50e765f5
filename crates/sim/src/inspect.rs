//! Looking at a network afterwards: do both ends tell the same story, and is nothing left?

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use mtcp_core::Usage;

use crate::app::Record;
use crate::failure::Failure;
use crate::network::Network;

/// Connections of a host that a failure describes.
const DESCRIBED: usize = 4;

impl Network {
    /// All invariants of all hosts, now.
    ///
    /// # Errors
    /// One does not hold.
    pub fn check(&mut self) -> Result<(), Failure> {
        let now = self.now;
        for index in 0..self.hosts.len() {
            let result = self
                .hosts
                .get_mut(index)
                .map_or(Ok(()), |host| host.check_all(host.clock(now)));
            result.map_err(|what| self.failure(format!("host {index}: {what}")))?;
        }
        Ok(())
    }

    /// What is left, for people: usage of each stack, and its first connections.
    pub fn describe(&mut self) -> String {
        let now = self.now;
        let mut text = String::new();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let _ = write!(text, "host {index}: {:?}", host.stack().usage());
            let (apps, mut parts) = host.parts(host.clock(now));
            for line in apps.describe(&mut parts, DESCRIBED) {
                let _ = write!(text, "\n    {line}");
            }
            text.push_str("; ");
        }
        text
    }

    /// Nothing is left in arena, pool, wheel and queues of any stack, besides listeners.
    ///
    /// # Errors
    /// Something is.
    pub fn check_empty(&mut self) -> Result<(), Failure> {
        for index in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(index) else {
                break;
            };
            let buffers = host.streams().send_buffers();
            host.streams_mut().sweep(buffers);
            let usage = host.stack().usage();
            let left = host.streams().send_bytes_in_use();
            let nothing = Usage {
                listeners: usage.listeners,
                ..Usage::default()
            };
            if usage != nothing || left > 0 {
                return Err(self.failure(format!(
                    "host {index}: {left} bytes of send buffers are left, and {usage:?}"
                )));
            }
        }
        Ok(())
    }

    /// Every connection that was established and ended without abort or error: what one end sent,
    /// the other received, and both saw the end of file. Returns how many there were.
    ///
    /// # Errors
    /// Two ends disagree.
    pub fn check_pairs(&self) -> Result<usize, Failure> {
        let mut passive: BTreeMap<(SocketAddr, SocketAddr), Vec<&Record>> = BTreeMap::new();
        let records = || self.hosts.iter().flat_map(|host| host.apps().records());
        for record in records().filter(|record| !record.active) {
            passive
                .entry((record.remote, record.local))
                .or_default()
                .push(record);
        }
        for ends in passive.values_mut() {
            ends.sort_by_key(|record| std::cmp::Reverse(record.opened_at));
        }
        let mut active: Vec<_> = records()
            .filter(|record| record.active && record.connected)
            .collect();
        active.sort_by_key(|record| record.opened_at);
        for one in &active {
            let other = passive.get_mut(&(one.local, one.remote)).and_then(Vec::pop);
            self.compare(one, other)?;
        }
        Ok(active.len())
    }

    fn compare(&self, one: &Record, other: Option<&Record>) -> Result<(), Failure> {
        let Some(other) = other else {
            // It may have been reset before it was accepted.
            let lost = one.is_clean() && !self.peers_accept();
            return if lost {
                Err(self.failure(format!("nobody accepted {one:?}")))
            } else {
                Ok(())
            };
        };
        if !one.is_clean() || !other.is_clean() {
            return Ok(());
        }
        if (one.sent, one.received) != (other.received, other.sent) {
            return Err(self.failure(format!("the ends disagree: {one:?} and {other:?}")));
        }
        Ok(())
    }

    /// Scripted peers keep no records.
    fn peers_accept(&self) -> bool {
        !self.peers.is_empty()
    }
}
