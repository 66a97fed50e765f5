//! BBR on a path of its own: one bottleneck with a queue, every packet acknowledged.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1000;

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u64,
    sent_at: u64,
    first_sent: u64,
    delivered_at: u64,
    delivered: u64,
    lost: u64,
    in_flight: u32,
    is_app_limited: bool,
    /// `None`: it was dropped.
    ack_at: Option<u64>,
}

/// Times in µs.
struct Path {
    bytes_per_second: u64,
    rtt: u64,
    buffer: u64,
    /// Every so manyth packet is lost; 0: none.
    lose_every: u64,
    /// How much the application gives in a second.
    app_bytes_per_second: Option<u64>,
    now: u64,
    busy_until: u64,
    packets: VecDeque<Packet>,
    next_id: u64,
    next_send: u64,
    delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    lost: u64,
    app_limited: u64,
    sent: u64,
    recover: Option<u64>,
    bbr: Bbr,
    window: Window,
    /// Largest queue seen since the last look, bytes.
    queue: u64,
}

impl Path {
    fn new(bytes_per_second: u64, rtt_ms: u64, buffer: u64) -> Self {
        let mut path = Self {
            bytes_per_second,
            rtt: rtt_ms * 1000,
            buffer,
            lose_every: 0,
            app_bytes_per_second: None,
            now: 1_000_000,
            busy_until: 0,
            packets: VecDeque::new(),
            next_id: 1,
            next_send: 0,
            delivered: 0,
            delivered_at: 1_000_000,
            first_sent: 1_000_000,
            lost: 0,
            app_limited: 0,
            sent: 0,
            recover: None,
            bbr: Bbr::new(7),
            window: Window {
                cwnd: 10 * MSS,
                ssthresh: u32::MAX,
            },
            queue: 0,
        };
        let now = path.instant();
        let srtt = rtt_ms as u32 * 1000;
        path.bbr.on_established(now, &path.window, srtt);
        path
    }

    fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    fn in_flight(&self) -> u32 {
        self.packets.len() as u32 * MSS
    }

    fn bdp(&self) -> u64 {
        self.bytes_per_second * self.rtt / 1_000_000
    }

    /// Lets `ms` pass. Bytes delivered in that time.
    fn run(&mut self, ms: u64) -> u64 {
        let (end, before) = (self.now + ms * 1000, self.delivered);
        self.queue = 0;
        while self.now < end {
            self.take_acks();
            self.send();
            self.now += 100;
        }
        self.delivered - before
    }

    fn run_until(&mut self, limit_ms: u64, state: State) -> bool {
        (0..limit_ms).any(|_| {
            self.run(1);
            self.bbr.state == state
        })
    }

    fn app_has_data(&self) -> bool {
        self.app_bytes_per_second
            .is_none_or(|rate| self.sent < rate * (self.now - 1_000_000) / 1_000_000)
    }

    fn send(&mut self) {
        let rate = self.bbr.pacing_rate().unwrap();
        while self.in_flight() + MSS <= self.window.cwnd && self.next_send <= self.now {
            if !self.app_has_data() {
                self.app_limited = self.delivered + u64::from(self.in_flight()).max(1);
                return;
            }
            self.next_send =
                self.next_send.max(self.now - 200) + u64::from(MSS) * 1_000_000 / rate.max(1);
            self.send_one();
        }
    }

    fn send_one(&mut self) {
        if self.packets.is_empty() {
            (self.first_sent, self.delivered_at) = (self.now, self.now);
        }
        let waiting = self.busy_until.saturating_sub(self.now) * self.bytes_per_second / 1_000_000;
        let unlucky = self.lose_every > 0 && self.next_id.is_multiple_of(self.lose_every);
        let ack_at = (waiting + u64::from(MSS) <= self.buffer && !unlucky).then(|| {
            self.queue = self.queue.max(waiting);
            let time = u64::from(MSS) * 1_000_000 / self.bytes_per_second;
            self.busy_until = self.busy_until.max(self.now) + time;
            self.busy_until + self.rtt
        });
        self.packets.push_back(Packet {
            id: self.next_id,
            sent_at: self.now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            in_flight: self.in_flight() + MSS,
            is_app_limited: self.app_limited != 0,
            ack_at,
        });
        self.next_id += 1;
        self.sent += u64::from(MSS);
    }

