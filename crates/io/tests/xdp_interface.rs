//! Opening, sharing, overloading and losing an interface. Needs root; says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use io::Port;
use io::netlink::{self, XdpAttachment, ethtool};
use io::xdp::{AttachMode, XdpConfig, XdpInterface, XdpPort, XdpPrepared, ZeroCopy};
use wire::frame::{FrameSink, TxMeta};
use wire::ip::Protocol;

use xdp_support::frames::{self, carries, udp_to_us};
use xdp_support::{
    DEADLINE, KERNEL, KERNEL6, MODES, OURS, PEER, Pair, config, has_traffic_control, is_root,
    peer_socket,
};

/// The default configuration, but by XDP where a veth pair has better.
fn native() -> XdpConfig {
    XdpConfig {
        mode: AttachMode::Native,
        ..config()
    }
}

/// Receives on all `ports` until each of `count` datagrams has come; says how many came from which
/// queue's port.
fn collect(ports: &mut [XdpPort], count: usize) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut per_port = vec![0; ports.len()];
    let end = Instant::now() + DEADLINE;
    while seen.contains(&false) {
        assert!(
            Instant::now() < end,
            "{per_port:?} of {count} datagrams came"
        );
        for (port, came) in ports.iter_mut().zip(&mut per_port) {
            port.receive(|frames| {
                for (_, datagram) in frames
                    .iter()
                    .filter_map(|frame| frames::parse_ipv4(frame.bytes))
                {
                    let number: [u8; 2] = datagram[8..].try_into().unwrap();
                    seen[usize::from(u16::from_ne_bytes(number))] = true;
                    *came += 1;
                }
            });
            port.flush().unwrap();
        }
    }
    per_port
}

/// Opens an interface of two queues with `count` ports and has the peer send over both.
fn two_queues(count: Option<u16>) -> (Vec<XdpPort>, Vec<usize>) {
    let pair = Pair::new(2);
    assert_eq!(pair.ours.run(|| ethtool::queues("xdp0").unwrap().rx), 2);
    let mut ports = pair
        .open(&XdpConfig {
            ports: count,
            ..config()
        })
        .unwrap()
        .ports();
    pair.peer.ip(&format!(
        "neighbour replace {OURS} lladdr {} dev peer0",
        ports[0].mac()
    ));
    // The peer picks a queue by flow: with 64 flows both are used but for one chance in 2^63.
    for number in 0..64_u16 {
        peer_socket(&pair, PEER)
            .send_to(&number.to_ne_bytes(), (OURS, 2000))
            .unwrap();
    }
    let per_port = collect(&mut ports, 64);
    (ports, per_port)
}

#[test]
fn each_queue_has_its_port() {
    if !is_root() {
        return;
    }
    let (ports, per_port) = two_queues(None);
    assert_eq!(
        ports
            .iter()
            .map(|port| port.queues().collect::<Vec<_>>())
            .collect::<Vec<_>>(),
        [[0], [1]]
    );
    assert_eq!(ports[0].capabilities().queues, 2);
    assert_eq!(per_port.iter().sum::<usize>(), 64);
    assert!(per_port.iter().all(|came| *came > 0), "{per_port:?}");
}

