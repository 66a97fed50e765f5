//! Against a kernel played by the other ends of the four rings, mapped from the same file.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;

use libc::xdp_ring_offset;

use super::super::config::Frames;
use super::super::rings::{FromKernel, ToKernel};
use super::*;

const FRAMES: u32 = 128;
const HALF: u32 = FRAMES / 2;
const FRAME_SIZE: u32 = 2048;
const HEADROOM: u64 = 256;
/// Page offsets of the four rings in the file.
const FILL: u64 = 0;
const COMPLETION: u64 = 16 << 10;
const RX: u64 = 32 << 10;
const TX: u64 = 48 << 10;
const LAYOUT: xdp_ring_offset = xdp_ring_offset {
    producer: 0,
    consumer: 64,
    flags: 128,
    desc: 192,
};

struct Kernel {
    fill: FromKernel<u64>,
    completion: ToKernel<u64>,
    rx: ToKernel<xdp_desc>,
    tx: FromKernel<xdp_desc>,
    /// Frames taken from the fill ring.
    empty: VecDeque<u64>,
    /// Frames taken from the tx ring, not completed yet.
    sending: VecDeque<xdp_desc>,
}

fn pair() -> (FrameRings, Kernel) {
    pair_with(1)
}

/// Packets to send lie in so many frames at most.
fn pair_with(parts: u32) -> (FrameRings, Kernel) {
    let file: File = tempfile::tempfile().unwrap();
    file.set_len(64 << 10).unwrap();
    let fd = file.as_fd();
    let kernel = Kernel {
        fill: FromKernel::map(fd, FILL, &LAYOUT, FRAMES).unwrap(),
        completion: ToKernel::map(fd, COMPLETION, &LAYOUT, HALF).unwrap(),
        rx: ToKernel::map(fd, RX, &LAYOUT, HALF).unwrap(),
        tx: FromKernel::map(fd, TX, &LAYOUT, FRAMES).unwrap(),
        empty: VecDeque::new(),
        sending: VecDeque::new(),
    };
    let frames = Frames {
        receive: HALF,
        send: HALF,
        size: FRAME_SIZE,
        parts,
    };
    let frame_rings = FrameRings::new(
        Umem::new(frames).unwrap(),
        true,
        ToKernel::map(fd, FILL, &LAYOUT, FRAMES).unwrap(),
        FromKernel::map(fd, RX, &LAYOUT, HALF).unwrap(),
        ToKernel::map(fd, TX, &LAYOUT, FRAMES).unwrap(),
        FromKernel::map(fd, COMPLETION, &LAYOUT, HALF).unwrap(),
    );
    (frame_rings, kernel)
}

impl Kernel {
    /// Receives up to `count` frames that say their number; returns how many it had room for.
    fn receive(&mut self, frame_rings: &mut FrameRings, first: u32, count: u32) -> u32 {
        let taken = self.take();
        self.fill.release(taken);
        self.hand_on(frame_rings, first, count)
    }

    /// Takes all frames of the fill ring and does not say so yet.
    fn take(&mut self) -> u32 {
        let ready = self.fill.available(FRAMES);
        self.empty
            .extend((0..ready).map(|offset| self.fill.read(offset).unwrap()));
        ready
    }

    fn hand_on(&mut self, frame_rings: &mut FrameRings, first: u32, count: u32) -> u32 {
        let mut done = 0;
        while done < count
            && let Some(address) = self.empty.pop_front()
        {
            let addr = address + HEADROOM;
            // SAFETY: the frame came from the fill ring: the kernel's part of this test has it
            // alone.
            let frame = unsafe { frame_rings.umem.bytes_at_mut(addr, 60) }.unwrap();
            frame[..4].copy_from_slice(&(first + done).to_ne_bytes());
            assert!(self.rx.stage(xdp_desc {
                addr,
                len: 60,
                options: 0
            }));
            done += 1;
        }
        self.rx.publish();
        done
    }