    fn take_acks(&mut self) {
        while let Some(at) = self
            .packets
            .iter()
            .position(|packet| packet.ack_at.is_some_and(|ack_at| ack_at <= self.now))
        {
            // Nothing is reordered: what lies before was dropped.
            let dropped: Vec<_> = self.packets.drain(..at).collect();
            self.lost += dropped.len() as u64 * u64::from(MSS);
            if !dropped.is_empty() && self.recover.is_none() {
                self.bbr.on_congestion_event(&self.window);
                self.recover = Some(self.next_id);
            }
            let Some(packet) = self.packets.pop_front() else {
                return;
            };
            let flight = self.in_flight() + MSS + dropped.len() as u32 * MSS;
            self.take_ack(&packet, dropped.last(), flight);
        }
    }

    fn take_ack(&mut self, packet: &Packet, dropped: Option<&Packet>, flight: u32) {
        self.delivered += u64::from(MSS);
        self.delivered_at = self.now;
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if self.recover.is_some_and(|recover| packet.id >= recover) {
            self.recover = None;
        }
        let send_elapsed = packet.sent_at - packet.first_sent;
        let interval = send_elapsed.max(self.now - packet.delivered_at);
        self.first_sent = packet.sent_at;
        let delivered = self.delivered - packet.delivered;
        let loss = |packet: &Packet| Loss {
            in_flight: packet.in_flight,
            lost: (self.lost - packet.lost) as u32,
            is_app_limited: packet.is_app_limited,
        };
        let sample = RateSample {
            now: self.instant(),
            mss: MSS,
            srtt: self.rtt as u32,
            rtt: Some((self.now - packet.sent_at) as u32),
            total_delivered: self.delivered,
            total_lost: self.lost,
            newly_acked: MSS,
            in_flight: self.in_flight(),
            is_cwnd_limited: flight + MSS > self.window.cwnd,
            in_recovery: self.recover.is_some(),
            has_sack: true,
            delivery_rate: delivered * 1_000_000 / interval.max(1),
            send_elapsed: send_elapsed as u32,
            interval: interval as u32,
            delivered: delivered as u32,
            prior_delivered: packet.delivered,
            at_send: loss(packet),
            of_lost: dropped.map_or_else(Loss::default, loss),
        };
        self.bbr.on_rate(&mut self.window, &sample);
        if self.bbr.ignores_rate() {
            self.app_limited = self.delivered + u64::from(self.in_flight()).max(1);
        }
    }
}

fn near(got: u64, wanted: u64, percent: u64) -> bool {
    got.abs_diff(wanted) * 100 <= wanted * percent
}

#[test]
fn startup_finds_the_bandwidth_in_a_few_rounds() {
    // 10 MB/s, 50 ms: 500 segments from 10 take 6 doublings, and it takes four rounds of twice the
    // length, behind a queue, to be sure.
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    assert!(path.run_until(800, State::Drain));
    assert!(
        near(path.bbr.max_bw.max(), 10_000_000, 3),
        "{}",
        path.bbr.max_bw.max()
    );
    assert!(
        near(path.bbr.min_rtt.into(), 50_000, 2),
        "{}",
        path.bbr.min_rtt
    );
}

#[test]
fn drain_empties_the_queue() {
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    assert!(path.run_until(800, State::Drain));
    assert!(u64::from(path.in_flight()) > path.bdp() * 3 / 2);
    assert!(path.run_until(150, State::Cruise));
    assert!(
        near(path.in_flight().into(), path.bdp(), 10),
        "{}",
        path.in_flight()
    );
}

