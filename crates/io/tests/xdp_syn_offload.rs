//! SYNs of the kernel that are answered where they arrive, without a stack. Needs root and Linux
//! 6.6; says so and passes without.

#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io::Port;
use io::netlink::ethtool;
use io::xdp::XdpConfig;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with};
use rustix::time::{ClockId, clock_gettime};
use siphasher::sip::SipHasher13;
use wire::checksum::{transport_checksum, verify, verify_transport};
use wire::ethernet::EtherType;
use wire::frame::RxChecksum;
use wire::ip::Protocol;
use wire::syn_offload::{SynOffload, SynRules};
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use xdp_support::frames::{ethernet, ipv4, parse_ipv4};
use xdp_support::{DEADLINE, OURS, PEER, Pair, Raw, Station, has_traffic_control, is_root};

const OURS_TOO: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 4);
const LOCAL: SocketAddrV4 = SocketAddrV4::new(OURS, 80);
/// So much data Linux sends at once, as it cannot send more.
const WINDOW: u16 = 5000;
const FLOW_KEY: (u64, u64) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
const ISS_KEY: (u64, u64) = (0x1111_2222_3333_4444, 0x5555_6666_7777_8888);
const RULES: SynRules = SynRules {
    flow_key: state(FLOW_KEY),
    iss_key: state(ISS_KEY),
    stamps: 0x9e37_79b1,
    window: WINDOW,
    mss: 1012,
    window_scale: 5,
    ttl: 64,
};

/// SipHash begins like this.
const fn state((k0, k1): (u64, u64)) -> [u64; 4] {
    [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]
}

fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A segment of the peer.
struct Came {
    tcp: TcpHeader,
    data: usize,
    answered: bool,
    checksum: RxChecksum,
}

/// Our end, with nothing behind it that would answer, and what answers SYNs.
struct Lab {
    pair: Pair,
    station: Station,
    link: Option<Box<dyn SynOffload>>,
}

impl Lab {
    /// `None`: not here.
    fn new() -> Option<Self> {
        if !is_root() || !has_traffic_control() {
            return None;
        }
        let pair = Pair::new(1);
        let config = XdpConfig::new("xdp0", [OURS.into(), OURS_TOO.into()]);
        let mut station = pair.station_with(&config);
        let mac = station.port.mac();
        for address in [OURS, OURS_TOO] {
            let neighbour = format!("neighbour replace {address} lladdr {mac} dev peer0");
            pair.peer.ip(&neighbour);
        }
        let mut link = station.port.syn_offload().expect("a veth pair can");
        link.start(&RULES);
        Some(Self {
            pair,
            station,
            link: Some(link),
        })
    }

    fn link(&mut self) -> &mut dyn SynOffload {
        &mut **self.link.as_mut().unwrap()
    }

    /// The same, and SYNs to `LOCAL` are answered.
    fn offered() -> Option<Self> {
        let mut lab = Self::new()?;
        lab.link().offer(LOCAL, true);
        Some(lab)
    }

    /// The kernel of the peer opens a connection to `to`, and we take a turn before.
    fn open(&mut self, to: SocketAddrV4) -> OwnedFd {
        self.station.port.begin(now());
        self.pair.peer.run(|| {
            let (flags, kind) = (SocketFlags::NONBLOCK, SocketType::STREAM);
            let socket = socket_with(AddressFamily::INET, kind, flags, None).unwrap();
            let result = connect(&socket, &to);
            assert!(matches!(
                result,
                Ok(()) | Err(rustix::io::Errno::INPROGRESS)
            ));
            socket
        })
    }

    /// The next segment that has one of `flags`.
    fn expect(&mut self, flags: TcpFlags) -> Came {
        let is_it = |frame: &[u8]| {
            let (ip, packet) = parse_ipv4(frame)?;
            let is_tcp = ip.protocol == Protocol::TCP;
            is_tcp.then(|| TcpHeader::parse(packet).unwrap().0)
        };
        let has = |frame: &[u8]| is_it(frame).is_some_and(|tcp| tcp.flags.intersects(flags));
        let came = self.station.expect("segment", has);
        let (_, packet) = parse_ipv4(&came.bytes).unwrap();
        let (tcp, data) = TcpHeader::parse(packet).unwrap();
        Came {
            tcp,
            data: data.len(),
            answered: came.meta.answered,
            checksum: came.meta.checksum,
        }
    }

