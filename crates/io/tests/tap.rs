//! TAP against the real kernel. Each test has a network namespace of its own, which goes when its
//! thread ends, however it ends.
#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program
#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use io::Port;
use io::tap::{TapConfig, TapPort};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, socket_with,
};
use wire::checksum::{checksum, pseudo_header, verify};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{FrameSink, MacAddr, RxChecksum, TxChecksum, TxMeta};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `test` as root in a namespace of its own.
fn isolated(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        let reason = "only root may make network namespaces and TAP interfaces";
        let _ = writeln!(std::io::stdout(), "\nskipped: {reason}"); // println! would be captured
        return;
    }
    let run = move || {
        // SAFETY: changes only this thread's view of the network; nothing was opened in the old
        // one.
        let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
        test();
    };
    if let Err(panic) = thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Gives an interface of this namespace an address and its netmask.
fn set_address(name: &str, address: Ipv4Addr) {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap();
    let netmask = Ipv4Addr::new(255, 255, 255, 0);
    for (what, address) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, netmask),
    ] {
        let mut request = [0u8; size_of::<libc::ifreq>()];
        request[..name.len()].copy_from_slice(name.as_bytes());
        request[16..18].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        request[20..24].copy_from_slice(&address.octets());
        // SAFETY: the request is as long as a `struct ifreq` and the kernel only reads it.
        let rc = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, request.as_ptr()) };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
    }
}

fn open(name: &str) -> TapPort {
    let port = TapPort::open(&TapConfig::new(name)).unwrap().remove(0);
    set_address(name, KERNEL);
    port
}

/// A frame that arrived: its bytes, and whether its checksum is trusted.
type Arrived = (Vec<u8>, RxChecksum);

fn receive(port: &mut TapPort) -> Vec<Arrived> {
    let mut got = Vec::new();
    port.receive(|frames| {
        got.extend(frames.iter().map(|f| (f.bytes.to_vec(), f.meta.checksum)));
    });
    got
}

fn send(port: &mut TapPort, frame: &[u8], checksum: TxChecksum) {
    assert!(port.send(|room| {
        room[..frame.len()].copy_from_slice(frame);
        TxMeta {
            len: frame.len(),
            checksum,
            ..TxMeta::default()
        }
    }));
}

/// Turns: answers ARP, gives what else arrives to `each`, until that says that all is done.
fn drive(port: &mut TapPort, mut each: impl FnMut(&mut TapPort, Option<&Arrived>) -> bool) {
    let start = Instant::now();
    loop {
        for frame in receive(port) {
            if !answer_arp(port, &frame.0) && each(port, Some(&frame)) {
                return;
            }
        }
        port.flush().unwrap();
        if each(port, None) {
            return;
        }
        port.wait(Some(Duration::from_millis(10)), None).unwrap();
        assert!(start.elapsed() < DEADLINE, "the kernel did not do its part");
    }
}

fn ethernet(to: MacAddr, from: MacAddr, ether_type: EtherType) -> Vec<u8> {
    let mut frame = vec![0; EthernetHeader::LEN];
    let header = EthernetHeader {
        dst: to,
        src: from,
        ether_type,
        vlan: None,
    };
    header.emit(&mut frame);
    frame
}

/// RFC 826: answers a request for our address.
fn answer_arp(port: &mut TapPort, frame: &[u8]) -> bool {
    let Ok((header, arp)) = EthernetHeader::parse(frame) else {
        return false;
    };
    if header.ether_type != EtherType::ARP || arp.len() < 28 {
        return false;
    }
    if arp[6..8] != [0, 1] || arp[24..28] != OURS.octets() {
        return true;
    }
    let mut reply = ethernet(header.src, port.mac(), EtherType::ARP);
    reply.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend_from_slice(&port.mac().0);
    reply.extend_from_slice(&OURS.octets());
    reply.extend_from_slice(&arp[8..18]);
    send(port, &reply, TxChecksum::Complete);
    true
}

/// An IPv4 frame to the kernel.
fn to_kernel(port: &TapPort, kernel: MacAddr, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(kernel, port.mac(), EtherType::IPV4);
    let mut ip = [0; Ipv4Header::LEN];
    Ipv4Header::new(OURS, KERNEL, protocol, payload.len()).emit(&mut ip);
    frame.extend_from_slice(&ip);
    frame.extend_from_slice(payload);
    frame
}

