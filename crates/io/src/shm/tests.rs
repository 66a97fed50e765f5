use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ring::region::Shared;
use wire::frame::{BURST, FrameSink, RxChecksum, TxChecksum, TxMeta};
use wire::time::Instant;

use super::config::{HEAD, Layout, SLOT_LEAD, ShmConfig, TAIL};
use super::doorbells::{drain, eventfds, signal};
use super::handshake::{self, Offer};
use super::socket::{self, Listener};
use super::{ShmPort, ShmRole};
use crate::Port;

const SMALL: ShmConfig = ShmConfig {
    queues: 1,
    slots: 4,
    slot_bytes: 2048,
    mtu: 1500,
};

fn send(port: &mut ShmPort, bytes: &[u8]) -> bool {
    port.send(|frame| {
        frame[..bytes.len()].copy_from_slice(bytes);
        unfinished(bytes.len())
    })
}

fn unfinished(len: usize) -> TxMeta {
    let (start, offset) = (34, 16);
    TxMeta {
        len,
        checksum: TxChecksum::Partial { start, offset },
        ..TxMeta::default()
    }
}

fn receive(port: &mut ShmPort) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    port.receive(|frames| {
        assert!(frames.len() <= BURST);
        for frame in frames {
            assert_eq!(frame.meta.checksum, RxChecksum::Trusted);
            got.push(frame.bytes.to_vec());
        }
    });
    got
}

/// Turns until something arrives; fails after ten seconds.
fn receive_some(port: &mut ShmPort) -> Vec<Vec<u8>> {
    for _ in 0..1000 {
        let got = receive(port);
        if !got.is_empty() {
            return got;
        }
        port.wait(Some(Duration::from_millis(10)), None).unwrap();
    }
    panic!("nothing arrived");
}

fn pair(config: ShmConfig) -> (ShmPort, ShmPort) {
    let (mut a, mut b) = ShmPort::pair(config).unwrap();
    (a.remove(0), b.remove(0))
}

struct Link {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn link() -> Link {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    Link { _dir: dir, path }
}

/// Connects while `listener` is driven.
fn connect(path: &Path, listener: &mut ShmPort) -> Vec<ShmPort> {
    let path = path.to_owned();
    let connecting =
        thread::spawn(move || ShmPort::open(&path, ShmRole::Connect, ShmConfig::default()));
    while !connecting.is_finished() {
        listener.wait(Some(Duration::from_millis(1)), None).unwrap();
    }
    connecting.join().unwrap().unwrap()
}

#[test]
fn frames_cross_in_order_and_only_after_a_flush() {
    let (mut a, mut b) = pair(SMALL);
    assert!(send(&mut a, b"one"));
    assert!(send(&mut a, b"two"));
    assert!(receive(&mut b).is_empty());
    a.flush().unwrap();
    assert_eq!(receive(&mut b), [b"one".to_vec(), b"two".to_vec()]);
    assert!(send(&mut b, b"back"));
    b.flush().unwrap();
    assert_eq!(receive(&mut a), [b"back".to_vec()]);
}

#[test]
fn a_full_ring_refuses_until_slots_come_back() {
    let (mut a, mut b) = pair(SMALL);
    for n in 0..4u8 {
        assert!(send(&mut a, &[n]));
    }
    let mut filled = false;
    assert!(!a.send(|_| {
        filled = true;
        TxMeta::default()
    }));
    assert!(!filled);
    a.flush().unwrap();
    assert_eq!(receive(&mut b).len(), 4);
    assert!(send(&mut a, b"again"));
}

#[test]
fn lent_frames_have_room_for_mtu_and_link_headers_and_empty_ones_are_not_sent() {
    let tight = ShmConfig { mtu: 2020, ..SMALL };
    let (mut a, mut b) = pair(tight);
    let mut room = 0;
    assert!(a.send(|frame| {
        room = frame.len();
        frame.fill(7);
        TxMeta {
            len: 0,
            ..TxMeta::default()
        }
    }));
    assert_eq!(room, 2048 - SLOT_LEAD);
    assert!(room >= 2020 + 18);
    assert!(send(&mut a, &vec![9; room]));
    a.flush().unwrap();
    assert_eq!(receive(&mut b), [vec![9; room]]);
}

#[test]
fn a_length_beyond_the_frame_is_not_sent() {
    let (mut a, mut b) = pair(SMALL);
    assert!(a.send(|frame| TxMeta {
        len: frame.len() + 1,
        ..TxMeta::default()
    }));
    a.flush().unwrap();
    assert!(receive(&mut b).is_empty());
}

/// Sends as much of `bytes` as the lent frame holds; how much that is.
fn send_gso(port: &mut ShmPort, bytes: &[u8]) -> Option<usize> {
    let mut len = 0;
    let sent = port.send_gso(bytes.len(), |frame| {
        len = bytes.len().min(frame.len());
        frame[..len].copy_from_slice(&bytes[..len]);
        unfinished(len)
    });
    sent.then_some(len)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed) % 251) as u8).collect()
}

