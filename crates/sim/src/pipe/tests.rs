use super::*;
use crate::end::PeerId;

fn pipe(config: PipeConfig) -> Pipe {
    let end = End::Peer(PeerId(0));
    Pipe::new(config, end, end, Rng::new(1))
}

fn arrival(pipe: &mut Pipe, now: Instant, frame: &mut Frame) -> Option<Instant> {
    match pipe.carry(now, frame) {
        Carried::Arrives(first, _) => Some(first),
        Carried::Lost | Carried::Refused(_) => None,
    }
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
        .map(|_| arrival(&mut pipe, now, &mut frame(1000)))
        .collect();
    let ms = |n| Some(Instant::from_millis(n));
    assert_eq!(arrivals, [ms(16), ms(17), ms(18), None, None]);
    assert_eq!(pipe.stats().tail_dropped, 2);
    let later = arrival(&mut pipe, Instant::from_millis(100), &mut frame(1000));
    assert_eq!(later, ms(111));
    // The three waited 0, 1 and 2 ms.
    let waited = (pipe.stats().waited, pipe.stats().longest_wait);
    assert_eq!(waited, (Duration::from_millis(3), Duration::from_millis(2)));
}

#[test]
fn big_frames_vanish_and_a_link_can_be_down() {
    let mut pipe = pipe(PipeConfig {
        mtu: 1000,
        ..PipeConfig::default()
    });
    assert!(arrival(&mut pipe, Instant::ZERO, &mut frame(1014)).is_some());
    assert!(arrival(&mut pipe, Instant::ZERO, &mut frame(1015)).is_none());
    pipe.set_config(PipeConfig {
        down: true,
        ..PipeConfig::default()
    });
    assert!(arrival(&mut pipe, Instant::ZERO, &mut frame(100)).is_none());
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
        let arrived = arrival(&mut pipe, Instant::ZERO, &mut damaged).is_some();
        assert_eq!(damaged.bytes[..14], frame(100).bytes[..14]);
        assert_eq!(arrived, damaged != frame(100));
    }
    let mut arp = frame(60);
    arp.bytes[13] = 6;
    assert_eq!(arrival(&mut pipe, Instant::ZERO, &mut arp), None);
}

#[test]
fn a_queue_is_bounded_in_frames_too() {
    let mut pipe = pipe(PipeConfig {
        bits_per_second: Some(8_000_000),
        queue_frames: 2,
        ..PipeConfig::default()
    });
    let mut arrives = |at| arrival(&mut pipe, Instant::from_micros(at), &mut frame(1000)).is_some();
    assert_eq!([0, 0, 0].map(&mut arrives), [true, true, false]);
    // The first has left, the second is on the wire.
    assert_eq!([1000, 1000].map(&mut arrives), [true, false]);
}

/// The frames that find more than the threshold waiting are marked; they are lost only when the
/// queue is full.
#[test]
fn a_queue_marks_before_it_drops() {
    let mut pipe = pipe(PipeConfig {
        bits_per_second: Some(8_000_000),
        queue_bytes: 5500,
        mark_bytes: 2500,
        ..PipeConfig::default()
    });
    let mut capable = frame(1000);
    // IPv4 with ECT(0).
    capable.bytes[14..16].copy_from_slice(&[0x45, 2]);
    for _ in 0..10 {
        pipe.carry(Instant::ZERO, &mut capable.clone());
    }
    let stats = pipe.stats();
    assert_eq!((stats.marked, stats.tail_dropped), (3, 4));
}

#[test]
fn jitter_keeps_the_order_if_asked() {
    for in_order in [true, false] {
        let mut pipe = pipe(PipeConfig {
            impairments: "jitter=5ms".parse().unwrap(),
            in_order,
            ..PipeConfig::default()
        });
        let arrivals: Vec<_> = (0..100)
            .map(|at| arrival(&mut pipe, Instant::from_micros(at), &mut frame(100)))
            .collect();
        assert_eq!(arrivals.is_sorted(), in_order);
    }
}

#[test]
fn bursts_and_outages_lose_frames() {
    let bursts = BurstLoss {
        enter_ppm: 1_000_000,
        leave_ppm: 0,
        loss_ppm: 1_000_000,
    };
    let outages = Outages {
        first: Instant::ZERO,
        every: Duration::from_secs(1),
        lasts: Duration::from_millis(1),
        times: 1,
    };
    for config in [
        PipeConfig {
            bursts,
            ..PipeConfig::default()
        },
        PipeConfig {
            outages,
            ..PipeConfig::default()
        },
    ] {
        let mut pipe = pipe(config);
        assert_eq!(arrival(&mut pipe, Instant::ZERO, &mut frame(100)), None);
        assert_eq!(pipe.stats().lost, 1);
    }
}

#[test]
fn a_sender_is_told_what_is_too_big_only_if_asked() {
    let addrs = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let mac = wire::frame::MacAddr([2; 6]);
    let packet = crate::segment::ip_frame(mac, mac, addrs, wire::ip::Protocol::TCP, &[0; 1400]);
    for tells_too_big in [false, true] {
        let mut pipe = pipe(PipeConfig {
            mtu: 1300,
            tells_too_big,
            ..PipeConfig::default()
        });
        let fate = pipe.carry(Instant::ZERO, &mut packet.clone().into());
        assert_eq!(matches!(fate, Carried::Refused(_)), tells_too_big);
        assert_eq!(pipe.stats().too_big, 1);
    }
}