    /// Takes all of the tx ring and completes `count` frames of what it has. Returns the numbers in
    /// the frames it took.
    fn send(&mut self, frame_rings: &FrameRings, count: usize) -> Vec<u32> {
        let ready = self.tx.available(HALF);
        let mut numbers = Vec::new();
        for offset in 0..ready {
            let entry = self.tx.read(offset).unwrap();
            // SAFETY: the frame is in the tx ring: nobody writes to it.
            let frame = unsafe { frame_rings.umem.bytes_at(entry.addr, entry.len) }.unwrap();
            numbers.push(u32::from_ne_bytes(*frame.first_chunk().unwrap()));
            self.sending.push_back(entry);
        }
        self.tx.release(ready);
        for entry in self.sending.drain(..count.min(self.sending.len())) {
            assert!(self.completion.stage(entry.addr));
        }
        self.completion.publish();
        numbers
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(*bytes.first_chunk().unwrap())
}

fn receive(frame_rings: &mut FrameRings) -> Vec<u32> {
    let mut numbers = Vec::new();
    frame_rings.receive(
        |_| RxMeta::default(),
        |frames| numbers.extend(frames.iter().map(|frame| number(frame.bytes))),
    );
    numbers
}

fn send(frame_rings: &mut FrameRings, number: u32) -> bool {
    frame_rings.send(1518, |frame| {
        frame[..4].copy_from_slice(&number.to_ne_bytes());
        TxMeta {
            len: 64,
            ..TxMeta::default()
        }
    })
}

/// Every frame is in one place, and as many are free as are neither queued nor being sent.
fn check(frame_rings: &FrameRings) {
    if cfg!(debug_assertions) {
        assert_eq!(frame_rings.ledger.count(Place::Receiving), HALF as usize);
        assert_eq!(frame_rings.ledger.count(Place::HandOut), 0);
        assert_eq!(
            frame_rings.ledger.count(Place::Free),
            frame_rings.free.len()
        );
        assert_eq!(
            frame_rings.ledger.count(Place::Sending),
            HALF as usize - frame_rings.free.len()
        );
    }
}

#[test]
fn frames_arrive_in_order_in_bursts_and_are_recycled() {
    let (mut frame_rings, mut kernel) = pair();
    let mut next = 0;
    for round in 0..50 {
        let count = 1 + round % HALF;
        assert_eq!(kernel.receive(&mut frame_rings, next, count), count);
        assert!(frame_rings.has_received());
        assert_eq!(
            receive(&mut frame_rings),
            (next..next + count).collect::<Vec<_>>()
        );
        assert!(!frame_rings.has_received());
        next += count;
        check(&frame_rings);
    }
    assert_eq!(
        frame_rings.receive(|_| RxMeta::default(), |_| panic!("called without frames")),
        0
    );
}

#[test]
fn the_kernel_never_gets_more_frames_than_its_half() {
    let (mut frame_rings, mut kernel) = pair();
    assert_eq!(kernel.receive(&mut frame_rings, 0, 1000), HALF);
    assert_eq!(kernel.receive(&mut frame_rings, 0, 1000), 0);
    assert_eq!(receive(&mut frame_rings).len(), HALF as usize);
    assert_eq!(kernel.receive(&mut frame_rings, 0, 1000), HALF);
}

/// As Linux does: the rx ring's producer index moves first, the fill ring's consumer index after
/// it.
#[test]
fn a_frame_that_comes_back_before_the_kernel_said_it_took_it_is_not_lost() {
    let (mut frame_rings, mut kernel) = pair();
    for round in 0..10 {
        let taken = kernel.take();
        assert_eq!(kernel.hand_on(&mut frame_rings, round, 40), 40);
        assert_eq!(receive(&mut frame_rings).len(), 40);
        kernel.fill.release(taken);
        check(&frame_rings);
    }
    assert_eq!(kernel.receive(&mut frame_rings, 0, 1000), HALF);
}

#[test]
fn sending_stops_when_no_frame_is_free_and_goes_on_after_completions() {
    let (mut frame_rings, mut kernel) = pair();
    let sent = (0..1000)
        .take_while(|number| send(&mut frame_rings, *number))
        .count();
    assert_eq!(sent, HALF as usize);
    frame_rings.tx.publish();
    assert_eq!(frame_rings.tx.unread(), HALF);
    assert_eq!(kernel.send(&frame_rings, 10), (0..HALF).collect::<Vec<_>>());
    assert_eq!(frame_rings.tx.unread(), 0);
    let sent = (0..1000)
        .take_while(|number| send(&mut frame_rings, *number))
        .count();
    assert_eq!(sent, 10);
    check(&frame_rings);
}

#[test]
fn nothing_and_too_much_are_not_sent() {
    let (mut frame_rings, mut kernel) = pair();
    for len in [0, 1519, usize::MAX] {
        assert!(frame_rings.send(1518, |frame| {
            assert_eq!(frame.len(), 1518);
            TxMeta {
                len,
                ..TxMeta::default()
            }
        }));
    }
    frame_rings.tx.publish();
    assert!(kernel.send(&frame_rings, 1).is_empty());
    check(&frame_rings);
}

#[test]
fn a_panic_in_a_closure_loses_no_frame() {
    let (mut frame_rings, mut kernel) = pair();
    kernel.receive(&mut frame_rings, 7, 3);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        frame_rings.send(1518, |_| panic!("while writing"));
    }));
    assert!(panicked.is_err());
    check(&frame_rings);
    assert_eq!(receive(&mut frame_rings), [7, 8, 9]);
}