#[test]
fn cruising_fills_the_path_and_keeps_the_queue_short() {
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    path.run(1500);
    let bytes = path.run(3000);
    assert!(near(bytes, 30_000_000, 5), "{bytes}");
    // 1.25 * BDP for the round trips that it takes to see that there is no more.
    assert!(path.queue < path.bdp(), "{} of {}", path.queue, path.bdp());
}

#[test]
fn it_probes_for_the_round_trip_time_every_five_seconds() {
    let mut path = Path::new(5_000_000, 40, 5_000_000);
    path.run(1000);
    assert!(path.run_until(10_000, State::ProbeRtt));
    path.run(100);
    let half = path.bdp() / 2;
    assert!(u64::from(path.in_flight()) <= half + 2 * u64::from(MSS));
    assert!(path.run_until(300, State::Cruise));
    let since = path.now;
    assert!(path.run_until(10_000, State::ProbeRtt));
    assert!(path.now - since >= 5_000_000);
    assert!(near(path.bbr.min_rtt.into(), 40_000, 2));
}

#[test]
fn it_goes_through_the_cycle() {
    let mut path = Path::new(10_000_000, 30, 10_000_000);
    assert!(path.run_until(1000, State::Cruise));
    for state in [State::Refill, State::Up, State::Down] {
        assert!(
            path.run_until(4000, state),
            "{state:?} from {:?}",
            path.bbr.state
        );
    }
}

#[test]
fn more_bandwidth_is_found() {
    let mut path = Path::new(2_000_000, 40, 10_000_000);
    path.run(3000);
    path.bytes_per_second = 8_000_000;
    path.run(12_000);
    assert!(
        near(path.bbr.max_bw.max(), 8_000_000, 10),
        "{}",
        path.bbr.max_bw.max()
    );
}

#[test]
fn less_bandwidth_is_accepted() {
    let mut path = Path::new(8_000_000, 40, 1_000_000);
    path.run(3000);
    path.bytes_per_second = 2_000_000;
    path.run(12_000);
    assert!(path.bbr.bw() < 2_500_000, "{}", path.bbr.bw());
}

#[test]
fn a_short_queue_bounds_what_is_in_flight() {
    // A twentieth of the BDP: Startup ends by loss or plateau, and the limit is learnt.
    let mut path = Path::new(10_000_000, 50, 25_000);
    path.run(5000);
    let limit = u64::from(path.bbr.inflight_longterm);
    assert!(limit < 2 * path.bdp(), "{limit} of {}", path.bdp());
    let before = path.lost;
    let bytes = path.run(10_000);
    assert!(bytes > 85_000_000, "{bytes}");
    assert!(path.lost - before < bytes / 50, "{}", path.lost - before);
}

#[test]
fn random_loss_costs_what_it_takes_and_what_is_given_up_until_the_next_probe() {
    // Each round with a loss gives up as much as was lost, and the cycle has up to 63 rounds: 1 %
    // makes that about a quarter on average.
    for (every, wanted) in [(100, 75_000_000), (1000, 90_000_000)] {
        let mut path = Path::new(10_000_000, 40, 1_000_000);
        path.lose_every = every;
        path.run(3000);
        let bytes = path.run(10_000);
        assert!(bytes > wanted, "{bytes} with one lost of {every}");
    }
}

/// Each round has two: what is given up for them is what was lost, not the margin of the pacing
/// rate, and not what ProbeRTT held back.
#[test]
fn a_loss_in_every_round_costs_no_more_than_was_lost() {
    let run = |lose_every| {
        let mut path = Path::new(10_000_000, 40, 1_000_000);
        path.lose_every = lose_every;
        path.run(3000);
        path.run(12_000)
    };
    let (without, with) = (run(0), run(200));
    assert!(with * 100 > without * 93, "{with} of {without}");
}