#[test]
fn a_gso_frame_takes_several_slots_and_arrives_as_one_frame() {
    let (mut a, mut b) = pair(ShmConfig { slots: 8, ..SMALL });
    // Around the ring several times: what does not fit before its end is cut there.
    let mut seed = 0;
    for len in [5000, 2038, 2039, 6000, 100, 4086, 16_000].repeat(9) {
        seed += 1;
        let bytes = pattern(len, seed);
        let mut sent = 0;
        while sent < len {
            sent += send_gso(&mut a, &bytes[sent..]).unwrap();
            assert!(send(&mut a, b"between"));
            a.flush().unwrap();
            let got = receive(&mut b);
            assert_eq!(got.last().unwrap(), b"between");
            assert!(bytes[..sent].ends_with(&got[0]));
        }
    }
}

#[test]
fn a_gso_frame_takes_what_is_free_and_gives_it_back() {
    let (mut a, mut b) = pair(ShmConfig { slots: 8, ..SMALL });
    for n in 0..5u8 {
        assert!(send(&mut a, &[n]));
    }
    let room = 3 * 2048 - SLOT_LEAD;
    assert_eq!(send_gso(&mut a, &pattern(10_000, 0)), Some(room));
    assert_eq!(send_gso(&mut a, &pattern(10_000, 0)), None);
    a.flush().unwrap();
    let got = receive(&mut b);
    assert_eq!((got.len(), &got[5]), (6, &pattern(room, 0)));
    let all = 8 * 2048 - SLOT_LEAD;
    assert_eq!(send_gso(&mut a, &pattern(all, 1)), Some(all));
}

/// While the frames of a burst are read, the producer has the rest of the ring.
#[test]
fn a_burst_of_long_frames_is_a_quarter_of_the_ring() {
    const LEN: usize = 60_000;
    let (mut a, mut b) = pair(ShmConfig {
        slots: 512,
        ..SMALL
    });
    for seed in 0..8 {
        assert_eq!(send_gso(&mut a, &pattern(LEN, seed)), Some(LEN));
    }
    a.flush().unwrap();
    // Of 30 slots each.
    for burst in [0..5, 5..8] {
        let expected: Vec<_> = burst.map(|seed| pattern(LEN, seed)).collect();
        assert!(receive(&mut b) == expected);
    }
}

#[test]
fn long_gso_frames_are_shown_before_the_flush() {
    let config = ShmConfig { slots: 32, ..SMALL };
    let (mut a, mut b) = pair(config);
    b.arm_for_test();
    assert!(send(&mut a, b"before"));
    assert_eq!(send_gso(&mut a, &pattern(4000, 0)), Some(4000));
    assert!(!readable(&b), "that is little");
    assert_eq!(send_gso(&mut a, &pattern(30_000, 1)), Some(30_000));
    assert!(readable(&b));
    let got = receive(&mut b);
    assert_eq!(
        got,
        [b"before".to_vec(), pattern(4000, 0), pattern(30_000, 1)]
    );
}

#[test]
fn queues_do_not_mix() {
    let config = ShmConfig { queues: 3, ..SMALL };
    let (mut a, mut b) = ShmPort::pair(config).unwrap();
    for (n, port) in a.iter_mut().enumerate() {
        assert!(send(port, &[n as u8]));
        port.flush().unwrap();
        assert_eq!(port.capabilities().queues, 3);
    }
    for (n, port) in b.iter_mut().enumerate() {
        assert_eq!(receive(port), [[n as u8]]);
    }
    assert_ne!(a[0].mac(), b[0].mac());
    assert_eq!(a[0].mac(), a[2].mac());
}