/// A frame's IPv4 payload if it is of this protocol and for us.
fn for_us(frame: &[u8], protocol: Protocol) -> Option<(MacAddr, &[u8])> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    if ethernet.ether_type != EtherType::IPV4 {
        return None;
    }
    let (ip, payload) = Ipv4Header::parse(packet).ok()?;
    (ip.dst == OURS && ip.protocol == protocol).then_some((ethernet.src, payload))
}

/// RFC 792: an echo request and its reply differ in type and checksum.
fn echo(kind: u8, sequence: u8) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0x12, 0x34, 0, sequence];
    message.extend_from_slice(b"what goes around comes around");
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

#[test]
fn the_kernel_pings_us() {
    isolated(|| {
        let mut port = open("mtcp-ping");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        let ping = socket_with(AddressFamily::INET, kind, flags, Some(ipproto::ICMP)).unwrap();
        let to = SocketAddrV4::new(OURS, 0);
        let (mut sent, mut answered) = (0, 0);
        drive(&mut port, |port, frame| {
            if sent == answered && sent < 10 {
                rustix::net::sendto(&ping, &echo(8, sent), SendFlags::empty(), &to).unwrap();
                sent += 1;
            }
            if let Some((frame, _)) = frame
                && let Some((kernel, request)) = for_us(frame, Protocol::ICMP)
                && request[0] == 8
            {
                assert!(verify(request));
                assert_ne!(kernel, port.mac());
                let reply = to_kernel(port, kernel, Protocol::ICMP, &echo(0, request[7]));
                send(port, &reply, TxChecksum::Complete);
            }
            let mut reply = [0u8; 256];
            if let Ok((n, _)) = rustix::net::recv(&ping, &mut reply, RecvFlags::DONTWAIT) {
                assert_eq!(reply[20..n], echo(0, answered));
                answered += 1;
            }
            answered == 10
        });
        assert_eq!(port.losses(), (0, 0));
    });
}

fn connecting_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    let result = rustix::net::connect(&socket, &SocketAddrV4::new(OURS, 80));
    assert_eq!(result, Err(Errno::INPROGRESS));
    socket
}

