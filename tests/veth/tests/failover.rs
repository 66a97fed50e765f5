//! Neighbours as the kernel knows them (`follow_kernel`): a router that moves to another hardware
//! address is used there as soon as the kernel uses it there.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use interop::lab::{PEER, PEER6, PORT, listening};
use interop::{Family, Gate, Kind, Lab, Process, baseline, client, programs};

const SOON: Duration = Duration::from_secs(10);
/// How much later than the kernel's our answer may come.
const LATER: Duration = Duration::from_millis(100);
/// The kernel's server beside ours.
const KERNELS_PORT: u16 = 8080;
const KINDS: [Kind; 2] = [Kind::Afxdp, Kind::Packet];

/// Settings by which the stack goes by the kernel.
fn settings(lab: &Lab) -> PathBuf {
    let file = lab.files().join("follow.conf");
    std::fs::write(&file, "follow_kernel = yes\n").unwrap();
    file
}

fn serve(lab: &Lab) -> Process {
    let file = settings(lab);
    let gateways = format!("{PEER},{PEER6}");
    lab.serve(&[
        "--config",
        file.to_str().unwrap(),
        "--gateway",
        gateways.as_str(),
    ])
}

fn serve_beside(lab: &Lab) -> Process {
    let mut command = lab.ours().command(programs::mtcp());
    command.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
    let addresses = format!("{},{}", Family::V4.kernel(), Family::V6.kernel());
    command.args(["--addr", &addresses, "--port", &KERNELS_PORT.to_string()]);
    listening(command)
}

/// How long an exchange takes on a connection that stays open.
fn exchange(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    client::ask(stream, "/small").unwrap();
    assert_eq!(client::answer(stream).unwrap().body, b"small\n");
    start.elapsed()
}

/// What the kernel of our side knows of the router.
fn known(lab: &Lab, router: &str) -> String {
    lab.ours()
        .ip(&format!("neighbour show {router} dev ours0"))
        .to_lowercase()
}

fn moved(kind: Kind) {
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    for (family, setting) in [("ipv4", "arp_notify"), ("ipv6", "ndisc_notify")] {
        lab.peer()
            .set(&format!("net/{family}/conf/peer0/{setting}"), "1");
    }
    let (ours, beside) = (serve(&lab), serve_beside(&lab));
    let connect = |family: Family| {
        [
            SocketAddr::new(family.ours(), PORT),
            SocketAddr::new(family.kernel(), KERNELS_PORT),
        ]
        .map(|to| lab.peer().enter(|| client::open(to).unwrap()))
    };
    let mut connections = Family::BOTH.map(connect);
    for [ours, kernels] in &mut connections {
        exchange(ours);
        exchange(kernels);
    }
    for number in 0x50..0x54 {
        // It announces itself by gratuitous ARP and an unsolicited neighbour advertisement.
        let mac = format!("02:00:00:00:00:{number:02x}");
        lab.peer().ip(&format!("link set peer0 address {mac}"));
        for (family, [ours, kernels]) in Family::BOTH.iter().zip(&mut connections) {
            let (kernels, ours) = (exchange(kernels), exchange(ours));
            assert!(
                ours < kernels + LATER,
                "{kind}, {family:?}: {ours:?} after it moved, the kernel {kernels:?}"
            );
        }
        for router in [PEER.to_string(), PEER6.to_string()] {
            assert!(
                known(&lab, &router).contains(&mac),
                "{}",
                known(&lab, &router)
            );
        }
    }
    ours.stop();
    beside.stop();
}

#[test]
fn a_router_that_announces_another_hardware_address_is_used_there_at_once() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    KINDS.into_iter().for_each(moved);
}

/// The kernel is asked, and what the administrator says is how it is.
fn asked(kind: Kind) {
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let mac = "02:00:00:00:00:60";
    lab.peer().ip(&format!("link set peer0 address {mac}"));
    let server = serve(&lab);
    for (family, router) in Family::BOTH
        .into_iter()
        .zip([PEER.to_string(), PEER6.to_string()])
    {
        lab.ours().ip("neighbour flush dev ours0");
        let to = SocketAddr::new(family.ours(), PORT);
        let mut stream = lab.peer().enter(|| client::open(to).unwrap());
        exchange(&mut stream);
        assert!(known(&lab, &router).contains(mac), "{kind}");
        let set = |mac: &str| {
            lab.ours().ip(&format!(
                "neighbour replace {router} lladdr {mac} dev ours0 nud permanent"
            ));
        };
        set("02:00:00:00:00:99");
        stream.set_read_timeout(Some(LATER)).unwrap();
        client::ask(&mut stream, "/small").unwrap();
        client::answer(&mut stream).unwrap_err();
        stream.set_read_timeout(Some(SOON)).unwrap();
        set(mac);
        assert_eq!(client::answer(&mut stream).unwrap().body, b"small\n");
    }
    server.stop();
}

#[test]
fn neighbours_are_where_the_kernel_says() {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        return;
    }
    KINDS.into_iter().for_each(asked);
}