/// Whether the port has been rung for.
fn readable(port: &ShmPort) -> bool {
    let none = Some(Duration::ZERO);
    !crate::poll::readable(port.doorbell().as_fd(), None, none)
        .unwrap()
        .is_empty()
}

#[test]
fn a_sleeper_is_roused_once_for_the_frames_in_the_making() {
    let (mut a, mut b) = pair(SMALL);
    a.wake_peer();
    assert!(!readable(&b), "nobody slept");
    b.arm_for_test();
    a.wake_peer();
    assert!(readable(&b));
    drain(b.doorbell());
    assert!(send(&mut a, b"x"));
    a.flush().unwrap();
    assert!(!readable(&b), "it is awake");
    assert_eq!(receive(&mut b).len(), 1);
}

#[test]
fn who_was_roused_for_nothing_is_woken_by_what_comes_later() {
    let (mut a, mut b) = pair(SMALL);
    b.arm_for_test();
    a.wake_peer();
    b.wait(None, None).unwrap();
    assert!(receive(&mut b).is_empty());
    let sleeper = thread::spawn(move || {
        while receive(&mut b).is_empty() {
            b.wait(None, None).unwrap();
        }
        // Kept until the sender has flushed: a peer that is gone is an error.
        b
    });
    assert!(send(&mut a, b"x"));
    a.flush().unwrap();
    sleeper.join().unwrap();
}

#[test]
fn a_bell_rings_once_per_flush_and_only_for_a_sleeper() {
    let (mut a, mut b) = pair(SMALL);
    assert!(send(&mut a, b"x"));
    a.flush().unwrap();
    assert!(!readable(&b), "nobody slept");
    receive(&mut b);
    b.arm_for_test();
    assert!(send(&mut a, b"x"));
    assert!(send(&mut a, b"y"));
    a.flush().unwrap();
    assert!(readable(&b));
    b.wait(Some(Duration::ZERO), None).unwrap();
    assert_eq!(receive(&mut b).len(), 2);
    a.flush().unwrap();
    b.wait(Some(Duration::ZERO), None).unwrap();
    assert!(!readable(&b), "the second flush had nothing to tell");
}

