//! `ethtool -L` while an interface is in use. Needs root; says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::collections::HashSet;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use io::Port;
use io::xdp::{AttachMode, XdpConfig, XdpPort};

use xdp_support::frames;
use xdp_support::{DEADLINE, Namespace, OURS, PEER, Pair, config, is_root, peer_socket};

/// Sets how many queues a veth end has each way. An error: there is no ethtool.
fn set_queues(namespace: &Namespace, name: &str, count: &str) -> std::io::Result<()> {
    let words = ["-L", name, "rx", count, "tx", count];
    let output = namespace.run(|| Command::new("ethtool").args(words).output())?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Has the peer send 64 datagrams from as many ports, over all of its queues, and receives them
/// all.
fn receive_all(pair: &Pair, ports: &mut [XdpPort]) {
    for number in 0..64_u16 {
        peer_socket(pair, PEER)
            .send_to(&number.to_ne_bytes(), (OURS, 2000))
            .unwrap();
    }
    let (mut seen, end) = (HashSet::new(), Instant::now() + DEADLINE);
    while seen.len() < 64 {
        assert!(Instant::now() < end, "{} of 64 datagrams came", seen.len());
        for port in &mut *ports {
            port.receive(|frames| {
                let datagrams = frames
                    .iter()
                    .filter_map(|frame| frames::parse_ipv4(frame.bytes));
                seen.extend(datagrams.map(|(_, datagram)| datagram[8..].to_vec()));
            });
            port.flush().unwrap();
        }
    }
}

#[test]
fn queues_that_come_later_are_received_from() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(4);
    // A veth end needs as many as its peer sends through.
    if set_queues(&pair.peer, "peer0", "2").is_err() {
        let _ = writeln!(std::io::stdout(), "\nskipped: no ethtool");
        return;
    }
    set_queues(&pair.ours, "xdp0", "2").unwrap();
    let native = XdpConfig {
        mode: AttachMode::Native,
        ..config()
    };
    let mut ports = pair.open(&native).unwrap().ports();
    pair.peer.ip(&format!(
        "neighbour replace {OURS} lladdr {} dev peer0",
        ports[0].mac()
    ));
    receive_all(&pair, &mut ports);
    set_queues(&pair.ours, "xdp0", "4").unwrap();
    set_queues(&pair.peer, "peer0", "4").unwrap();
    let later = wire::time::Instant::ZERO + Duration::from_secs(10);
    pair.ours
        .run(|| ports.iter_mut().for_each(|port| port.begin(later)));
    let numbers = |port: &XdpPort| port.queues().collect::<Vec<_>>();
    assert_eq!(
        ports.iter().map(numbers).collect::<Vec<_>>(),
        [vec![0, 2, 3], vec![1]]
    );
    receive_all(&pair, &mut ports);
}