    /// The kernel opens connections until the SYN of one is answered: that is a matter of how soon
    /// it comes after a turn of ours.
    fn established(&mut self, to: SocketAddrV4) -> (OwnedFd, Came) {
        let end = std::time::Instant::now() + DEADLINE;
        while std::time::Instant::now() < end {
            let socket = self.open(to);
            let syn = self.expect(TcpFlags::SYN);
            if syn.answered {
                return (socket, syn);
            }
        }
        panic!("no SYN to {to} is answered");
    }

    /// Whether a SYN to `to` is answered.
    fn answers(&mut self, to: SocketAddrV4) -> bool {
        let _socket = self.open(to);
        self.expect(TcpFlags::SYN).answered
    }

    /// Sets a value of the peer's kernel.
    fn sysctl(&self, name: &str, value: &str) {
        let file = format!("/proc/sys/net/ipv4/{name}");
        self.pair.peer.run(|| fs::write(file, value).unwrap());
    }
}

/// `h` of [`SynRules`].
fn flow(peer: Ipv4Addr, port: u16) -> u64 {
    let mut bytes = [OURS.octets(), peer.octets()].concat();
    bytes.extend(LOCAL.port().to_be_bytes());
    bytes.extend(port.to_be_bytes());
    SipHasher13::new_with_keys(FLOW_KEY.0, FLOW_KEY.1).hash(&bytes)
}

/// The initial sequence number of the answer to `syn`.
fn iss(peer: Ipv4Addr, syn: &TcpHeader) -> u32 {
    let mut bytes = flow(peer, syn.src_port).to_le_bytes().to_vec();
    bytes.extend(syn.seq.0.to_le_bytes());
    SipHasher13::new_with_keys(ISS_KEY.0, ISS_KEY.1).hash(&bytes) as u32
}

#[test]
fn linux_takes_the_answer() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    let before = now().as_millis() as u32;
    let (socket, syn) = lab.established(LOCAL);
    let ack = lab.expect(TcpFlags::ACK);
    assert_eq!(ack.tcp.ack.0, iss(PEER, &syn.tcp).wrapping_add(1));
    assert_eq!(ack.tcp.seq, syn.tcp.seq + 1);
    let echo = ack.tcp.options.timestamps.unwrap().tsecr;
    let stamp = ((flow(PEER, syn.tcp.src_port) >> 32) as u32).wrapping_mul(RULES.stamps);
    let clock = echo.wrapping_sub(stamp);
    assert!(clock.wrapping_sub(before) <= (now().as_millis() as u32).wrapping_sub(before));
    // What the options said.
    let mut stream = TcpStream::from(socket);
    let mut written = 0;
    while let Ok(more) = stream.write(&[7; 10_000]) {
        written += more;
    }
    assert!(written > 10_000, "{written} bytes");
    let mut came = 0;
    // The last that the window has room for may wait for the window.
    while came + 1000 <= usize::from(WINDOW) {
        let data = lab.expect(TcpFlags::ACK).data;
        assert_eq!(data % 1000, 0, "1012 less the timestamps");
        came += data;
    }
    assert_eq!(came, usize::from(WINDOW));
    let info = tcp_info(&stream);
    assert_eq!(
        (info.tcpi_snd_rcv_wscale & 0xf, info.tcpi_options & 7),
        (5, 7)
    );
    // Nobody has closed it.
    let mut byte = [0];
    assert_eq!(
        stream.read(&mut byte).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

fn tcp_info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: plain numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    let value = (&raw mut info).cast();
    // SAFETY: `value` points to `len` bytes that live during the call.
    let got = unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, value, &raw mut len) };
    assert_eq!(got, 0);
    info
}

/// The kernel checks what has a whole checksum.
#[test]
fn an_answer_to_a_syn_with_a_checksum_has_one() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    let peer = &lab.pair.peer;
    peer.run(|| ethtool::set_tx_checksum("peer0", false).unwrap());
    let (_socket, syn) = lab.established(LOCAL);
    assert_eq!(syn.checksum, RxChecksum::Unverified);
    let ack = lab.expect(TcpFlags::ACK);
    assert_eq!(ack.tcp.ack.0, iss(PEER, &syn.tcp).wrapping_add(1));
}

/// A peer that the kernel does not know of, so that it says nothing.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 77);