#[test]
fn an_application_that_holds_back_does_not_shrink_the_model() {
    let mut path = Path::new(10_000_000, 40, 1_000_000);
    path.run(2000);
    path.app_bytes_per_second = Some(200_000);
    path.sent = 200_000 * (path.now - 1_000_000) / 1_000_000;
    path.run(1500);
    assert!(
        path.bbr.max_bw.max() > 9_000_000,
        "{}",
        path.bbr.max_bw.max()
    );
}

#[test]
fn a_spurious_loss_gives_back_the_state_and_the_window() {
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    path.run(2000);
    let undo = path.bbr.save();
    let cwnd = path.window.cwnd;
    path.bbr.on_rto(&mut path.window, MSS);
    assert_eq!(path.window.cwnd, MSS);
    path.bbr.undo(&mut path.window, &undo);
    assert_eq!(path.window.cwnd, cwnd);
    assert_eq!(path.bbr.save(), undo);
}

#[test]
fn after_a_timeout_the_window_comes_back() {
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    path.run(2000);
    path.bbr.on_rto(&mut path.window, MSS);
    path.run(1000);
    assert!(u64::from(path.window.cwnd) > path.bdp());
}

#[test]
fn congestion_that_is_marked_counts_as_lost() {
    let mut path = Path::new(10_000_000, 50, 10_000_000);
    path.run_until(1000, State::Down);
    path.run_until(4000, State::Cruise);
    let flight = path.in_flight();
    path.bbr.on_ecn(&mut path.window, flight, MSS);
    path.run(150);
    assert!(path.bbr.inflight_shortterm < NO_LIMIT);
}

fn any_loss() -> impl Strategy<Value = Loss> {
    (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(in_flight, lost, is_app_limited)| Loss {
        in_flight,
        lost,
        is_app_limited,
    })
}

prop_compose! {
    fn any_sample()(
        millis in 0u64..1 << 40,
        mss in 1u32..=65_535,
        [srtt, newly_acked, in_flight, delivered, send_elapsed, interval] in any::<[u32; 6]>(),
        rtt in any::<Option<u32>>(),
        [total_delivered, total_lost, prior_delivered, delivery_rate] in any::<[u64; 4]>(),
        [is_cwnd_limited, in_recovery, has_sack] in any::<[bool; 3]>(),
        at_send in any_loss(),
        of_lost in any_loss(),
    ) -> RateSample {
        RateSample {
            now: Instant::from_millis(millis), mss, srtt, rtt, total_delivered, total_lost, newly_acked, in_flight,
            is_cwnd_limited, in_recovery, has_sack, delivery_rate, send_elapsed, interval, delivered,
            prior_delivered, at_send, of_lost,
        }
    }
}

proptest! {
    /// Whatever a path seems to say, nothing overflows and something can be sent.
    #[test]
    fn no_sample_breaks_it(samples in prop::collection::vec((any_sample(), 0u8..8), 1..60)) {
        let mut bbr = Bbr::new(1);
        let mut window = Window { cwnd: 10 * MSS, ssthresh: u32::MAX };
        bbr.on_established(Instant::ZERO, &window, 0);
        let mut now = Instant::ZERO;
        for (mut sample, event) in samples {
            now = now.max(sample.now);
            sample.now = now;
            match event {
                0 => bbr.on_rto(&mut window, sample.mss),
                1 => bbr.on_congestion_event(&window),
                2 => bbr.on_restart(&mut window, now),
                3 => bbr.on_ecn(&mut window, sample.in_flight, sample.mss),
                4 => { let undo = bbr.save(); bbr.undo(&mut window, &undo); }
                _ => {
                    bbr.on_rate(&mut window, &sample);
                    let least = u64::from(sample.mss) * 4;
                    prop_assert!(u64::from(window.cwnd) >= least.min(sample.newly_acked.into()) || sample.newly_acked == 0);
                }
            }
            prop_assert!(bbr.pacing_rate().is_some());
        }
    }
}
