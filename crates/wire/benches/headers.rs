//! What reading and summing headers costs: `cargo bench -p wire`. One thread, warm caches.
#![allow(missing_docs, clippy::expect_used)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use divan::Bencher;
use divan::counter::BytesCount;
use wire::checksum::{checksum, verify_transport};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps, fill_checksum};

/// Operations per measured call, so that its own cost does not count.
const BATCH: usize = 64;
const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn main() {
    divan::main();
}

fn tcp() -> TcpHeader {
    TcpHeader {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNumber(1_000_000),
        ack: SeqNumber(2_000_000),
        flags: TcpFlags::ACK | TcpFlags::PSH,
        window: 512,
        urgent: 0,
        options: TcpOptions {
            timestamps: Some(Timestamps { tsval: 1, tsecr: 2 }),
            ..TcpOptions::default()
        },
    }
}

/// An Ethernet frame with a TCP segment of so many bytes, with timestamps.
fn frame(payload: usize) -> Vec<u8> {
    let segment_len = tcp().header_len() + payload;
    let ethernet = EthernetHeader {
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        ether_type: EtherType::IPV4,
    };
    let ip = Ipv4Header::new(SRC, DST, Protocol::TCP, segment_len);
    let mut frame = vec![0; 14 + 20 + segment_len];
    ethernet.emit(&mut frame);
    ip.emit(&mut frame[14..]);
    let segment = &mut frame[34..];
    tcp().emit(segment);
    fill_checksum(IpAddr::V4(SRC), IpAddr::V4(DST), segment);
    frame
}

/// Ethernet, IPv4 with its checksum, TCP with its options.
#[divan::bench(counters = [BATCH])]
fn parse(bencher: Bencher<'_, '_>) {
    let frame = frame(64);
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            let (_, packet) = EthernetHeader::parse(black_box(&frame)).expect("ethernet");
            let (_, segment) = Ipv4Header::parse(packet).expect("ipv4");
            black_box(TcpHeader::parse(segment)).expect("tcp");
        }
    });
}

/// The three headers of a segment, without its checksum.
#[divan::bench(counters = [BATCH])]
fn emit(bencher: Bencher<'_, '_>) {
    let mut segment = [0; 64];
    let header = tcp();
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            Ipv4Header::new(SRC, DST, Protocol::TCP, 96).emit(black_box(&mut segment));
            black_box(&header).emit(black_box(&mut segment));
        }
    });
}

#[divan::bench(args = [20, 64, 1460, 65_000])]
fn sum(bencher: Bencher<'_, '_>, bytes: usize) {
    let data = vec![7; bytes];
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| checksum(black_box(&data)));
}

/// Of a received segment, pseudo-header included.
#[divan::bench(args = [64, 1448], counters = [BATCH])]
fn verify(bencher: Bencher<'_, '_>, payload: usize) {
    let frame = frame(payload);
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            let segment = black_box(&frame[34..]);
            black_box(verify_transport(
                IpAddr::V4(SRC),
                IpAddr::V4(DST),
                Protocol::TCP,
                segment,
            ));
        }
    });
}