#[test]
fn a_sender_that_sleeps_for_room_is_woken() {
    let (mut a, mut b) = pair(SMALL);
    while send(&mut a, b"fill") {}
    a.flush().unwrap();
    let sleeper = crate::poll::asleep(move || {
        while !send(&mut a, b"more") {
            a.flush().unwrap();
            a.wait(Some(Duration::from_secs(60)), None).unwrap();
        }
        a
    });
    assert_eq!(receive(&mut b).len(), 4);
    b.flush().unwrap();
    let start = std::time::Instant::now();
    sleeper.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_wake_descriptor_ends_a_sleep() {
    let (mut a, _b) = pair(SMALL);
    let wake = eventfds(1).unwrap();
    signal(&wake[0]);
    a.wait(None, Some(wake[0].as_fd())).unwrap();
}

#[test]
fn the_last_frames_of_a_peer_arrive_before_its_loss_is_told() {
    let (mut a, mut b) = pair(SMALL);
    assert!(send(&mut a, b"bye"));
    a.flush().unwrap();
    drop(a);
    b.wait(None, None).unwrap();
    assert_eq!(receive(&mut b), [b"bye".to_vec()]);
    let error = b.wait(None, None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("queue 0"), "{error}");
    assert!(b.flush().is_err());
    assert!(b.wait(None, None).is_err());
}

#[test]
fn a_busy_port_hears_of_the_loss_from_flush() {
    let (a, mut b) = pair(SMALL);
    b.begin(Instant::from_millis(1));
    b.flush().unwrap();
    drop(a);
    b.begin(Instant::from_millis(2));
    b.begin(Instant::from_millis(10));
    assert!(b.flush().is_err());
}

#[test]
fn a_listener_without_a_peer_drops_what_is_sent_and_counts_it() {
    let link = link();
    let mut ports = ShmPort::open(&link.path, ShmRole::Listen, SMALL).unwrap();
    let port = &mut ports[0];
    assert!(!port.is_connected());
    for _ in 0..100 {
        assert!(send(port, b"lost"));
    }
    port.flush().unwrap();
    assert_eq!(port.losses(), (0, 100));
    port.wait(Some(Duration::from_millis(1)), None).unwrap();
    assert!(receive(port).is_empty());
}

#[test]
fn a_listener_takes_one_peer_after_the_other() {
    let link = link();
    let config = ShmConfig { queues: 2, ..SMALL };
    let mut ours = ShmPort::open(&link.path, ShmRole::Auto, config).unwrap();
    for round in 0..3u8 {
        let mut theirs = connect(&link.path, &mut ours[0]);
        assert_eq!(theirs.len(), 2);
        for (queue, port) in theirs.iter_mut().enumerate() {
            assert!(send(port, &[round, queue as u8]));
            port.flush().unwrap();
            assert_eq!(receive_some(&mut ours[queue]), [[round, queue as u8]]);
            assert!(send(&mut ours[queue], b"answer"));
            ours[queue].flush().unwrap();
            assert_eq!(receive_some(port), [b"answer".to_vec()]);
        }
        drop(theirs);
        for port in &mut ours {
            while port.is_connected() {
                port.wait(Some(Duration::from_millis(10)), None).unwrap();
            }
        }
    }
}

#[test]
fn a_port_that_sleeps_without_a_peer_hears_of_one_that_another_accepted() {
    let link = link();
    let config = ShmConfig { queues: 2, ..SMALL };
    let mut ours = ShmPort::open(&link.path, ShmRole::Listen, config).unwrap();
    let mut second = ours.remove(1);
    let sleeper = thread::spawn(move || receive_some(&mut second));
    thread::sleep(Duration::from_millis(5));
    let mut theirs = connect(&link.path, &mut ours[0]);
    assert!(send(&mut theirs[1], b"hello"));
    theirs[1].flush().unwrap();
    assert_eq!(sleeper.join().unwrap(), [b"hello".to_vec()]);
}

#[test]
fn a_third_process_is_refused_and_the_second_not_disturbed() {
    let link = link();
    let mut ours = ShmPort::open(&link.path, ShmRole::Listen, SMALL).unwrap();
    let mut theirs = connect(&link.path, &mut ours[0]);
    let path = link.path.clone();
    let third = thread::spawn(move || ShmPort::open(&path, ShmRole::Auto, SMALL));
    while !third.is_finished() {
        ours[0].wait(Some(Duration::from_millis(1)), None).unwrap();
    }
    let error = third.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(send(&mut theirs[0], b"still here"));
    theirs[0].flush().unwrap();
    assert_eq!(receive_some(&mut ours[0]), [b"still here".to_vec()]);
}

#[test]
fn connecting_to_nobody_says_what_to_do() {
    let link = link();
    let error = ShmPort::open(&link.path, ShmRole::Connect, SMALL).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains("start the other side"));
}

/// A peer that does what it likes to the memory.
struct Hostile {
    memory: Shared,
    _socket: OwnedFd,
}

impl Hostile {
    /// Connects to a listening port.
    fn connect(path: &Path, port: &mut ShmPort) -> Self {
        let socket = socket::connect(path).unwrap().unwrap();
        port.wait(Some(Duration::ZERO), None).unwrap();
        let Offer { memory, config, .. } = handshake::receive_offer(&socket).unwrap();
        let len = Layout::new(&config).len;
        Self {
            memory: Shared::from_fd(memory, len).unwrap(),
            _socket: socket,
        }
    }

