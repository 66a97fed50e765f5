//! Hosts whose links answer SYNs, and those who come there: the link answers from the second on.

use std::net::SocketAddr;
use std::time::Duration;

use wire::impair::Rng;

use super::draw::talk;
use super::{Scenario, Talk, v4};
use crate::random::{magnitude, percent};

/// What is drawn here is drawn apart: the rest of a seed is what it was before.
const APART: u64 = 0x5eed_0f5e_c0de_51d5;
/// Hosts of 100.
const ANSWERING: u32 = 35;
/// Bytes of one end of a connection at most, so that many take no longer than a few.
const LITTLE: u64 = 4 << 10;
/// Records of SYNs: twice as many as come in one turn.
const HALF_OPEN: u32 = 1024;
/// Talks of which each may be several.
const FEW: usize = 5;
/// Connections at a time that the tables of a host have room for.
const ROOM: u64 = 60;

impl Scenario {
    /// Has links answer SYNs, if this is IPv4.
    pub(super) fn draw_crowds(&mut self) {
        let rng = &mut Rng::new(self.seed ^ APART);
        let is_v6 = self.talks.iter().any(|talk| talk.remote.is_ipv6());
        for index in 0..self.hosts.len() {
            if percent(rng, ANSWERING) && !is_v6 {
                self.have_answers(rng, index);
            }
        }
    }

    fn have_answers(&mut self, rng: &mut Rng, index: usize) {
        if percent(rng, 80) {
            // Without, no SYN is answered.
            for host in &mut self.hosts {
                (host.stack.timestamps, host.stack.window_scaling) = (true, true);
            }
        }
        if let Some(host) = self.hosts.get_mut(index) {
            host.answers_syns = true;
            // A SYN that the link has answered, and of which there is no room for a record, ends in
            // a RST.
            host.stack.max_half_open = HALF_OPEN;
        }
        let is_quiet = self.talks.len() <= FEW;
        for talk in &mut self.talks {
            if is_quiet && talk.opener != index && has_little(talk) {
                talk.times = rng.between(1, 4);
                talk.at_once = talk.times;
            }
        }
        let crowd = self.crowd(rng, index);
        self.talks.push(crowd);
    }

    /// Many short connections to a host.
    fn crowd(&self, rng: &mut Rng, index: usize) -> Talk {
        let place = self.talks.len() as u16;
        let mut talk = talk(rng, place, false, LITTLE);
        let address = if index == 0 { v4(1) } else { v4(2) };
        talk.opener = 1 - index;
        talk.remote = SocketAddr::new(address, talk.remote.port());
        // With sizes of its own it would have answers of its own.
        talk.server.options.recv_buffer = None;
        talk.server.options.max_segment = None;
        talk.after = Duration::from_micros(magnitude(rng, 1, 30_000));
        let busy: u64 = self.talks.iter().map(|talk| talk.at_once).sum();
        talk.times = rng.between(10, 100);
        talk.at_once = rng.between(1, ROOM.saturating_sub(busy).clamp(1, 20));
        talk
    }
}

/// Whether several such connections are no burden.
fn has_little(talk: &Talk) -> bool {
    talk.client.send.0.max(talk.server.send.0) <= LITTLE
}