/// What a stranger sends: a SYN with the options of Linux.
fn syn(source: Ipv4Addr, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut segment = vec![0; 40];
    segment[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    segment[4..8].copy_from_slice(&[1, 2, 3, 4]);
    segment[12..16].copy_from_slice(&[0xa0, 0x02, 0xfa, 0xf0]);
    let options = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    segment[20..].copy_from_slice(&options);
    change(&mut segment);
    let (from, to) = (source.into(), OURS.into());
    segment[16..18].fill(0);
    let sum = transport_checksum(from, to, Protocol::TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    ipv4((source, OURS), Protocol::TCP, &segment, |ip| ip.ttl = 9)
}

impl Lab {
    fn frame(&self, vlan: Option<u16>, packet: &[u8]) -> Vec<u8> {
        let (ours, peer) = (self.station.port.mac(), self.station.peer_mac);
        ethernet(peer, ours, EtherType::IPV4, vlan, packet)
    }

    /// Whether this frame of the peer is answered, just after a turn.
    fn answers_frame(&mut self, raw: &Raw, frame: &[u8]) -> bool {
        self.station.port.begin(now());
        raw.send(frame);
        let came = self.station.expect("frame", |came| came == frame);
        came.meta.answered
    }

    /// The same frame again and again until it is answered.
    fn insist(&mut self, raw: &Raw, frame: &[u8]) {
        let end = std::time::Instant::now() + DEADLINE;
        while !self.answers_frame(raw, frame) {
            assert!(std::time::Instant::now() < end, "no SYN is answered");
        }
    }
}

/// The next frame with this source address that the peer receives.
fn receive(raw: &Raw, source: Ipv4Addr) -> Vec<u8> {
    let timeout = Some(DEADLINE);
    set_socket_timeout(raw, Timeout::Recv, timeout).unwrap();
    let mut room = [0; 2048];
    loop {
        let (len, _) = recv(raw, &mut room[..], RecvFlags::empty()).unwrap();
        let frame = &room[..len];
        if parse_ipv4(frame).is_some_and(|(ip, _)| ip.src == source) {
            return frame.to_vec();
        }
    }
}

#[test]
fn copies_of_a_syn_have_the_same_answer() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    let (raw, listening) = (
        lab.pair.raw(),
        lab.pair.peer.run(|| Raw::listening("peer0")),
    );
    let frame = lab.frame(None, &syn(STRANGER, |_| ()));
    let (asked, _) = TcpHeader::parse(&frame[34..]).unwrap();
    for _ in 0..2 {
        lab.insist(&raw, &frame);
        let answer = receive(&listening, OURS);
        assert_eq!(answer[..6], lab.station.peer_mac.0);
        assert_eq!(answer[6..12], lab.station.port.mac().0);
        let (ip, segment) = parse_ipv4(&answer).unwrap();
        assert_eq!((ip.dst, ip.ttl, ip.dont_fragment), (STRANGER, 64, true));
        assert!(verify(&answer[14..34]));
        assert!(verify_transport(
            OURS.into(),
            STRANGER.into(),
            Protocol::TCP,
            segment
        ));
        let (tcp, data) = TcpHeader::parse(segment).unwrap();
        assert_eq!((tcp.src_port, tcp.dst_port, data.len()), (80, 40_000, 0));
        assert_eq!((tcp.seq.0, tcp.ack.0), (iss(STRANGER, &asked), 0x0102_0305));
        assert_eq!(tcp.flags, TcpFlags::SYN | TcpFlags::ACK);
        assert_eq!(tcp.window, WINDOW);
        let options = &tcp.options;
        let stamps = options.timestamps.unwrap();
        assert_eq!((options.mss, options.window_scale), (Some(1012), Some(5)));
        assert_eq!((options.sack_permitted, stamps.tsecr), (true, 0x0908_0706));
    }
}

#[test]
fn what_linux_does_not_send_is_left_to_the_stack() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    let raw = lab.pair.raw();
    let plain = lab.frame(None, &syn(STRANGER, |_| ()));
    let flags = |flags: u8| syn(STRANGER, |segment| segment[13] = flags);
    let patched = |at: usize, byte: u8| syn(STRANGER, |segment| segment[at] = byte);
    let packets = [
        ("ECN", flags(0xc2)),
        ("accurate ECN", patched(12, 0xa1)),
        ("an ACK", flags(0x12)),
        ("a FIN", flags(0x03)),
        ("a RST", flags(0x06)),
        ("no port", syn(STRANGER, |segment| segment[..2].fill(0))),
        ("another option first", patched(20, 0xfd)),
        ("no SACK", patched(24, 1)),
        ("another option last", patched(37, 0xfd)),
        ("a header that ends before", patched(12, 0x90)),
        ("this network", syn(Ipv4Addr::new(0, 1, 2, 3), |_| ())),
        ("loopback", syn(Ipv4Addr::new(127, 1, 2, 3), |_| ())),
        ("a group", syn(Ipv4Addr::new(224, 1, 2, 3), |_| ())),
        ("broadcast", syn(Ipv4Addr::BROADCAST, |_| ())),
    ];
    for (what, packet) in packets {
        let frame = lab.frame(None, &packet);
        assert!(!lab.answers_frame(&raw, &frame), "{what}");
        lab.insist(&raw, &plain);
    }
    for (what, at, byte) in [
        ("a fragment", 20, 0x20),
        ("a later fragment", 21, 1),
        ("congestion", 15, 3),
        ("UDP", 23, 17),
        ("a header with options", 14, 0x46),
        ("a longer packet", 17, 61),
        ("a sender that is a group", 6, 1),
        ("somebody else's hardware address", 5, !plain[5]),
    ] {
        let mut frame = plain.clone();
        frame[at] = byte;
        assert!(!lab.answers_frame(&raw, &frame), "{what}");
        lab.insist(&raw, &plain);
    }
    let tagged = lab.frame(Some(5), &syn(STRANGER, |_| ()));
    assert!(!lab.answers_frame(&raw, &tagged), "a tag");
    let longer = lab.frame(None, &syn(STRANGER, |segment| segment.push(0)));
    assert!(!lab.answers_frame(&raw, &longer), "data");
}

