//! Captures read back with the library they were not written with: pcap-file's reader, and tcpdump
//! where there is one.
#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use io::Port;
use io::any::AnyPort;
use io::pcap::{Pcap, PcapFile};
use io::sim::{self, SimConfig, SimPort};
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use wire::checksum::{pseudo_header, verify_transport};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{MacAddr, TxChecksum, TxMeta};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::time::Instant;

const PARTIAL: TxChecksum = TxChecksum::Partial {
    start: 34,
    offset: 16,
};

fn quiet() -> SimConfig {
    SimConfig {
        blocking: false,
        ..SimConfig::default()
    }
}

/// A SYN from port `source`, its checksum left to the link.
fn syn(source: u16) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = vec![0; 14 + 20 + 20];
    let ethernet = EthernetHeader {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        ether_type: EtherType::IPV4,
        vlan: None,
    };
    ethernet.emit(&mut frame);
    Ipv4Header::new(src, dst, Protocol::TCP, 20).emit(&mut frame[14..]);
    let segment = &mut frame[34..];
    segment[..2].copy_from_slice(&source.to_be_bytes());
    segment[2..4].copy_from_slice(&80u16.to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 2;
    let pseudo = pseudo_header(src.into(), dst.into(), Protocol::TCP, 20);
    segment[16..18].copy_from_slice(&pseudo.to_be_bytes());
    frame
}

fn send(port: &mut impl Port, frame: &[u8]) {
    assert!(port.send(|room| {
        room[..frame.len()].copy_from_slice(frame);
        TxMeta {
            len: frame.len(),
            checksum: PARTIAL,
            ..TxMeta::default()
        }
    }));
    port.flush().unwrap();
}

struct Read {
    names: Vec<String>,
    resolutions: Vec<u8>,
    packets: Vec<EnhancedPacketBlock<'static>>,
}

fn read(path: &Path) -> Read {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut all = Read {
        names: Vec::new(),
        resolutions: Vec::new(),
        packets: Vec::new(),
    };
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                for option in &interface.options {
                    match option {
                        InterfaceDescriptionOption::IfName(name) => {
                            all.names.push(name.to_string());
                        }
                        InterfaceDescriptionOption::IfTsResol(r) => all.resolutions.push(*r),
                        _ => {}
                    }
                }
            }
            Block::EnhancedPacket(packet) => all.packets.push(packet.into_owned()),
            _ => {}
        }
    }
    all
}

fn direction(packet: &EnhancedPacketBlock<'_>) -> u32 {
    packet
        .options
        .iter()
        .find_map(|option| match option {
            EnhancedPacketOption::Flags(flags) => Some(flags & 3),
            _ => None,
        })
        .unwrap()
}

#[test]
fn what_passes_is_in_the_file_as_a_wire_would_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcapng");
    let file = PcapFile::create(&path).unwrap();
    let (near, mut far) = sim::pair(quiet()).unwrap();
    let mut near = Pcap::new(near, &file, "sim0");
    near.begin(Instant::from_millis(5));
    send(&mut near, &syn(1111));
    near.begin(Instant::from_millis(7));
    send(&mut far, &syn(2222));
    // What is captured is what was received: unchanged, its checksum still unfinished.
    assert_eq!(
        near.receive(|frames| assert_eq!(frames[0].bytes, syn(2222))),
        1
    );
    near.wait(Some(Duration::ZERO), None).unwrap();

    let all = read(&path);
    assert_eq!(all.names, ["sim0"]);
    assert_eq!(all.resolutions, [9]);
    assert_eq!(all.packets.len(), 2);
    let (out, back) = (&all.packets[0], &all.packets[1]);
    assert_eq!((direction(out), direction(back)), (2, 1));
    assert_eq!(back.timestamp - out.timestamp, Duration::from_millis(2));
    let age = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH + out.timestamp)
        .unwrap_or_default();
    assert!(age < Duration::from_secs(3600), "{:?}", out.timestamp);
    for (packet, original) in [(out, syn(1111)), (back, syn(2222))] {
        assert_eq!(packet.original_len as usize, original.len());
        assert_eq!(packet.data[..50], original[..50]);
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert!(verify_transport(
            src,
            dst,
            Protocol::TCP,
            &packet.data[34..]
        ));
    }
}

#[test]
fn ports_share_a_file_as_interfaces_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcapng");
    let file = PcapFile::create(&path).unwrap();
    let mut ports: Vec<(AnyPort, SimPort)> = ["a", "b"]
        .iter()
        .map(|name| {
            let (near, far) = sim::pair(quiet()).unwrap();
            let spec = "tx:delay=1ms".parse().unwrap();
            (
                AnyPort::new(near, Some((&spec, 0)), Some((&file, name))),
                far,
            )
        })
        .collect();
    for (n, (port, _)) in ports.iter_mut().enumerate() {
        port.begin(Instant::from_millis(1));
        send(port, &syn(n as u16));
    }
    drop(ports);
    let all = read(&path);
    assert_eq!(all.names, ["a", "b"]);
    // Outermost: a frame that the bad network still holds has been seen.
    let interfaces: Vec<_> = all.packets.iter().map(|p| p.interface_id).collect();
    assert_eq!(interfaces, [0, 1]);
}

#[test]
fn tcpdump_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcapng");
    let file = PcapFile::create(&path).unwrap();
    let (near, _far) = sim::pair(quiet()).unwrap();
    let mut near = Pcap::new(near, &file, "sim0");
    near.begin(Instant::from_millis(5));
    send(&mut near, &syn(1111));
    drop(near);
    let output = match Command::new("tcpdump").args(["-nvr"]).arg(&path).output() {
        Ok(output) => output,
        Err(error) => {
            let _ = writeln!(
                std::io::stdout(),
                "\nskipped: tcpdump does not run here ({error})"
            ); // println! would be captured
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("10.0.0.1.1111 > 10.0.0.2.80"), "{text}");
    assert!(text.contains("(correct)"), "{text}");
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_traffic() {
    if !Path::new("/dev/full").exists() {
        let _ = writeln!(std::io::stdout(), "\nskipped: no /dev/full here"); // println! would be captured
        return;
    }
    let file = PcapFile::create("/dev/full").unwrap();
    let (near, mut far) = sim::pair(quiet()).unwrap();
    let mut near = Pcap::new(near, &file, "sim0");
    for n in 0..10_000u16 {
        send(&mut near, &syn(n));
        let mut got = 0;
        far.receive(|frames| got = frames.len());
        assert_eq!(got, 1);
    }
    near.wait(Some(Duration::ZERO), None).unwrap();
    assert!(!file.is_running());
}

#[test]
fn a_capture_is_for_this_user_and_follows_no_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.pcapng");
    PcapFile::create(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = directory.path().join("kept");
    std::fs::write(&kept, "kept").unwrap();
    let link = directory.path().join("link.pcapng");
    symlink(&kept, &link).unwrap();
    let error = PcapFile::create(&link).unwrap_err();
    assert!(error.to_string().contains("link.pcapng"), "{error}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
}

#[test]
fn a_capture_that_cannot_be_created_says_where() {
    let error = PcapFile::create("/nonexistent/x.pcapng").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/x.pcapng"));
}
