//! A network that changes under load: routes, MTU, carrier, neighbours, with a connection of the
//! kernel's beside ours (`follow_kernel`).

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use interop::lab::{PORT, listening};
use interop::process::wait_until;
use interop::{Family, Gate, Kind, Lab, Process, baseline, client, files, programs, sized};

const SOON: Duration = Duration::from_secs(30);
/// How much longer than the kernel's connection ours may stand still: retransmissions of the two
/// are not due at the same time.
const LONGER: Duration = Duration::from_secs(2);
const KERNELS_PORT: u16 = 8080;
/// Where the clients are: behind the peer.
const FAR: &str = "10.88.0.1";
/// A second router.
const OTHER: &str = "10.77.0.4";
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of what is fetched again and again.
const LENGTH: u64 = 20_000;

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A connection on which one request follows the other.
struct Load {
    done: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    /// Returns the longest time that an exchange took.
    client: JoinHandle<Duration>,
}

impl Load {
    fn start(mut stream: TcpStream) -> Self {
        let (done, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stop) = (Arc::clone(&done), Arc::clone(&over));
        let client = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                client::ask(&mut stream, "/file").unwrap();
                let answer = client::answer(&mut stream).unwrap();
                assert_eq!(answer.body.len() as u64, LENGTH);
                longest = longest.max(start.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
                // Others want to get on, too.
                thread::sleep(PAUSE);
            }
            longest
        });
        Self { done, over, client }
    }

    /// Waits until it got on since now.
    fn wait(&self, what: &str) {
        let before = self.done.load(Ordering::Relaxed);
        wait_until(what, SOON, || {
            self.done.load(Ordering::Relaxed) > before + 1
        });
    }

    fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.client.join().unwrap()
    }
}

fn serve(lab: &Lab) -> [Process; 2] {
    let file = lab.files().join("follow.conf");
    std::fs::write(&file, "follow_kernel = yes\n").unwrap();
    let ours = lab.serve(&["--config", file.to_str().unwrap()]);
    let mut command = lab.ours().command(programs::mtcp());
    command.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
    let address = Family::V4.kernel().to_string();
    command.args(["--addr", &address, "--port", &KERNELS_PORT.to_string()]);
    [ours, listening(command)]
}

/// Changes something, and leaves a network that works.
fn change(lab: &Lab, dice: &mut Dice) -> String {
    let (ours, peer) = (lab.ours(), lab.peer());
    let peer_address = Family::V4.peer();
    let route = |by: String| {
        ours.ip(&format!("route replace 10.88.0.0/24 {by}"));
        by
    };
    let what = match dice.roll(8) {
        0 => route(format!("via {peer_address}")),
        1 => route(format!("via {OTHER}")),
        2 => route(format!(
            "nexthop via {peer_address} nexthop via {OTHER} weight 2"
        )),
        3 => {
            ours.ip("route flush 10.88.0.0/24");
            "a route that went and came".to_owned()
        }
        4 => {
            let mtu = 1280 + dice.roll(221);
            ours.ip(&format!("link set ours0 mtu {mtu}"));
            format!("mtu {mtu}")
        }
        5 => {
            peer.ip("link set peer0 down");
            peer.ip("link set peer0 up");
            "carrier".to_owned()
        }
        6 => {
            ours.ip("neighbour flush dev ours0");
            "neighbours".to_owned()
        }
        _ => {
            let address = format!("10.77.0.{}/24", 100 + dice.roll(100));
            ours.ip(&format!("address add {address} dev ours0"));
            ours.ip(&format!("address del {address} dev ours0"));
            "an address that came and went".to_owned()
        }
    };
    if ours.ip("route show 10.88.0.0/24").is_empty() {
        route(format!("via {peer_address}"));
    }
    what
}

fn changes(kind: Kind) {
    let lab = Lab::new(kind);
    files::make(&lab.www().join("file"), 5, LENGTH);
    lab.peer().ip(&format!("address add {FAR}/32 dev lo"));
    lab.peer().ip(&format!("address add {OTHER}/24 dev peer0"));
    let servers = serve(&lab);
    // Nobody told it of a gateway: the kernel has this route from now on.
    lab.ours()
        .ip(&format!("route add 10.88.0.0/24 via {}", Family::V4.peer()));
    lab.peer()
        .ip(&format!("route replace 10.77.0.0/24 dev peer0 src {FAR}"));
    let connect = |address, port| {
        let to = SocketAddr::new(address, port);
        let stream = lab.peer().enter(|| client::open(to).unwrap());
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), FAR);
        Load::start(stream)
    };
    let ours = connect(Family::V4.ours(), PORT);
    let kernels = connect(Family::V4.kernel(), KERNELS_PORT);
    let mut dice = Dice(7);
    for number in 0..sized(1_000, 50) {
        let what = change(&lab, &mut dice);
        kernels.wait(&format!("{kind}: the kernel after {what} ({number})"));
        ours.wait(&format!("{kind}: ours after {what} ({number})"));
    }
    let (ours, kernels) = (ours.stop(), kernels.stop());
    assert!(
        ours < kernels + LONGER,
        "{kind}: stood still for {ours:?}, the kernel for {kernels:?}"
    );
    for server in servers {
        server.stop();
    }
}

fn test(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    if !baseline() {
        changes(kind);
    }
}

#[test]
fn connections_go_on_whatever_changes_in_the_network_on_afxdp() {
    test(Kind::Afxdp);
}

#[test]
fn connections_go_on_whatever_changes_in_the_network_on_packet() {
    test(Kind::Packet);
}