#[test]
fn one_port_serves_two_queues() {
    if !is_root() {
        return;
    }
    let (ports, per_port) = two_queues(Some(1));
    assert_eq!(ports[0].queues().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(ports[0].capabilities().queues, 1);
    assert_eq!(per_port, [64]);
}

#[test]
fn more_ports_than_queues_are_refused() {
    if !is_root() {
        return;
    }
    let error = Pair::new(1)
        .open(&XdpConfig {
            ports: Some(2),
            ..config()
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(text.contains("its device has no more"), "{text}");
}

#[test]
fn errors_say_what_to_do() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let fails = |config: &XdpConfig, words: &str| {
        let error = pair.open(config).map(drop).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    fails(
        &XdpConfig {
            interface: "nothere0".into(),
            ..config()
        },
        "interface nothere0 does not exist",
    );
    fails(
        &XdpConfig {
            interface: "lo".into(),
            ..config()
        },
        "loopback",
    );
    fails(
        &XdpConfig {
            zero_copy: ZeroCopy::ZeroCopy,
            ..config()
        },
        "use copy mode",
    );
    let open = pair.open(&config()).unwrap();
    fails(&config(), "end its owner");
    fails(&native(), "end its owner");
    drop(open);
    let open = pair.open(&native()).unwrap();
    fails(&config(), "ip link set dev xdp0 xdp off");
    drop(open);
    drop(pair.open(&config()).unwrap());
    pair.ours.ip("link set xdp0 mtu 9000");
    // What does not fit into a frame is for no packet of ours.
    drop(pair.open(&config()).unwrap());
    pair.ours.ip("link set xdp0 mtu 1500 down");
    fails(&config(), "ip link set xdp0 up");
}

#[test]
fn an_unprivileged_process_is_told_what_it_lacks() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let error = pair.ours.run(|| {
        drop_capabilities();
        io::xdp::XdpInterface::open(&config())
            .map(drop)
            .unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("CAP_BPF"), "{error}");
}

/// Gives up all capabilities of the calling thread.
fn drop_capabilities() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
    .unwrap();
}

#[test]
fn an_address_that_the_kernel_owns_too_is_reported() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let addresses = [IpAddr::from(OURS), KERNEL.into(), KERNEL6.into()];
    let interface = pair.open(&XdpConfig::new("xdp0", addresses)).unwrap();
    assert_eq!(
        interface.conflicts(),
        [IpAddr::from(KERNEL), KERNEL6.into()]
    );
    let by = match has_traffic_control() {
        true => "traffic control, copy",
        false => "native XDP, copy",
    };
    assert_eq!(interface.mode().to_string(), by);
    assert!(interface.link().is_veth());
}

#[test]
fn a_removed_interface_ends_wait_and_flush() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        pair.peer.ip("link delete peer0");
        let end = Instant::now() + DEADLINE;
        let error = loop {
            match station.port.wait(None, None) {
                Ok(()) => assert!(Instant::now() < end, "nothing noticed"),
                Err(error) => break error,
            }
        };
        assert!(
            error.to_string().contains("interface xdp0 was removed"),
            "{error}"
        );
        assert!(station.port.wait(None, None).is_err());
        assert!(station.port.send(|_| TxMeta {
            len: 60,
            ..TxMeta::default()
        }));
        assert!(station.port.flush().is_err());
    }
}

#[test]
fn overflow_is_counted_and_loses_no_frame_for_good() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut station = pair.station_with(&XdpConfig {
        frames: Some(128),
        ..native()
    });
    let raw = pair.raw();
    let flood = udp_to_us(station.peer_mac, station.port.mac(), b"flood");
    let mut total = 0;
    for round in 1..=3 {
        for _ in 0..200 {
            raw.send(&flood);
        }
        let end = Instant::now() + DEADLINE;
        let before = total;
        while total + station.port.losses().0 < 200 * round {
            assert!(
                Instant::now() < end,
                "{total} came, {:?} lost",
                station.port.losses()
            );
            total += station.poll() as u64;
            station
                .port
                .wait(Some(Duration::from_millis(10)), None)
                .unwrap();
        }
        assert!(
            total - before >= 64,
            "the ring holds 64 frames, {} came",
            total - before
        );
    }
    let losses = station.port.losses();
    assert!(losses.0 > 0 && losses.1 == 0, "{losses:?}");
}

#[test]
fn many_frames_go_out_and_come_back_whole() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_with(&XdpConfig {
            frames: Some(256),
            mode,
            ..config()
        });
        let (ours, peer) = (station.port.mac(), station.peer_mac);
        station.send(&frames::arp_request(ours));
        station.expect("ARP reply", frames::is_arp_reply);
        // The kernel echoes each ping: what comes back is what went out, in order.
        let (mut sent, mut came) = (0_u32, 0_u32);
        let end = Instant::now() + DEADLINE;
        while came < 20_000 {
            assert!(Instant::now() < end, "{sent} sent, {came} came back");
            while sent < came + 100 && sent < 20_000 {
                let ping = frames::echo_request(ours, peer, &sent.to_ne_bytes());
                let fill = |room: &mut [u8]| {
                    room[..ping.len()].copy_from_slice(&ping);
                    TxMeta {
                        len: ping.len(),
                        ..TxMeta::default()
                    }
                };
                if !station.port.send(fill) {
                    break;
                }
                sent += 1;
            }
            station.port.flush().unwrap();
            station.poll();
            for echo in station.arrived.drain(..) {
                if carries(&echo.bytes, Protocol::ICMP, &came.to_ne_bytes()) {
                    came += 1;
                }
            }
            station
                .port
                .wait(Some(Duration::from_millis(1)), None)
                .unwrap();
        }
        assert_eq!(station.port.losses(), (0, 0));
    }
}

