use std::time::Duration;

use wire::checksum::{pseudo_header, verify_transport};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::frame::TxChecksum;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;

use super::*;
use crate::sim::{self, SimConfig, SimPort};

const CONFIG: SimConfig = SimConfig {
    mtu: 1500,
    slots: 1 << 20,
    tx_checksum: true,
    blocking: false,
};

fn faulty(text: &str) -> (Fault<SimPort>, SimPort) {
    let (near, far) = sim::pair(CONFIG).unwrap();
    (Fault::new(near, &text.parse().unwrap(), 0), far)
}

fn send(port: &mut impl FrameSink, bytes: &[u8], checksum: TxChecksum) -> bool {
    port.send(|frame| {
        frame[..bytes.len()].copy_from_slice(bytes);
        TxMeta {
            len: bytes.len(),
            checksum,
            ..TxMeta::default()
        }
    })
}

fn number(n: u32) -> [u8; 64] {
    let mut bytes = [0x55; 64];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes
}

fn drain(port: &mut impl Port) -> Vec<(Vec<u8>, RxChecksum)> {
    let mut got = Vec::new();
    while port.receive(|frames| {
        got.extend(frames.iter().map(|f| (f.bytes.to_vec(), f.meta.checksum)));
    }) > 0
    {}
    got
}

fn numbers(frames: &[(Vec<u8>, RxChecksum)]) -> Vec<u32> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
    frames.iter().map(|(bytes, _)| number(bytes)).collect()
}

/// Sends `count` numbered frames, 10 µs apart, through the sending direction, and returns what
/// comes out at the other end.
fn through_tx(text: &str, count: u32) -> Vec<(Vec<u8>, RxChecksum)> {
    let (mut near, mut far) = faulty(text);
    let mut got = Vec::new();
    for n in 0..count {
        near.begin(Instant::from_micros(u64::from(n) * 10));
        assert!(send(&mut near, &number(n), TxChecksum::Complete));
        near.flush().unwrap();
        got.extend(drain(&mut far));
    }
    while let Some(deadline) = near.next_deadline() {
        near.begin(deadline);
        near.flush().unwrap();
    }
    got.extend(drain(&mut far));
    got
}

/// The same through the receiving direction.
fn through_rx(text: &str, count: u32) -> Vec<(Vec<u8>, RxChecksum)> {
    let (mut near, mut far) = faulty(text);
    let mut got = Vec::new();
    for n in 0..count {
        near.begin(Instant::from_micros(u64::from(n) * 10));
        assert!(send(&mut far, &number(n), TxChecksum::Complete));
        far.flush().unwrap();
        got.extend(drain(&mut near));
    }
    while let Some(deadline) = near.next_deadline() {
        near.begin(deadline);
        got.extend(drain(&mut near));
    }
    got
}

#[test]
fn the_same_seed_does_the_same_and_another_does_not() {
    let spec = "loss=10%,dup=5%,reorder=10%,corrupt=5%,jitter=50us,seed=1";
    assert_eq!(through_tx(spec, 2000), through_tx(spec, 2000));
    assert_eq!(through_rx(spec, 2000), through_rx(spec, 2000));
    assert_ne!(through_tx(spec, 2000), through_rx(spec, 2000));
    let other = "loss=10%,dup=5%,reorder=10%,corrupt=5%,jitter=50us,seed=2";
    assert_ne!(through_tx(spec, 2000), through_tx(other, 2000));
}

/// Four standard deviations of a binomial count.
fn close(count: usize, n: u32, p: f64) -> bool {
    let mean = f64::from(n) * p;
    (count as f64 - mean).abs() < 4.0 * (mean * (1.0 - p)).sqrt()
}

#[test]
fn rates_are_what_was_asked_for() {
    let n = 20_000;
    for through in [through_tx, through_rx] {
        assert!(close(
            n as usize - through("loss=5%,seed=3", n).len(),
            n,
            0.05
        ));
        assert!(close(
            through("dup=5%,seed=4", n).len() - n as usize,
            n,
            0.05
        ));
        let damaged = through("corrupt=5%,seed=5", n)
            .iter()
            .zip(0..n)
            .filter(|((bytes, _), n)| bytes != &number(*n))
            .count();
        assert!(close(damaged, n, 0.05), "{damaged}");
    }
}

#[test]
fn reordering_loses_nothing() {
    for through in [through_tx, through_rx] {
        let mut got = numbers(&through("reorder=5%,seed=6", 5000));
        assert!(!got.is_sorted());
        got.sort_unstable();
        assert!(got.into_iter().eq(0..5000));
    }
}

#[test]
fn a_delay_keeps_the_order_and_the_time() {
    let (mut near, mut far) = faulty("tx:delay=5ms");
    near.begin(Instant::from_millis(1));
    assert!(send(&mut near, &number(1), TxChecksum::Complete));
    near.flush().unwrap();
    assert_eq!(near.next_deadline(), Some(Instant::from_millis(6)));
    near.begin(Instant::from_micros(5999));
    near.flush().unwrap();
    assert!(drain(&mut far).is_empty());
    near.begin(Instant::from_millis(6));
    near.flush().unwrap();
    assert_eq!(drain(&mut far).len(), 1);
    assert_eq!(near.next_deadline(), None);
    assert!(
        numbers(&through_rx("delay=5ms", 1000))
            .into_iter()
            .eq(0..1000)
    );
}