/// The SYN-ACK to a SYN, its checksum left to the kernel.
fn syn_ack(syn: &[u8]) -> Vec<u8> {
    let sequence = u32::from_be_bytes(syn[4..8].try_into().unwrap());
    let mut segment = vec![0; 20];
    segment[..2].copy_from_slice(&syn[2..4]);
    segment[2..4].copy_from_slice(&syn[..2]);
    segment[4..8].copy_from_slice(&[9, 9, 9, 9]);
    segment[8..12].copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 0x12;
    segment[14..16].copy_from_slice(&[0xff, 0xff]);
    let sum = pseudo_header(OURS.into(), KERNEL.into(), Protocol::TCP, 20);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

#[test]
fn checksums_are_left_undone_in_both_directions() {
    isolated(|| {
        let mut port = open("mtcp-tcp");
        let socket = connecting_socket();
        let mut acknowledged = false;
        drive(&mut port, |port, frame| {
            let Some((frame, trust)) = frame else {
                return false;
            };
            let Some((kernel, segment)) = for_us(frame, Protocol::TCP) else {
                return false;
            };
            assert_eq!(*trust, RxChecksum::Trusted);
            let len = segment.len() as u32;
            let pseudo = pseudo_header(KERNEL.into(), OURS.into(), Protocol::TCP, len);
            assert_eq!(segment[16..18], pseudo.to_be_bytes());
            if segment[13] & 0x02 != 0 {
                let reply = to_kernel(port, kernel, Protocol::TCP, &syn_ack(segment));
                let partial = TxChecksum::Partial {
                    start: 34,
                    offset: 16,
                };
                send(port, &reply, partial);
            } else {
                // The kernel liked our SYN-ACK, so its checksum was right.
                acknowledged = segment[13] & 0x10 != 0 && segment[8..12] == [9, 9, 9, 10];
            }
            acknowledged
        });
        assert_eq!(rustix::net::sockopt::socket_error(&socket).unwrap(), Ok(()));
    });
}

#[test]
fn a_wrong_complete_checksum_is_noticed_by_the_kernel() {
    isolated(|| {
        let mut port = open("mtcp-bad");
        let _socket = connecting_socket();
        let (mut answers, mut syns) = (0, 0);
        drive(&mut port, |port, frame| {
            let Some((frame, _)) = frame else {
                return false;
            };
            let Some((kernel, segment)) = for_us(frame, Protocol::TCP) else {
                return false;
            };
            assert!(segment[13] & 0x02 != 0, "the kernel took it");
            syns += 1;
            if answers == 0 {
                answers += 1;
                let reply = to_kernel(port, kernel, Protocol::TCP, &syn_ack(segment));
                send(port, &reply, TxChecksum::Complete);
            }
            // The SYN comes again: the answer to the first one did not count.
            syns == 2
        });
    });
}

#[test]
fn what_the_port_says_of_itself_is_true() {
    isolated(|| {
        let port = open("mtcp-self");
        assert_eq!(port.name(), "mtcp-self");
        assert_eq!(port.capabilities().mtu, 1500);
        assert!(port.capabilities().tx_checksum);
        assert!(port.capabilities().tx_gso >= 60_000);
        let mac = MacAddr([2, 1, 2, 3, 4, 5]);
        let config = TapConfig {
            mac: Some(mac),
            ..TapConfig::new("mtcp%d")
        };
        let numbered = TapPort::open(&config).unwrap().remove(0);
        assert_eq!(numbered.name(), "mtcp0");
        assert_eq!(numbered.mac(), mac);
    });
}

#[test]
fn several_queues_receive_what_the_kernel_sends() {
    isolated(|| {
        let config = TapConfig {
            queues: 2,
            ..TapConfig::new("mtcp-mq")
        };
        let mut ports = TapPort::open(&config).unwrap();
        set_address("mtcp-mq", KERNEL);
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[0].mac(), ports[1].mac());
        let _socket = connecting_socket();
        let start = Instant::now();
        let mut asked = false;
        while !asked {
            for port in &mut ports {
                port.wait(Some(Duration::from_millis(5)), None).unwrap();
                asked |= receive(port)
                    .iter()
                    .any(|(frame, _)| frame[12..14] == [8, 6] && frame[38..42] == OURS.octets());
            }
            assert!(start.elapsed() < DEADLINE);
        }
    });
}

#[test]
fn mistakes_come_with_a_remedy() {
    isolated(|| {
        let _holder = open("mtcp-busy");
        let busy = TapPort::open(&TapConfig::new("mtcp-busy")).unwrap_err();
        assert!(busy.to_string().contains("another program"), "{busy}");
        let foreign = TapPort::open(&TapConfig::new("lo")).unwrap_err();
        assert!(foreign.to_string().contains("no TAP"), "{foreign}");
        let long = TapPort::open(&TapConfig::new("a-name-that-is-too-long")).unwrap_err();
        assert!(long.to_string().contains("15 bytes"), "{long}");
    });
}

#[test]
fn a_removed_interface_is_an_error() {
    isolated(|| {
        let mut port = open("mtcp-gone");
        port.flush().unwrap();
        let deleted = Command::new("ip")
            .args(["link", "del", "mtcp-gone"])
            .status();
        assert!(deleted.unwrap().success());
        let start = Instant::now();
        let error = loop {
            match port.wait(Some(DEADLINE), None) {
                Ok(()) => {
                    receive(&mut port);
                    assert!(start.elapsed() < DEADLINE);
                }
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("mtcp-gone"), "{error}");
        assert!(port.flush().is_err());
    });
}

#[test]
fn a_wake_descriptor_ends_a_sleep() {
    isolated(|| {
        let mut port = open("mtcp-wake");
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        let wake = rustix::event::eventfd(1, flags).unwrap();
        let start = Instant::now();
        port.wait(Some(DEADLINE), Some(wake.as_fd())).unwrap();
        assert!(start.elapsed() < DEADLINE / 2);
    });
}
