//! What a veth pair receives through traffic control. Needs root and Linux 6.6; says so and passes
//! without.

#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use io::Port;
use io::xdp::{Attachment, XdpInterface};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{CpuSet, UnshareFlags, sched_getaffinity, sched_setaffinity, unshare_unsafe};
use wire::ip::Protocol;

use xdp_support::frames::{self, carries, udp_to_us};
use xdp_support::{DEADLINE, OURS, PEER, Pair, Station, has_traffic_control, is_root, peer_socket};

/// Records of a ring.
const RECORDS: usize = 16_384;
/// Bytes of a datagram that a frame of several carries.
const CUT: usize = 1400;
/// Bytes that such a frame carries.
const LONG: usize = 40 * CUT;

/// A pair whose peer knows our hardware address, and our end of it.
fn station() -> Option<(Pair, Station)> {
    if !is_root() || !has_traffic_control() {
        return None;
    }
    let pair = Pair::new(1);
    let station = pair.station();
    let mac = station.port.mac();
    let neighbour = format!("neighbour replace {OURS} lladdr {mac} dev peer0");
    pair.peer.ip(&neighbour);
    Some((pair, station))
}

/// A socket of the peer that sends many datagrams of [`CUT`] bytes to us as one frame.
fn long_socket(pair: &Pair) -> UdpSocket {
    let socket = peer_socket(pair, PEER);
    socket.connect((OURS, 2000)).unwrap();
    let cut: libc::c_int = CUT as libc::c_int;
    let (value, len) = ((&raw const cut).cast(), size_of_val(&cut) as u32);
    let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    // SAFETY: `value` points to `len` bytes that live during the call.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    assert_eq!(set, 0);
    socket
}

fn long_data(number: usize) -> Vec<u8> {
    (0..LONG)
        .map(|at| ((at + 7 * number) % 251) as u8)
        .collect()
}

/// The data of the datagrams that are there.
fn datagrams(station: &mut Station) -> Vec<Vec<u8>> {
    while station.poll() > 0 {}
    let is_udp = |frame: &[u8]| {
        let (ip, datagram) = frames::parse_ipv4(frame)?;
        (ip.protocol == Protocol::UDP).then(|| datagram[8..].to_vec())
    };
    let arrived = station.arrived.drain(..);
    arrived.filter_map(|frame| is_udp(&frame.bytes)).collect()
}

/// The data of the next so many datagrams.
fn expect_datagrams(station: &mut Station, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + DEADLINE;
    let mut came = datagrams(station);
    while came.len() < count {
        assert!(Instant::now() < end, "{} of {count} came", came.len());
        came.extend(datagrams(station));
    }
    came
}

/// Puts the calling thread on the processor that has this place among those it may run on.
fn pin(place: usize) {
    let allowed = sched_getaffinity(None).unwrap();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let mut one = CpuSet::new();
    one.set(processors[place % processors.len()]);
    sched_setaffinity(None, &one).unwrap();
}

/// Sends datagrams from one processor and the other in turn. Returns whether they come in the order
/// in which they were sent.
fn come_in_order(pair: &Pair, station: &mut Station) -> bool {
    /// How many.
    const COUNT: u32 = 1000;
    let socket = peer_socket(pair, PEER);
    // What was sent on one processor waits in another box than what was on the other.
    thread::scope(|scope| {
        scope.spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            for number in 0..COUNT {
                if number % 7 == 0 {
                    sched_setaffinity(None, &allowed).unwrap();
                    pin(number as usize / 7);
                }
                socket.send_to(&numbered(number), (OURS, 2000)).unwrap();
            }
        });
    });
    let came = expect_datagrams(station, COUNT as usize);
    let all = |data: &Vec<u8>| (0..COUNT).any(|number| *data == numbered(number));
    assert!(came.iter().all(all), "all are whole");
    came.is_sorted()
}

/// Data that says in which place it is, of another length than that beside it.
fn numbered(number: u32) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.resize(4 + number as usize % 1200, number as u8);
    data
}

#[test]
fn frames_come_in_the_order_in_which_they_were_sent_from_any_processor() {
    let Some((pair, mut station)) = station() else {
        return;
    };
    // A machine that is busy can put off what the kernel does on a processor, and so change the
    // order before we see it.
    assert!((0..10).any(|_| come_in_order(&pair, &mut station)));
    assert_eq!(station.port.losses(), (0, 0));
}

#[test]
fn frames_of_many_datagrams_come_whole() {
    let Some((pair, mut station)) = station() else {
        return;
    };
    let socket = long_socket(&pair);
    // More than the memory of two boxes, read in pieces of other sizes than they are written in.
    let (mut sent, mut came) = (0, 0);
    let end = Instant::now() + DEADLINE;
    while came < 700 {
        assert!(Instant::now() < end, "{came} of {sent} came");
        for _ in 0..11.min(700 - sent) {
            socket.send(&long_data(sent)).unwrap();
            sent += 1;
        }
        for data in datagrams(&mut station) {
            assert!(
                data == long_data(came),
                "frame {came} of {} bytes",
                data.len()
            );
            came += 1;
        }
    }
    assert_eq!((sent, station.port.losses()), (700, (0, 0)));
}