#[test]
fn descriptors_that_point_elsewhere_are_harmless() {
    let (mut frame_rings, mut kernel) = pair();
    let beyond = u64::from(FRAMES) * u64::from(FRAME_SIZE);
    // The kernel took frames 0 to 3 and gives back two of them with impossible lengths.
    assert!(kernel.fill.available(4) == 4);
    kernel.fill.release(4);
    for (addr, len) in [
        (beyond, 60),
        (u64::MAX, 60),
        (HEADROOM, FRAME_SIZE),
        (2 * u64::from(FRAME_SIZE), u32::MAX),
    ] {
        assert!(kernel.rx.stage(xdp_desc {
            addr,
            len,
            options: 0
        }));
    }
    kernel.rx.publish();
    let mut lens = Vec::new();
    let count = frame_rings.receive(
        |_| RxMeta::default(),
        |frames| lens.extend(frames.iter().map(|frame| frame.bytes.len())),
    );
    assert_eq!((count, lens), (4, vec![0; 4]));
    for address in [beyond, u64::MAX] {
        assert!(kernel.completion.stage(address));
    }
    kernel.completion.publish();
    frame_rings.reap();
    assert_eq!(frame_rings.free.len(), HALF as usize);
}

/// A fixed pseudo-random walk over all moves, compared with plain queues.
#[test]
fn any_interleaving_keeps_order_and_loses_nothing() {
    let (mut frame_rings, mut kernel) = pair();
    let mut state = 0x9e37_79b9_u32;
    let mut random = |below: u32| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state % below
    };
    let (mut arrived, mut next_rx, mut sent, mut next_tx) =
        (VecDeque::new(), 0, VecDeque::new(), 0);
    for _ in 0..20_000 {
        match random(4) {
            0 => {
                let count = kernel.receive(&mut frame_rings, next_rx, random(HALF));
                arrived.extend(next_rx..next_rx + count);
                next_rx += count;
            }
            1 => {
                for number in receive(&mut frame_rings) {
                    assert_eq!(arrived.pop_front(), Some(number));
                }
            }
            2 => {
                for _ in 0..random(HALF) {
                    if send(&mut frame_rings, next_tx) {
                        sent.push_back(next_tx);
                        next_tx += 1;
                    }
                }
                frame_rings.tx.publish();
            }
            _ => {
                for number in kernel.send(&frame_rings, random(HALF) as usize) {
                    assert_eq!(sent.pop_front(), Some(number));
                }
            }
        }
        check(&frame_rings);
    }
    assert!(next_rx > 10_000 && next_tx > 10_000);
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_said_before_the_frame() {
    let (mut frame_rings, mut kernel) = pair();
    let partial = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };
    for checksum in [partial, TxChecksum::Complete] {
        assert!(frame_rings.send(60, |_| TxMeta {
            len: 60,
            checksum,
            ..TxMeta::default()
        }));
    }
    frame_rings.tx.publish();
    assert_eq!(kernel.tx.available(HALF), 2);
    let (left, complete) = (kernel.tx.read(0).unwrap(), kernel.tx.read(1).unwrap());
    // SAFETY: the frame is in the tx ring: nobody writes to it.
    let words = unsafe { frame_rings.umem.bytes_at(left.addr - 24, 24) }.unwrap();
    assert_eq!(left.options, 1 << 1, "XDP_TX_METADATA");
    assert_eq!(
        words[..8],
        (1u64 << 1).to_ne_bytes(),
        "XDP_TXMD_FLAGS_CHECKSUM"
    );
    assert_eq!(words[8..10], 34u16.to_ne_bytes());
    assert_eq!(words[10..12], 16u16.to_ne_bytes());
    assert_eq!(words[12..], [0; 12]);
    assert_eq!(complete.options, 0);
}

