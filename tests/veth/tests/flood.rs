//! A SYN flood from spoofed sources over a real link, while others work: an established connection
//! keeps the rate at which it is read, new ones succeed, memory is bounded. The sender of the
//! flood, both kernels' sides of the link, the stack and its clients share two processors here, so
//! the established connection is read at a rate that leaves room for the flood; how a transfer that
//! takes all there is fares is printed.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::lab::{OURS, PEER, PORT, url};
use interop::{Family, Gate, Kind, Lab, Process, client, files, sized};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

/// SYNs per second, as far as the machine keeps up: the sender, the kernel's side of the link and
/// the stack share its processors.
const RATE: u64 = 100_000;
const TRANSFER: u64 = 40 << 20;
/// At which an established connection is read, bytes per second: 160 Mbit/s.
const PACE: u64 = 20_000_000;
/// Something else may take the processors from one attempt.
const ATTEMPTS: usize = 3;

/// RFC 1071.
fn checksum(words: impl Iterator<Item = u16>) -> u16 {
    let sum = words.fold(0u32, |sum, word| sum + u32::from(word));
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A SYN with an MSS option, with its IPv4 header, whose checksum and length the kernel fills in.
fn syn(src: SocketAddrV4, dst: SocketAddrV4, seq: u32) -> [u8; 44] {
    let mut packet = [0; 44];
    let (ip, tcp) = packet.split_at_mut(20);
    ip[0] = 0x45;
    ip[8] = 64;
    ip[9] = 6;
    ip[12..16].copy_from_slice(&src.ip().octets());
    ip[16..20].copy_from_slice(&dst.ip().octets());
    tcp[..2].copy_from_slice(&src.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&dst.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[12..16].copy_from_slice(&[0x60, 0x02, 0xff, 0xff]);
    tcp[20..24].copy_from_slice(&[2, 4, 5, 180]);
    let pseudo = [6, 24];
    let bytes = ip[12..20].chunks(2).chain(tcp.chunks(2));
    let words = bytes.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let sum = checksum(words.chain(pseudo));
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Numbers that look random.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Sends until `stop`, in bursts a millisecond apart.
fn send_syns(stop: &AtomicBool, sent: &AtomicU64) {
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).unwrap();
    let dst = SocketAddrV4::new(OURS, PORT);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = RATE * start.elapsed().as_millis() as u64 / 1000;
        let behind = due.saturating_sub(sent.load(Ordering::Relaxed));
        for _ in 0..behind.min(RATE / 100) {
            let random = next(&mut state);
            let host = Ipv4Addr::from_bits(0xc612_0000 | random as u32 & 0x1_ffff);
            let src = SocketAddrV4::new(host, (random >> 32) as u16 | 1);
            let packet = syn(src, dst, (random >> 16) as u32);
            // The link may be full.
            let _ = sendto(&raw, &packet, SendFlags::DONTWAIT, &dst);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Does `work` under the flood; how many SYNs were sent.
fn under_flood<T>(lab: &Lab, work: impl FnOnce() -> T) -> (T, u64) {
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = thread::scope(|scope| {
        scope.spawn(|| lab.peer().enter(|| send_syns(&stop, &sent)));
        thread::sleep(Duration::from_millis(500));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    });
    (done, sent.into_inner())
}

/// As fast as it goes.
fn download(lab: &Lab) -> Duration {
    let url = url(Family::V4.ours(), "large");
    let words = ["--output", "/dev/null", &url];
    lab.curl(&words, Duration::from_secs(120))
        .must_succeed()
        .took
}

/// The same file over a connection that is established already, read at [`PACE`] as far as the
/// bytes are there.
fn read_paced(stream: &mut TcpStream) -> Duration {
    client::ask(stream, "/large").unwrap();
    let (start, mut got, mut chunk) = (Instant::now(), 0, vec![0; 256 << 10]);
    while got < TRANSFER {
        let due = PACE * start.elapsed().as_millis() as u64 / 1000;
        if due <= got {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let most = (due - got).min(chunk.len() as u64) as usize;
        let read = stream.read(&mut chunk[..most]).unwrap();
        assert_ne!(read, 0, "closed after {got} bytes");
        got += read as u64;
    }
    start.elapsed()
}

/// Resident memory, KiB.
fn memory(server: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

/// New connections, each with its own handshake, while `transfer` goes on; how long that took.
fn beside_newcomers(lab: &Lab, transfer: impl FnOnce() -> Duration + Send) -> Duration {
    thread::scope(|scope| {
        let transfer = scope.spawn(transfer);
        let url = url(Family::V4.ours(), "small");
        for _ in 0..sized(100, 20) {
            lab.curl(&[&url], Duration::from_secs(30)).must_succeed();
        }
        transfer.join().unwrap()
    })
}

/// What `flooded` is of the rate of `alone`, percent.
fn kept(alone: Duration, flooded: Duration) -> f64 {
    100.0 * alone.as_secs_f64() / flooded.as_secs_f64()
}

/// What an established connection keeps of its rate, percent.
fn attempt(lab: &Lab, server: &Process) -> f64 {
    let to = SocketAddr::new(Family::V4.ours(), PORT);
    let mut stream = lab.peer().enter(|| client::open(to)).unwrap();
    let (greedy, paced) = (download(lab), read_paced(&mut stream));
    let before = memory(server);
    let start = Instant::now();
    let ((greedily, at_pace), sent) = under_flood(lab, || {
        let greedily = beside_newcomers(lab, || download(lab));
        (greedily, beside_newcomers(lab, || read_paced(&mut stream)))
    });
    let rate = sent as f64 / start.elapsed().as_secs_f64();
    let grown = memory(server).saturating_sub(before);
    let (greedy, paced) = (kept(greedy, greedily), kept(paced, at_pace));
    println!(
        "{rate:.0} SYNs a second: {paced:.0}% of the rate of an established connection kept, {greedy:.0}% of a transfer at full speed, \
         {grown} KiB more"
    );
    assert!(grown < 64 << 10, "{grown} KiB more under the flood");
    paced
}

#[test]
fn a_flood_hurts_nobody() {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(Kind::Afxdp);
    files::make(&lab.www().join("large"), 1, TRANSFER);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    // Where the answers to the spoofed sources go; the peer's kernel drops them.
    let gateway = PEER.to_string();
    let server = lab.serve(&["--gateway", &gateway]);
    let mut attempts = (0..ATTEMPTS).map(|_| attempt(&lab, &server));
    assert!(
        attempts.any(|kept| kept >= 90.0),
        "an established connection keeps less than 90% of its rate"
    );
    server.stop();
}
