use std::net::Ipv4Addr;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use proptest::prelude::*;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader};

use super::*;
use crate::Chunk;

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 40_000);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);

/// A connection as a capture sees it: each end counts from 1000.
struct Wire {
    packets: Vec<Vec<u8>>,
    sent: [u32; 2],
    client: (Ipv4Addr, u16),
}

impl Wire {
    /// With a handshake.
    fn new() -> Self {
        let mut wire = Self::without_handshake(CLIENT.1);
        wire.push(true, 999, None, TcpFlags::SYN, b"");
        wire.push(false, 999, Some(1000), TcpFlags::SYN, b"");
        wire.push(true, 1000, Some(1000), TcpFlags::empty(), b"");
        wire
    }

    fn without_handshake(port: u16) -> Self {
        Self {
            packets: Vec::new(),
            sent: [1000; 2],
            client: (CLIENT.0, port),
        }
    }

    fn push(&mut self, client: bool, seq: u32, ack: Option<u32>, flags: TcpFlags, payload: &[u8]) {
        let (from, to) = if client {
            (self.client, SERVER)
        } else {
            (SERVER, self.client)
        };
        let tcp = TcpHeader {
            src_port: from.1,
            dst_port: to.1,
            seq: SeqNumber(seq),
            ack: SeqNumber(ack.unwrap_or_default()),
            flags: flags | ack.map_or(TcpFlags::empty(), |_| TcpFlags::ACK),
            ..TcpHeader::default()
        };
        let mut frame = vec![0; 14 + 20 + 20];
        let ethernet = EthernetHeader {
            dst: MacAddr([2; 6]),
            src: MacAddr([2; 6]),
            ether_type: EtherType::IPV4,
            vlan: None,
        };
        ethernet.emit(&mut frame);
        Ipv4Header::new(from.0, to.0, Protocol::TCP, 20 + payload.len()).emit(&mut frame[14..]);
        tcp.emit(&mut frame[34..]);
        frame.extend_from_slice(payload);
        self.packets.push(frame);
    }

    /// One end says something, in one segment.
    fn say(&mut self, client: bool, payload: &[u8]) -> usize {
        let [own, other] = [usize::from(!client), usize::from(client)];
        self.push(
            client,
            self.sent[own],
            Some(self.sent[other]),
            TcpFlags::PSH,
            payload,
        );
        self.sent[own] += payload.len() as u32;
        self.packets.len() - 1
    }

    /// Both ends acknowledge what there is, and close.
    fn close(&mut self) {
        let [client, server] = self.sent;
        self.push(true, client, Some(server), TcpFlags::FIN, b"");
        self.push(false, server, Some(client + 1), TcpFlags::FIN, b"");
        self.push(true, client + 1, Some(server + 1), TcpFlags::empty(), b"");
    }

    /// A capture of it, a packet each millisecond.
    fn pcap(&self) -> Vec<u8> {
        let mut writer = PcapWriter::with_header(Vec::new(), PcapHeader::default()).unwrap();
        for (number, packet) in self.packets.iter().enumerate() {
            let time = Duration::from_millis(5_000_000 + number as u64);
            let packet = PcapPacket::new(time, packet.len() as u32, packet);
            writer.write_packet(&packet).unwrap();
        }
        writer.into_writer()
    }

    fn pcapng(&self) -> Vec<u8> {
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        };
        writer.write_pcapng_block(interface).unwrap();
        for (number, packet) in self.packets.iter().enumerate() {
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_millis(5_000_000 + number as u64),
                original_len: packet.len() as u32,
                data: packet.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        writer.into_inner()
    }
}

fn recorded(capture: &[u8]) -> (Vec<Transaction>, Recorded) {
    let mut recorder = Recorder::open(capture, Digest::Sha1).unwrap();
    let all = recorder.by_ref().collect::<Result<_, _>>().unwrap();
    (all, recorder.report())
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: www.example.org\r\n\r\n").into_bytes()
}

fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn transactions_of_a_connection_are_those_of_its_ends() {
    let body = vec![b'a'; 5000];
    let mut wire = Wire::new();
    wire.say(true, &get("/a"));
    wire.say(false, &answer(&body));
    wire.say(
        true,
        b"POST /b HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\nContent-Length: 3\r\n\r\n123",
    );
    wire.say(false, b"HTTP/1.1 100 Continue\r\n\r\n");
    wire.say(
        false,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
    );
    wire.say(false, b"3\r\nllo\r\n0\r\n\r\n");
    wire.close();
    let (log, report) = recorded(&wire.pcap());
    let first = Transaction {
        connection: 1,
        client: CLIENT.0.into(),
        start_us: 0,
        end_us: 1000,
        method: "GET".into(),
        url: "http://www.example.org/a".into(),
        request_bytes: 0,
        response_bytes: 5000,
        keep_alive: true,
        chunks: body
            .chunks(4096)
            .map(|chunk| Chunk::of(chunk, Digest::Sha1))
            .collect(),
    };
    let second = Transaction {
        start_us: 2000,
        end_us: 5000,
        method: "POST".into(),
        url: "http://x:80/b".into(),
        request_bytes: 3,
        response_bytes: 5,
        keep_alive: false,
        chunks: vec![Chunk::of(b"hello", Digest::Sha1)],
        ..first.clone()
    };
    assert_eq!(log, [first, second]);
    assert_eq!((report.transactions, report.connections), (2, 1));
    assert_eq!(report.packets, wire.packets.len() as u64);
    assert!(!report.has_losses(), "{report:?}");
    // The other format, and its own unit of time.
    assert_eq!(recorded(&wire.pcapng()), (log, report));
}

/// Two transactions whose bodies come in six segments each; the number of the first of them.
fn two_transactions() -> (Wire, usize) {
    let mut wire = Wire::new();
    wire.say(true, &get("/a"));
    let body: Vec<u8> = (0..6000u32).map(|at| (at % 251) as u8).collect();
    let whole = answer(&body);
    let mut first = 0;
    for (number, piece) in whole.chunks(whole.len() / 5).enumerate() {
        let at = wire.say(false, piece);
        if number == 1 {
            first = at;
        }
    }
    wire.say(true, &get("/b"));
    for piece in whole.chunks(whole.len() / 5) {
        wire.say(false, piece);
    }
    wire.close();
    (wire, first)
}

#[test]
fn the_order_of_packets_and_repeated_ones_change_nothing() {
    let (wire, first) = two_transactions();
    let expected = recorded(&wire.pcap()).0;
    assert_eq!(expected.len(), 2);
    assert_eq!(expected[0].chunks, expected[1].chunks);
    let mut other = wire;
    other.packets.swap(first, first + 1);
    let again = other.packets[first].clone();
    other.packets.insert(first + 2, again);
    let (found, report) = recorded(&other.pcap());
    let chunks = |log: &[Transaction]| log.iter().map(|one| one.chunks.clone()).collect::<Vec<_>>();
    assert_eq!(chunks(&found), chunks(&expected));
    assert!(!report.has_losses(), "{report:?}");
}

#[test]
fn what_the_capture_lost_is_left_out_and_told() {
    let (mut wire, first) = two_transactions();
    let lost = wire.packets.remove(first).len() as u64 - 54;
    let (log, report) = recorded(&wire.pcap());
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].url, "http://www.example.org/b");
    assert_eq!(
        (report.incomplete, report.gaps, report.lost_bytes),
        (1, 1, lost)
    );
    assert!(report.has_losses());
    // Without the head of the response there is no way to follow.
    let (mut wire, first) = two_transactions();
    wire.packets.remove(first - 1);
    let (log, report) = recorded(&wire.pcap());
    assert_eq!((log.len(), report.not_followed), (0, 1));
    assert!(report.unfinished >= 1, "{report:?}");
    // Cut packets are as good as lost.
    let (mut wire, first) = two_transactions();
    wire.packets[first].truncate(100);
    let (log, report) = recorded(&wire.pcap());
    assert_eq!((log.len(), report.damaged, report.gaps), (1, 1, 1));
}