/// Hands on packets in several frames, of these lengths.
fn hand_on_parts(kernel: &mut Kernel, frame_rings: &mut FrameRings, lens: &[u32]) {
    let taken = kernel.take();
    kernel.fill.release(taken);
    let room = FRAME_SIZE - HEADROOM as u32;
    for (byte, &len) in (1..).zip(lens) {
        let mut left = len;
        while left > 0 {
            let part = left.min(room);
            left -= part;
            let addr = kernel.empty.pop_front().unwrap() + HEADROOM;
            // SAFETY: as in `hand_on`.
            let frame = unsafe { frame_rings.umem.bytes_at_mut(addr, part) }.unwrap();
            frame.fill(byte);
            let options = if left > 0 { XDP_PKT_CONTD } else { 0 };
            assert!(kernel.rx.stage(xdp_desc {
                addr,
                len: part,
                options
            }));
        }
    }
    kernel.rx.publish();
}

#[test]
fn packets_in_several_frames_come_whole() {
    let (mut frame_rings, mut kernel) = pair_with(3);
    for _ in 0..20 {
        let lens = [60, 9000, 1792, 1793, 60, 5000, 3584];
        hand_on_parts(&mut kernel, &mut frame_rings, &lens);
        let mut came = Vec::new();
        let packets = frame_rings.receive(
            |_| RxMeta::default(),
            |frames| {
                for (byte, frame) in (1..).zip(frames) {
                    assert!(frame.bytes.iter().all(|at| *at == byte));
                    came.push(frame.bytes.len() as u32);
                }
            },
        );
        assert_eq!((packets, &came[..]), (lens.len(), &lens[..]));
        assert_eq!(frame_rings.lost(), 0);
    }
}

#[test]
fn packets_to_send_lie_in_as_many_frames_as_they_need() {
    let (mut frame_rings, mut kernel) = pair_with(3);
    let part = FRAME_SIZE - FRONT;
    let most = 3 * part;
    let mut sent = 0;
    for len in [60, part, part + 1, 2 * part, most - 1, most].repeat(40) {
        let data: Vec<u8> = (0..len).map(|at| ((at + sent) % 251) as u8).collect();
        assert!(frame_rings.send(most, |frame| {
            frame[..data.len()].copy_from_slice(&data);
            TxMeta {
                len: data.len(),
                checksum: TxChecksum::Partial {
                    start: 34,
                    offset: 6,
                },
                ..TxMeta::default()
            }
        }));
        sent += 1;
        frame_rings.tx.publish();
        let ready = kernel.tx.available(HALF);
        let mut came = Vec::new();
        for offset in 0..ready {
            let entry = kernel.tx.read(offset).unwrap();
            // As the kernel checks it, words before it included, in each frame.
            assert!(entry.addr % u64::from(FRAME_SIZE) >= TxWords::LEN as u64);
            // SAFETY: as in `send` of the kernel.
            let bytes = unsafe { frame_rings.umem.bytes_at(entry.addr, entry.len) }.unwrap();
            came.extend_from_slice(bytes);
            assert_eq!(entry.options & XDP_TX_METADATA != 0, offset == 0);
            assert_eq!(entry.options & XDP_PKT_CONTD != 0, offset + 1 < ready);
            kernel.sending.push_back(entry);
        }
        kernel.tx.release(ready);
        assert!(came == data, "{len} bytes");
        assert_eq!(ready, len.div_ceil(part));
        // Completed in no order.
        if sent % 8 == 0 {
            let mut entries: Vec<_> = kernel.sending.drain(..).collect();
            entries.reverse();
            for entry in entries {
                assert!(kernel.completion.stage(entry.addr));
            }
            kernel.completion.publish();
        }
    }
}

#[test]
fn packets_to_send_wait_for_all_their_frames() {
    let (mut frame_rings, mut kernel) = pair_with(3);
    let long = |frame: &mut [u8]| TxMeta {
        len: frame.len(),
        ..TxMeta::default()
    };
    let room = 3 * (FRAME_SIZE - FRONT);
    let places = HALF / 3;
    assert_eq!(
        (0..HALF).filter(|_| frame_rings.send(room, long)).count() as u32,
        places
    );
    frame_rings.tx.publish();
    assert!(kernel.tx.available(HALF) >= 3);
    let first: Vec<u64> = (0..3).map(|at| kernel.tx.read(at).unwrap().addr).collect();
    let ready = kernel.tx.available(HALF);
    kernel.tx.release(ready);
    for address in first {
        assert!(
            !frame_rings.send(room, long),
            "not all of its frames are back"
        );
        assert!(kernel.completion.stage(address));
        kernel.completion.publish();
    }
    assert!(frame_rings.send(room, long));
    assert!(!frame_rings.send(room, long));
}