#[test]
fn wait_ends_when_the_caller_is_woken_and_at_once_when_frames_wait() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        use std::os::fd::AsFd;
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        let wake = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let before = Instant::now();
        station
            .port
            .wait(Some(Duration::from_secs(60)), Some(wake.as_fd()))
            .unwrap();
        pair.raw()
            .send(&udp_to_us(station.peer_mac, station.port.mac(), b"waiting"));
        while station.poll() == 0 {
            station
                .port
                .wait(Some(Duration::from_secs(60)), None)
                .unwrap();
        }
        assert!(before.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_queue_that_another_program_is_giving_back_is_waited_for() {
    if !is_root() || !has_traffic_control() {
        return;
    }
    // Traffic control takes the programs of both.
    let pair = Pair::new(1);
    let before = pair.ours.run(|| XdpInterface::open(&config())).unwrap();
    let mut next = pair.ours.run(|| XdpPrepared::new(&config())).unwrap();
    let opens = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            opens.wait();
            thread::sleep(Duration::from_millis(100)); // its first attempts come sooner
            drop(before);
        });
        let opened = pair.ours.run(|| {
            opens.wait();
            next.open()
        });
        assert_eq!(opened.unwrap().ports().len(), 1);
    });
}

#[test]
fn a_queue_that_another_program_keeps_is_refused_after_a_second() {
    if !is_root() || !has_traffic_control() {
        return;
    }
    let pair = Pair::new(1);
    let _holder = pair.ours.run(|| XdpInterface::open(&config())).unwrap();
    let mut next = pair.ours.run(|| XdpPrepared::new(&config())).unwrap();
    let start = Instant::now();
    let refused = pair.ours.run(|| next.open()).unwrap_err();
    assert!(start.elapsed() > Duration::from_millis(900));
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    let said = refused.to_string();
    assert!(
        said.contains("another AF_XDP socket is bound to the queue: end its owner"),
        "{said}"
    );
}

#[test]
fn the_program_goes_with_a_killed_process() {
    if !is_root() {
        return;
    }
    kill_the_holder("native", || {
        usize::from(netlink::link("xdp0").unwrap().xdp == XdpAttachment::Native)
    });
    if has_traffic_control() {
        kill_the_holder("auto", || {
            let ingress = TcAttachType::Ingress;
            SchedClassifier::query_tcx("xdp0", ingress).unwrap().1.len()
        });
    }
}

/// Has another process open our end in this mode, and kills it. `attached` counts the programs on
/// it.
fn kill_the_holder(mode: &str, attached: impl Fn() -> usize + Sync) {
    let pair = Pair::new(1);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_holds_the_interface",
            "--ignored",
            "--nocapture",
        ])
        .env("XDP_TEST_NAMESPACE", pair.ours.path())
        .env("XDP_TEST_MODE", mode)
        .spawn()
        .unwrap();
    let become_attached = |expected, limit: Duration| {
        let end = Instant::now() + limit;
        while pair.ours.run(&attached) != expected {
            assert!(Instant::now() < end, "{expected:?} expected");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    become_attached(1, DEADLINE);
    child.kill().unwrap();
    child.wait().unwrap();
    become_attached(0, Duration::from_secs(1));
}

/// The process that the test above kills.
#[test]
#[ignore = "started by the_program_goes_with_a_killed_process"]
fn child_holds_the_interface() {
    let namespace = std::fs::File::open(std::env::var("XDP_TEST_NAMESPACE").unwrap()).unwrap();
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&namespace),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
    .unwrap();
    let config = match std::env::var("XDP_TEST_MODE").unwrap().as_str() {
        "native" => native(),
        _ => config(),
    };
    let _interface = io::xdp::XdpInterface::open(&config).unwrap();
    std::thread::sleep(3 * DEADLINE);
}