#[test]
fn a_capture_may_begin_and_end_at_any_time() {
    let mut wire = Wire::without_handshake(40_001);
    wire.say(true, &get("/late"));
    wire.say(false, &answer(b"x"));
    wire.say(true, &get("/never"));
    let (log, report) = recorded(&wire.pcap());
    assert_eq!((log.len(), report.unfinished), (1, 1));
    // The rest of a response whose request came before; the next request is followed.
    let mut wire = Wire::without_handshake(40_002);
    wire.say(false, b"the end of a long response\nHTTP/1.1");
    wire.say(true, &get("/next"));
    wire.say(false, &answer(b"hello"));
    wire.close();
    let (found, beginless) = recorded(&wire.pcap());
    assert_eq!((found.len(), found[0].response_bytes), (1, 5));
    assert_eq!((beginless.beginless, beginless.not_http), (1, 0));
    // Data behind the reset of its connection.
    let mut wire = Wire::new();
    wire.say(true, &get("/a"));
    wire.say(false, &answer(b"a"));
    wire.push(true, 2000, None, TcpFlags::RST, b"");
    wire.say(false, b"too late");
    let (found, late) = recorded(&wire.pcap());
    assert_eq!((found.len(), late.connections, late.beginless), (1, 1, 1));
    let mut wire = Wire::without_handshake(40_001);
    wire.say(true, &get("/late"));
    wire.say(false, &answer(b"x"));
    wire.say(true, &get("/never"));
    // The end of the file within a packet.
    let bytes = wire.pcap();
    let (log, report) = recorded(&bytes[..bytes.len() - 10]);
    assert_eq!((log.len(), report.file_is_cut), (1, true));
    // A response that ends with its connection.
    let mut wire = Wire::new();
    wire.say(true, &get("/old"));
    wire.say(false, b"HTTP/1.0 200 OK\r\n\r\nuntil the end");
    wire.close();
    let (log, _) = recorded(&wire.pcap());
    assert_eq!((log[0].response_bytes, log[0].keep_alive), (13, false));
}

#[test]
fn other_protocols_are_counted() {
    let mut wire = Wire::new();
    wire.say(true, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    wire.close();
    assert_eq!(recorded(&wire.pcap()).1.not_http, 1);
    let mut wire = Wire::new();
    wire.say(false, b"220 mail.example.org ESMTP\r\n");
    wire.close();
    assert_eq!(recorded(&wire.pcap()).1.not_http, 1);
    let mut wire = Wire::new();
    wire.say(true, &get("/socket"));
    wire.say(
        false,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello",
    );
    wire.say(true, b"\x81\x85....");
    wire.close();
    let report = recorded(&wire.pcap()).1;
    assert_eq!((report.other_protocol, report.not_understood), (1, 0));
    for nothing in [
        &b""[..],
        b"no capture at all, but some text that is long enough",
    ] {
        let error = Recorder::open(nothing, Digest::Sha1).unwrap_err();
        assert!(error.cause.contains("neither pcap nor pcapng"), "{error}");
    }
}

/// Reads whatever it is to its end.
fn read_all(bytes: &[u8]) {
    if let Ok(mut recorder) = Recorder::open(bytes, Digest::Blake3) {
        while let Ok(Some(transaction)) = recorder.next_transaction() {
            transaction.check().unwrap();
        }
    }
}

proptest! {
    #[test]
    fn broken_captures_end(at in 0usize..4000, byte in any::<u8>(), ng in any::<bool>()) {
        let (wire, _) = two_transactions();
        let mut bytes = if ng { wire.pcapng() } else { wire.pcap() };
        let at = at % bytes.len();
        bytes[at] = byte;
        read_all(&bytes);
    }

    #[test]
    fn streams_of_anything_end(pieces in proptest::collection::vec((any::<bool>(), any::<u16>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..30)) {
        let mut wire = Wire::new();
        wire.say(true, &get("/a"));
        for (client, seq, payload) in &pieces {
            wire.push(*client, 1000 + u32::from(*seq % 64), Some(1040), TcpFlags::PSH, payload);
        }
        wire.close();
        read_all(&wire.pcap());
    }
}