#[test]
fn what_finds_no_room_is_counted_and_more_comes_afterwards() {
    let Some((pair, mut station)) = station() else {
        return;
    };
    let raw = pair.raw();
    let short = udp_to_us(station.peer_mac, station.port.mac(), b"short");
    let socket = long_socket(&pair);
    let long = long_data(0);
    let mut lost = 0;
    pin(0);
    // All that was sent has come or is lost; the machine may put off the last of it.
    let settle = |station: &mut Station, lost: u64, count: usize| {
        let end = Instant::now() + DEADLINE;
        let mut came = Vec::new();
        loop {
            came.extend(datagrams(station));
            let more = (station.port.losses().0 - lost) as usize;
            if came.len() + more == count {
                return (came, more as u64);
            }
            assert!(Instant::now() < end, "{} came, {more} lost", came.len());
        }
    };
    for _ in 0..3 {
        for _ in 0..RECORDS + 1000 {
            raw.send(&short);
        }
        let (came, more) = settle(&mut station, lost, RECORDS + 1000);
        assert!(came.len() >= RECORDS, "{more} lost");
        lost += more;

        for _ in 0..500 {
            socket.send(&long).unwrap();
        }
        let (came, more) = settle(&mut station, lost, 500);
        assert!(came.iter().all(|data| *data == long));
        assert!(came.len() > 50, "only {} came", came.len());
        lost += more;
    }
    assert!(lost > 0, "room for {RECORDS} frames and 1000 more");
    assert_eq!(station.port.losses(), (lost, 0));
}

#[test]
fn a_frame_wakes_who_sleeps() {
    /// A sleep that nothing ends lasts a second.
    const TIMES: u32 = 200;
    let Some((pair, mut station)) = station() else {
        return;
    };
    let socket = peer_socket(&pair, PEER);
    let (ask, asked) = std::sync::mpsc::channel::<u32>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in asked {
                // So that most often the other has fallen asleep.
                thread::sleep(Duration::from_micros(300));
                let data = number.to_be_bytes();
                socket.send_to(&data, (OURS, 2000)).unwrap();
            }
        });
        let start = Instant::now();
        for number in 0..TIMES {
            ask.send(number).unwrap();
            while datagrams(&mut station).is_empty() {
                sleep(&mut station, number % 2 == 0);
            }
        }
        let took = start.elapsed();
        assert!(took < Duration::from_secs(u64::from(TIMES) / 4), "{took:?}");
        drop(ask);
    });
}

/// Sleeps until a frame is there, as a port does it or by what it lends for that.
fn sleep(station: &mut Station, by_itself: bool) {
    if by_itself {
        return station.port.wait(Some(DEADLINE), None).unwrap();
    }
    let mut fds = Vec::new();
    let most = station.port.prepare_wait(&mut fds).unwrap().unwrap();
    // SAFETY: the port keeps them open.
    let fds = fds.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) });
    let mut fds: Vec<PollFd<'_>> = fds
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    poll(&mut fds, Some(&Timespec::try_from(most).unwrap())).unwrap();
    station.port.wait(Some(Duration::ZERO), None).unwrap();
}

/// Has the kernel hand what our end receives on to a processor (one that every machine has), and
/// opens it.
fn open_steered() -> XdpInterface {
    // SAFETY: a new mount namespace does not change descriptors or memory of this or any other
    // thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None).unwrap();
    fs::write("/sys/class/net/xdp0/queues/rx-0/rps_cpus", "1").unwrap();
    XdpInterface::open(&xdp_support::config()).unwrap()
}

#[test]
fn xdp_receives_where_the_kernel_would_hand_frames_on_before_traffic_control() {
    if !is_root() || !has_traffic_control() {
        return;
    }
    let pair = Pair::new(1);
    let interface = pair.ours.run(open_steered);
    assert_eq!(interface.mode().attachment, Attachment::Native);
}

#[test]
fn after_a_port_the_next_has_none_of_its_frames() {
    let Some((pair, mut station)) = station() else {
        return;
    };
    let mut prepared = pair
        .ours
        .run(|| io::xdp::XdpPrepared::new(&xdp_support::config()));
    // A second program on the same interface: whose socket is bound receives.
    let prepared = prepared.as_mut().unwrap();
    assert!(pair.ours.run(|| prepared.open()).is_err());
    let socket = peer_socket(&pair, PEER);
    socket.send_to(b"first", (OURS, 2000)).unwrap();
    let frame = station.expect("datagram", |frame| carries(frame, Protocol::UDP, b"first"));
    assert!(frame.bytes.ends_with(b"first"));
    socket.send_to(b"not read", (OURS, 2000)).unwrap();
    drop(station);
    socket.send_to(b"to the kernel", (OURS, 2000)).unwrap();

    // The kernel gives a queue back some time after its socket was closed.
    let end = Instant::now() + DEADLINE;
    let mut port = loop {
        match pair.ours.run(|| prepared.open()) {
            Ok(opened) => break opened.ports().remove(0),
            Err(error) if error.kind() != ErrorKind::ResourceBusy || Instant::now() > end => {
                panic!("{error}")
            }
            Err(_) => thread::yield_now(),
        }
    };
    assert_eq!(port.receive(|_| panic!("a frame of before")), 0);
    socket.send_to(b"second", (OURS, 2000)).unwrap();
    let mut got = false;
    port.receive(|frames| got = frames.iter().any(|frame| frame.bytes.ends_with(b"second")));
    assert!(got);
    assert_eq!(port.losses(), (0, 0));
}