#[test]
fn what_is_not_asked_for_is_left_to_the_stack() {
    let Some(mut lab) = Lab::new() else {
        return;
    };
    let too = SocketAddrV4::new(OURS_TOO, 80);
    assert!(!lab.answers(LOCAL), "nothing was offered");
    lab.link().offer(LOCAL, true);
    lab.established(LOCAL);
    assert!(!lab.answers(SocketAddrV4::new(OURS, 81)), "another port");
    assert!(!lab.answers(too), "another address");
    lab.link().offer(too, true);
    lab.established(too);
    lab.link().offer(LOCAL, false);
    assert!(!lab.answers(LOCAL), "taken back");
    lab.established(too);
    lab.link().withdraw(80);
    assert!(!lab.answers(too), "taken back for all addresses");
    lab.link().offer(LOCAL, true);
    lab.established(LOCAL);
    lab.link = None;
    assert!(!lab.answers(LOCAL), "the stack is gone");
    let mut link = lab.station.port.syn_offload().unwrap();
    link.start(&RULES);
    lab.link = Some(link);
    assert!(!lab.answers(LOCAL), "the next has offered nothing");
}

#[test]
fn syns_of_flows_that_are_known_are_left_to_the_stack() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    let raw = lab.pair.raw();
    let frame = lab.frame(None, &syn(STRANGER, |_| ()));
    let hash = flow(STRANGER, 40_000) as u32;
    lab.link().enter(hash);
    lab.link().enter(hash);
    assert!(!lab.answers_frame(&raw, &frame));
    lab.link().leave(hash);
    assert!(!lab.answers_frame(&raw, &frame), "there is another");
    lab.link().leave(hash);
    lab.insist(&raw, &frame);
    // More than are counted: for ever.
    for _ in 0..300 {
        lab.link().enter(hash);
    }
    for _ in 0..300 {
        lab.link().leave(hash);
    }
    assert!(!lab.answers_frame(&raw, &frame));
    lab.established(LOCAL);
}

#[test]
fn a_stack_that_takes_no_turns_is_not_spoken_for() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    lab.established(LOCAL);
    std::thread::sleep(Duration::from_millis(50));
    let _socket = lab.pair.peer.run(|| {
        let (flags, kind) = (SocketFlags::NONBLOCK, SocketType::STREAM);
        let socket = socket_with(AddressFamily::INET, kind, flags, None).unwrap();
        let _ = connect(&socket, &LOCAL);
        socket
    });
    assert!(!lab.expect(TcpFlags::SYN).answered);
    lab.established(LOCAL);
}

/// Those need another answer.
#[test]
fn other_syns_are_left_to_the_stack() {
    let Some(mut lab) = Lab::offered() else {
        return;
    };
    for (name, other, usual) in [
        ("tcp_ecn", "1", "2"),
        ("tcp_timestamps", "0", "1"),
        ("tcp_sack", "0", "1"),
        ("tcp_window_scaling", "0", "1"),
    ] {
        lab.sysctl(name, other);
        assert!(!lab.answers(LOCAL), "{name} = {other}");
        lab.sysctl(name, usual);
        lab.established(LOCAL);
    }
}
