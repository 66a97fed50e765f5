//! One direction of a link.

mod burst;
mod config;
mod outage;
pub(crate) mod packet;
mod queue;

use std::time::Duration;

use wire::ethernet::{EtherType, EthernetHeader};
use wire::impair::{Impairer, Rng, Verdict};
use wire::time::Instant;

pub use burst::BurstLoss;
pub use config::PipeConfig;
pub use outage::Outages;

use crate::end::End;
use crate::frame::Frame;
use burst::Burst;
use queue::{Admission, Queue};

/// What went through one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct PipeStats {
    pub frames: u64,
    pub bytes: u64,
    /// By the impairments, or because the link was down.
    pub lost: u64,
    /// Because the queue was full.
    pub tail_dropped: u64,
    /// Packets that were told of congestion.
    pub marked: u64,
    pub too_big: u64,
    pub corrupted: u64,
    pub duplicated: u64,
    /// What all frames together waited for the bandwidth, and the longest that one did.
    pub waited: Duration,
    pub longest_wait: Duration,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    config: PipeConfig,
    impairer: Impairer,
    burst: Burst,
    rng: Rng,
    queue: Queue,
    last_arrival: Instant,
    stats: PipeStats,
    verdicts: std::vec::IntoIter<u8>,
    /// Where it comes from.
    pub(crate) from: End,
    /// Where it leads.
    pub(crate) to: End,
}

/// What became of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It arrives then, and perhaps once more.
    Arrives(Instant, Option<Instant>),
    Lost,
    /// It is lost, and this goes back to who sent it.
    Refused(Frame),
}

impl Pipe {
    pub(crate) fn new(config: PipeConfig, from: End, to: End, mut rng: Rng) -> Self {
        Self {
            config,
            impairer: Impairer::new(config.impairments, rng.next_u64()),
            burst: Burst::default(),
            rng,
            queue: Queue::default(),
            last_arrival: Instant::ZERO,
            stats: PipeStats::default(),
            verdicts: Vec::new().into_iter(),
            from,
            to,
        }
    }

    /// What it is like.
    pub fn config(&self) -> &PipeConfig {
        &self.config
    }

    /// Changes it from now on; what is under way is not touched.
    pub fn set_config(&mut self, config: PipeConfig) {
        if config.impairments != self.config.impairments {
            self.impairer = Impairer::new(config.impairments, self.rng.next_u64());
        }
        self.config = config;
    }

    /// What went through.
    pub fn stats(&self) -> PipeStats {
        self.stats
    }

    /// Counts from zero again.
    pub fn clear_stats(&mut self) {
        self.stats = PipeStats::default();
    }

    /// Decides the fate of the next frames, one byte each (some take another one or two), in place
    /// of the impairments: most of the values let a frame pass; the others lose, repeat, delay or
    /// damage it.
    pub fn set_verdicts(&mut self, verdicts: Vec<u8>) {
        self.verdicts = verdicts.into_iter();
    }

    fn verdict(&mut self, len: usize) -> Verdict {
        let Some(byte) = self.verdicts.next() else {
            return self.impairer.decide(len);
        };
        let mut next = || usize::from(self.verdicts.next().unwrap_or(0));
        let mut verdict = Verdict {
            drop: false,
            copies: 1,
            corrupt: None,
            delay: Duration::ZERO,
        };
        match byte {
            0..=159 => {}
            160..=191 => verdict.drop = true,
            192..=207 => verdict.copies = 2,
            208..=239 => verdict.delay = Duration::from_micros(1 << (byte % 24)),
            240.. => {
                let (at, mask) = (next() * 8 + usize::from(byte % 8), next() as u8 | 1);
                verdict.corrupt = Some((at % len.max(1), mask));
            }
        }
        verdict
    }

    /// Takes a frame, perhaps changes it, and says what becomes of it.
    pub(crate) fn carry(&mut self, now: Instant, frame: &mut Frame) -> Carried {
        let len = frame.bytes.len();
        self.stats.frames += 1;
        self.stats.bytes += len as u64;
        if self.is_too_big(len) {
            self.stats.too_big += 1;
            return self.refuse(frame).map_or(Carried::Lost, Carried::Refused);
        }
        let Some(admission) = self.queue.admit(now, len as u64, &self.config) else {
            self.stats.tail_dropped += 1;
            return Carried::Lost;
        };
        self.note_admission(&admission, frame);
        match self.damage(now, frame) {
            Some(verdict) => self.arrivals(admission.sent, &verdict),
            None => {
                self.stats.lost += 1;
                Carried::Lost
            }
        }
    }

    fn is_too_big(&self, len: usize) -> bool {
        self.config.mtu != 0 && len > usize::from(self.config.mtu) + EthernetHeader::LEN
    }

    fn refuse(&self, frame: &Frame) -> Option<Frame> {
        let tells = self.config.tells_too_big;
        let answer = tells.then(|| packet::too_big(&frame.bytes, self.config.mtu));
        answer.flatten().map(Frame::from)
    }

    fn note_admission(&mut self, admission: &Admission, frame: &mut Frame) {
        self.stats.waited += admission.waited;
        self.stats.longest_wait = self.stats.longest_wait.max(admission.waited);
        let marked = admission.mark && packet::mark_congestion(&mut frame.bytes);
        self.stats.marked += u64::from(marked);
    }

    /// What the network does to a frame that it accepted; `None` if that does not survive it.
    fn damage(&mut self, now: Instant, frame: &mut Frame) -> Option<Verdict> {
        let verdict = self.verdict(frame.bytes.len());
        let in_burst = self.burst.loses(&self.config.bursts, &mut self.rng);
        let survives = verdict
            .corrupt
            .is_none_or(|(at, mask)| corrupt(&mut frame.bytes, at, mask));
        let down = self.config.down || self.config.outages.is_out(now);
        (survives && !verdict.drop && !in_burst && !down).then_some(verdict)
    }

    fn arrivals(&mut self, sent: Instant, verdict: &Verdict) -> Carried {
        self.stats.corrupted += u64::from(verdict.corrupt.is_some());
        let mut arrival = sent + self.config.delay + verdict.delay;
        if self.config.in_order {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        let copy = (verdict.copies > 1).then(|| {
            self.stats.duplicated += 1;
            arrival + self.rng.duration_up_to(Duration::from_millis(3))
        });
        Carried::Arrives(arrival, copy)
    }
}

/// Damages the byte at `at`; false if the FCS of the frame would show it.
fn corrupt(bytes: &mut [u8], at: usize, mask: u8) -> bool {
    let is_ip = EthernetHeader::parse(bytes)
        .is_ok_and(|(header, _)| matches!(header.ether_type, EtherType::IPV4 | EtherType::IPV6));
    if !is_ip || at < EthernetHeader::LEN {
        return false;
    }
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
    true
}

#[cfg(test)]
mod tests;