#[test]
fn a_direction_without_impairments_is_left_alone() {
    let (mut near, mut far) = faulty("tx:loss=100%");
    let partial = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };
    assert!(send(&mut far, &number(1), partial));
    far.flush().unwrap();
    let got = drain(&mut near);
    assert_eq!(got[0].1, RxChecksum::Trusted);
    assert!(!near.capabilities().tx_checksum);
    let (near, _far) = faulty("rx:loss=100%");
    assert!(near.capabilities().tx_checksum);
}

#[test]
fn losses_are_counted() {
    let (mut near, mut far) = faulty("loss=100%");
    for n in 0..10 {
        assert!(send(&mut near, &number(n), TxChecksum::Complete));
        assert!(send(&mut far, &number(n), TxChecksum::Complete));
    }
    near.flush().unwrap();
    far.flush().unwrap();
    assert!(drain(&mut near).is_empty());
    assert_eq!(near.losses(), (10, 10));
    assert_eq!(near.injected().0.lost, 10);
}

#[test]
fn a_link_that_takes_no_more_pushes_back_and_loses_nothing() {
    let config = SimConfig { slots: 4, ..CONFIG };
    let (near, mut far) = sim::pair(config).unwrap();
    let mut near = Fault::new(near, &"dup=0.0001%".parse().unwrap(), 0);
    let mut sent = 0;
    while send(&mut near, &number(sent), TxChecksum::Complete) {
        sent += 1;
    }
    assert!(sent >= SLOTS);
    let mut got = Vec::new();
    while got.len() < sent as usize {
        near.flush().unwrap();
        got.extend(drain(&mut far));
    }
    assert!(numbers(&got).into_iter().eq(0..sent));
}

#[test]
fn too_many_delayed_frames_are_lost_and_counted() {
    let (mut near, _far) = faulty("tx:delay=1s");
    for n in 0..SLOTS + 10 {
        assert!(send(&mut near, &number(n), TxChecksum::Complete));
    }
    assert_eq!(near.losses(), (0, 10));
}

/// A TCP segment in a frame, with only the sum of its pseudo-header where its checksum belongs.
fn unfinished() -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = vec![0; 14 + 20 + 24];
    let ethernet = EthernetHeader {
        dst: MacAddr([2; 6]),
        src: MacAddr([4; 6]),
        ether_type: EtherType::IPV4,
        vlan: None,
    };
    ethernet.emit(&mut frame);
    Ipv4Header::new(src, dst, Protocol::TCP, 24).emit(&mut frame[14..]);
    let segment = &mut frame[34..];
    segment[12] = 5 << 4;
    segment[20..].copy_from_slice(b"data");
    let pseudo = pseudo_header(src.into(), dst.into(), Protocol::TCP, 24);
    segment[16..18].copy_from_slice(&pseudo.to_be_bytes());
    frame
}

fn checksum_is_right(frame: &[u8]) -> bool {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    verify_transport(src, dst, Protocol::TCP, &frame[34..])
}

const PARTIAL: TxChecksum = TxChecksum::Partial {
    start: 34,
    offset: 16,
};

#[test]
fn trusted_frames_arrive_unverified_with_a_real_checksum() {
    let (mut near, mut far) = faulty("rx:delay=1ms");
    assert!(send(&mut far, &unfinished(), PARTIAL));
    far.flush().unwrap();
    assert!(drain(&mut near).is_empty());
    near.begin(Instant::from_millis(1));
    let got = drain(&mut near);
    assert_eq!(got[0].1, RxChecksum::Unverified);
    assert!(checksum_is_right(&got[0].0));
}

#[test]
fn damage_to_a_segment_shows_in_its_checksum() {
    let (mut near, mut far) = faulty("rx:corrupt=100%");
    for _ in 0..1000 {
        assert!(send(&mut far, &unfinished(), PARTIAL));
    }
    far.flush().unwrap();
    let mut whole = unfinished();
    checksum::finish(&mut whole, PARTIAL);
    for (frame, _) in drain(&mut near) {
        assert_ne!(frame, whole);
        // Damage before the segment is for others to notice.
        if frame[..34] == whole[..34] {
            assert!(!checksum_is_right(&frame));
        }
    }
}

/// Who receives by shared memory trusts what it gets, but not what was damaged on purpose before.
#[test]
fn damage_is_noticed_where_frames_stay_in_memory() {
    let (mut near, mut far) = crate::shm::ShmPort::pair(crate::shm::ShmConfig::default()).unwrap();
    let (near, mut far) = (near.remove(0), far.remove(0));
    let mut near = Fault::new(near, &"tx:corrupt=100%".parse().unwrap(), 0);
    assert!(send(&mut near, &unfinished(), PARTIAL));
    near.flush().unwrap();
    let got = drain(&mut far);
    assert_eq!(got[0].1, RxChecksum::Unverified);
}

#[test]
fn a_checksum_left_to_the_link_is_finished_before_it_is_damaged() {
    let (mut near, mut far) = faulty("tx:delay=1us");
    assert!(send(&mut near, &unfinished(), PARTIAL));
    near.begin(Instant::from_millis(1));
    near.flush().unwrap();
    assert!(checksum_is_right(&drain(&mut far)[0].0));
}

#[test]
fn a_sleep_ends_when_a_frame_is_due() {
    let config = SimConfig {
        blocking: true,
        ..CONFIG
    };
    let (near, mut far) = sim::pair(config).unwrap();
    let mut near = Fault::new(near, &"rx:delay=5ms".parse().unwrap(), 0);
    assert!(send(&mut far, &number(1), TxChecksum::Complete));
    far.flush().unwrap();
    assert!(drain(&mut near).is_empty());
    let start = std::time::Instant::now();
    near.wait(Some(Duration::from_secs(20)), None).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(start.elapsed() >= Duration::from_millis(4));
}
