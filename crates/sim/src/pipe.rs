//! One direction of a link.

use std::time::Duration;

use wire::ethernet::{EtherType, EthernetHeader};
use wire::impair::{Impairer, Impairments, Rng, Verdict};
use wire::time::Instant;

use crate::end::End;
use crate::frame::Frame;

/// What one direction of a link is like. The default carries everything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PipeConfig {
    /// Loss, duplication, reordering, corruption, delay and jitter. Corruption spares what an Ethernet FCS would have caught on a
    /// real link: it changes IP packets (as a bad router would), never addresses of frames nor ARP.
    pub impairments: Impairments,
    /// Bandwidth in bits per second; `None`: without bound.
    pub bits_per_second: Option<u64>,
    /// Bytes that may wait for the bandwidth; a frame that finds more waiting is lost. 0: without bound.
    pub queue_bytes: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Frames with a larger IP packet vanish. 0: without bound.
    pub mtu: u16,
    /// Nothing gets through.
    pub down: bool,
}

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
    pub too_big: u64,
    pub corrupted: u64,
    pub duplicated: u64,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    config: PipeConfig,
    impairer: Impairer,
    rng: Rng,
    busy_until: Instant,
    stats: PipeStats,
    verdicts: std::vec::IntoIter<u8>,
    /// Where it comes from.
    pub(crate) from: End,
    /// Where it leads.
    pub(crate) to: End,
}

/// When a frame arrives: never, once, or twice.
pub(crate) type Arrivals = [Option<Instant>; 2];

impl Pipe {
    pub(crate) fn new(config: PipeConfig, from: End, to: End, mut rng: Rng) -> Self {
        Self {
            config,
            impairer: Impairer::new(config.impairments, rng.next_u64()),
            rng,
            busy_until: Instant::ZERO,
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

    /// Decides the fate of the next frames, one byte each (some take another one or two), in place of the impairments: most of the
    /// values let a frame pass; the others lose, repeat, delay or damage it.
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

    /// Takes a frame, perhaps changes it, and says when it arrives.
    pub(crate) fn carry(&mut self, now: Instant, frame: &mut Frame) -> Arrivals {
        let len = frame.bytes.len();
        self.stats.frames += 1;
        self.stats.bytes += len as u64;
        if self.is_too_big(len) {
            self.stats.too_big += 1;
            return [None; 2];
        }
        let Some(sent) = self.serialise(now, len as u64) else {
            self.stats.tail_dropped += 1;
            return [None; 2];
        };
        let verdict = self.verdict(len);
        let survives = verdict
            .corrupt
            .is_none_or(|(at, mask)| corrupt(&mut frame.bytes, at, mask));
        if verdict.drop || self.config.down || !survives {
            self.stats.lost += 1;
            return [None; 2];
        }
        self.stats.corrupted += u64::from(verdict.corrupt.is_some());
        let arrival = sent + self.config.delay + verdict.delay;
        let copy = (verdict.copies > 1).then(|| {
            self.stats.duplicated += 1;
            arrival + self.rng.duration_up_to(Duration::from_millis(3))
        });
        [Some(arrival), copy]
    }

    fn is_too_big(&self, len: usize) -> bool {
        self.config.mtu != 0 && len > usize::from(self.config.mtu) + EthernetHeader::LEN
    }

    /// When the last bit has left; `None` if the queue is full.
    fn serialise(&mut self, now: Instant, len: u64) -> Option<Instant> {
        let Some(rate) = self.config.bits_per_second.filter(|rate| *rate > 0) else {
            return Some(now);
        };
        let nanos = |bytes: u64| bytes.saturating_mul(8_000_000_000) / rate;
        let waiting = self.busy_until.since(now);
        let room = Duration::from_nanos(nanos(self.config.queue_bytes));
        if self.config.queue_bytes != 0 && waiting > room {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + Duration::from_nanos(nanos(len));
        Some(self.busy_until)
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
mod tests {
    use super::*;
    use crate::end::PeerId;

    fn pipe(config: PipeConfig) -> Pipe {
        let end = End::Peer(PeerId(0));
        Pipe::new(config, end, end, Rng::new(1))
    }

    fn frame(len: usize) -> Frame {
        let mut bytes = vec![0; len];
        bytes[12..14].copy_from_slice(&[8, 0]);
        Frame::from(bytes)
    }

    #[test]
    fn bandwidth_spaces_frames_and_the_queue_is_bounded() {
        let config = PipeConfig {
            bits_per_second: Some(8_000_000),
            queue_bytes: 2500,
            delay: Duration::from_millis(10),
            ..PipeConfig::default()
        };
        let mut pipe = pipe(config);
        let now = Instant::from_millis(5);
        let arrivals: Vec<_> = (0..5)
            .map(|_| pipe.carry(now, &mut frame(1000))[0])
            .collect();
        let ms = |n| Some(Instant::from_millis(n));
        assert_eq!(arrivals, [ms(16), ms(17), ms(18), None, None]);
        assert_eq!(pipe.stats().tail_dropped, 2);
        assert_eq!(
            pipe.carry(Instant::from_millis(100), &mut frame(1000))[0],
            ms(111)
        );
    }

    #[test]
    fn big_frames_vanish_and_a_link_can_be_down() {
        let mut pipe = pipe(PipeConfig {
            mtu: 1000,
            ..PipeConfig::default()
        });
        assert!(pipe.carry(Instant::ZERO, &mut frame(1014))[0].is_some());
        assert!(pipe.carry(Instant::ZERO, &mut frame(1015))[0].is_none());
        pipe.set_config(PipeConfig {
            down: true,
            ..PipeConfig::default()
        });
        assert!(pipe.carry(Instant::ZERO, &mut frame(100))[0].is_none());
        assert_eq!((pipe.stats().too_big, pipe.stats().lost), (1, 1));
    }

    #[test]
    fn corruption_spares_what_the_fcs_guards() {
        let spec = "corrupt=100%".parse().unwrap();
        let mut pipe = pipe(PipeConfig {
            impairments: spec,
            ..PipeConfig::default()
        });
        for _ in 0..1000 {
            let mut damaged = frame(100);
            let arrived = pipe.carry(Instant::ZERO, &mut damaged)[0].is_some();
            assert_eq!(damaged.bytes[..14], frame(100).bytes[..14]);
            assert_eq!(arrived, damaged != frame(100));
        }
        let mut arp = frame(60);
        arp.bytes[13] = 6;
        assert_eq!(pipe.carry(Instant::ZERO, &mut arp), [None; 2]);
    }
}