    /// Listens, and takes one connecting port in.
    fn listen(path: &Path) -> (Self, ShmPort) {
        let listener = Listener::bind(path).unwrap();
        let connecting = {
            let path = path.to_owned();
            thread::spawn(move || {
                ShmPort::open(path, ShmRole::Connect, SMALL)
                    .unwrap()
                    .remove(0)
            })
        };
        let socket = loop {
            match listener.accept().unwrap() {
                Some(socket) => break socket,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        let memory = Shared::create("hostile", Layout::new(&SMALL).len).unwrap();
        memory.seal().unwrap();
        let (near, far) = (eventfds(1).unwrap(), eventfds(1).unwrap());
        handshake::send_offer(&socket, &SMALL, memory.fd(), &near, &far).unwrap();
        let hostile = Self {
            memory,
            _socket: socket,
        };
        (hostile, connecting.join().unwrap())
    }

    fn poke(&self, offset: usize, value: u32) {
        assert!(self.memory.write_at(offset, &value.to_ne_bytes()));
    }

    /// Writes the producer's index of a ring.
    fn set_tail(&self, direction: usize, value: u32) {
        self.poke(Layout::new(&SMALL).control(0, direction) + TAIL, value);
    }

    fn set_head(&self, direction: usize, value: u32) {
        self.poke(Layout::new(&SMALL).control(0, direction) + HEAD, value);
    }

    fn set_length(&self, direction: usize, slot: usize, value: u32) {
        let lengths = Layout::new(&SMALL).lengths(0, direction);
        self.poke(lengths + slot * 4, value);
    }
}

const TO_CONNECTOR: usize = 0;
const TO_LISTENER: usize = 1;

#[test]
fn an_impossible_index_is_an_error() {
    for tail in [5, u32::MAX, 1 << 31] {
        let link = link();
        let (hostile, mut port) = Hostile::listen(&link.path);
        hostile.set_tail(TO_CONNECTOR, tail);
        assert!(receive(&mut port).is_empty());
        let error = port.flush().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}

#[test]
fn an_impossible_consumer_index_is_an_error() {
    let link = link();
    let (hostile, mut port) = Hostile::listen(&link.path);
    for _ in 0..4 {
        assert!(send(&mut port, b"x"));
    }
    port.flush().unwrap();
    hostile.set_head(TO_LISTENER, 77);
    assert!(!send(&mut port, b"y"));
    let error = port
        .flush()
        .and_then(|()| port.flush())
        .and_then(|()| port.wait(None, None))
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

#[test]
fn an_impossible_length_is_an_error_after_the_frames_before_it() {
    for length in [0, 2048 - SLOT_LEAD as u32 + 1, u32::MAX] {
        let link = link();
        let (hostile, mut port) = Hostile::listen(&link.path);
        hostile.set_length(TO_CONNECTOR, 0, 60);
        hostile.set_length(TO_CONNECTOR, 1, length);
        hostile.set_tail(TO_CONNECTOR, 2);
        assert_eq!(receive(&mut port), [[0; 60]]);
        assert!(receive(&mut port).is_empty());
        let error = port.wait(None, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(&length.to_string()), "{error}");
    }
}

#[test]
fn a_listener_cuts_a_hostile_peer_off_and_takes_the_next() {
    let link = link();
    let mut ports = ShmPort::open(&link.path, ShmRole::Listen, SMALL).unwrap();
    let port = &mut ports[0];
    let hostile = Hostile::connect(&link.path, port);
    assert!(port.is_connected());
    hostile.set_tail(TO_LISTENER, 1000);
    assert!(receive(port).is_empty());
    port.flush().unwrap();
    assert!(!port.is_connected());
    assert!(socket::has_hung_up(&hostile._socket));
    let mut theirs = connect(&link.path, port);
    assert!(send(&mut theirs[0], b"well-behaved"));
    theirs[0].flush().unwrap();
    assert_eq!(receive_some(port), [b"well-behaved".to_vec()]);
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let link = link();
    let listener = Listener::bind(&link.path).unwrap();
    let path = link.path.clone();
    let connecting = thread::spawn(move || ShmPort::open(path, ShmRole::Connect, SMALL));
    let socket = loop {
        match listener.accept().unwrap() {
            Some(socket) => break socket,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let memory = Shared::create("small", 4096).unwrap();
    memory.seal().unwrap();
    let doorbells = Arc::new(eventfds(1).unwrap());
    handshake::send_offer(&socket, &SMALL, memory.fd(), &doorbells, &doorbells).unwrap();
    assert!(connecting.join().unwrap().is_err());
}
