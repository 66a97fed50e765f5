//! Prediction takes nothing that the other steps would not take, and takes it as they would.

use super::*;
use proptest::prelude::*;
use wire::checksum::sum_20;
use wire::frame::RxChecksum;

/// Bytes in front of the segment.
const HEADERS: usize = 34;

/// A segment of the peer's, in `len` bytes.
fn frame(len: usize) -> Vec<u8> {
    ipv4(Protocol::TCP, &vec![0x5a; len])
}

/// Makes the checksum of the IPv4 header right, whatever the header says.
fn repair(frame: &mut [u8]) {
    let Some(header) = frame.get_mut(14..HEADERS) else {
        return;
    };
    header[10..12].fill(0);
    let header: &mut [u8; 20] = header.try_into().unwrap();
    let sum = !sum_20(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Somewhere in the headers: any byte, or one that means something at one place or another.
fn change() -> impl Strategy<Value = (usize, u8)> {
    let telling = prop::sample::select(vec![
        0, 1, 2, 6, 10, 17, 20, 0x40, 0x45, 0x46, 0x60, 0x80, 127, 224, 255,
    ]);
    (0..HEADERS, prop_oneof![any::<u8>(), telling])
}

/// Addresses that somebody may claim to have, or send to.
fn address() -> impl Strategy<Value = [u8; 4]> {
    prop::sample::select(vec![
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        [10, 0, 0, 0],
        [10, 0, 0, 255],
        [192, 0, 2, 7],
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ])
}

prop_compose! {
    /// A frame that is nearly right.
    fn frames()(
        len in 0usize..64,
        changes in prop::collection::vec(change(), 0..3),
        src in prop::option::weighted(0.3, address()),
        dst in prop::option::weighted(0.2, address()),
        repaired in prop::bool::weighted(0.8),
        cut in prop::option::weighted(0.2, 0usize..100),
        padding in 0usize..8,
    ) -> Vec<u8> {
        let mut bytes = frame(len);
        for (addr, at) in [(src, 26), (dst, 30)] {
            if let Some(addr) = addr {
                bytes[at..at + 4].copy_from_slice(&addr);
            }
        }
        for (at, value) in changes {
            bytes[at] = value;
        }
        if repaired {
            repair(&mut bytes);
        }
        bytes.resize(bytes.len() + padding, 0);
        bytes.truncate(cut.unwrap_or(usize::MAX));
        bytes
    }
}

/// What the steps that predict nothing make of `frame`, if it is a segment.
fn without_prediction<'a>(bench: &mut Bench, frame: &RxFrame<'a>) -> Option<Datagram<'a>> {
    let Bench { net, counters, now } = bench;
    match net.input(*now, PORT, frame, counters) {
        Input::Tcp(datagram) => Some(datagram),
        _ => None,
    }
}

fn check(bench: &mut Bench, bytes: &[u8], checksum: RxChecksum) -> Result<(), TestCaseError> {
    let meta = RxMeta {
        checksum,
        ..RxMeta::default()
    };
    let frame = RxFrame { bytes, meta };
    let Some(predicted) = bench.net.predicted(PORT, &frame) else {
        return Ok(());
    };
    let Some(other) = without_prediction(bench, &frame) else {
        return Err(TestCaseError::fail("only prediction takes this"));
    };
    prop_assert_eq!(
        (predicted.src, predicted.dst, &predicted.payload),
        (other.src, other.dst, &other.payload)
    );
    prop_assert_eq!(
        (predicted.checksum, predicted.ecn),
        (other.checksum, other.ecn)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn nothing_is_taken_that_is_not_a_segment(bytes in frames(), trusted: bool, loops: bool) {
        let checksum = if trusted { RxChecksum::Trusted } else { RxChecksum::Unverified };
        let mut config = base_config();
        config.interfaces[0].capabilities.loops = loops;
        check(&mut Bench::at_start(&config), &bytes, checksum)?;
    }
}

#[test]
fn an_ordinary_segment_is_predicted() {
    let bench = Bench::new();
    let mut bytes = frame(20);
    bytes.extend([0; 6]); // the link's padding
    let frame = RxFrame {
        bytes: &bytes,
        meta: RxMeta::default(),
    };
    let predicted = bench.net.predicted(PORT, &frame).unwrap();
    assert_eq!(*predicted.payload, [0x5a; 20]);
    assert!(bench.net.predicted(PortId(1), &frame).is_none());
}

/// A network full of invented hosts: whoever is new is answered to where its segment came from, and
/// every segment is looked at for that.
#[test]
fn while_a_flood_uses_up_the_questions_senders_are_noted() {
    let mut config = base_config();
    config.max_neighbours = 16;
    for (dst, segment) in [
        (IpAddr::from(PEER4), ipv4(Protocol::TCP, &[0; 20])),
        (IpAddr::from(PEER6), ipv6(Protocol::TCP, &[0; 20])),
    ] {
        let mut bench = Bench::with(&config);
        for n in 3..100 {
            bench.send(IpAddr::from([10, 0, 0, n]), b"x");
        }
        let received = RxFrame {
            bytes: &segment,
            meta: RxMeta::default(),
        };
        assert!(bench.net.predicted(PORT, &received).is_none());
        assert!(matches!(bench.input(&segment), Input::Tcp(_)));
        bench.sent();
        let path = bench.net.path(dst, None).unwrap();
        let found = bench.net.resolve(bench.now, &path, &mut bench.counters);
        assert_eq!(found, Resolution::Ready(PEER));
        assert!(bench.sent().is_empty(), "nobody is asked");
    }
}
