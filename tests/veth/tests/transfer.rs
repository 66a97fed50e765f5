//! Files up and down, in both roles, over both links and both protocols, on good and bad networks:
//! bytes equal, every time.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use interop::lab::url;
use interop::{Family, Gate, Kind, Lab, files, process, sized};

const MB: u64 = 1_000_000;
/// Longest that one transfer may take: at 5% loss a sender without selective acknowledgments waits
/// for timers much of the time.
const WITHIN: Duration = Duration::from_secs(150);
const FULL_WITHIN: Duration = Duration::from_secs(3600);

/// Who runs on mTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// As the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug)]
struct Transfer {
    role: Role,
    direction: Direction,
    family: Family,
    /// Bytes.
    length: u64,
    fault: Option<String>,
    mode: &'static str,
}

impl Transfer {
    fn run(&self, lab: &Lab) {
        let neighbours = self.fault.as_ref().map(|_| lab.acquaint());
        let mut words: Vec<&str> = Vec::new();
        for (option, value) in [
            ("--fault", self.fault.as_deref()),
            ("--neighbour", neighbours.as_deref()),
            ("--mode", Some(self.mode)),
        ] {
            words.extend(value.into_iter().flat_map(|value| [option, value]));
        }
        let name = self.name();
        let source = match self.direction {
            Direction::Up => lab.files().join(&name),
            Direction::Down => lab.www().join(&name),
        };
        let target = match self.direction {
            Direction::Up => lab.uploads().join(&name),
            Direction::Down => lab.files().join(&name),
        };
        files::make(&source, self.length, self.length);
        match self.role {
            Role::Server => self.with_curl(lab, &words, &source, &target),
            Role::Client => self.with_load(lab, &words, &source, &target),
        }
        if let Some(difference) = files::difference(&source, &target) {
            panic!("{self:?}: {difference}");
        }
    }

    fn with_curl(&self, lab: &Lab, words: &[&str], source: &Path, target: &Path) {
        let server = lab.serve(words);
        let url = url(self.family.ours(), &self.name());
        let file = match self.direction {
            Direction::Up => ["--upload-file", path(source)],
            Direction::Down => ["--output", path(target)],
        };
        lab.curl(&[file[0], file[1], &url], within()).must_succeed();
        server.stop();
    }

    fn with_load(&self, lab: &Lab, options: &[&str], source: &Path, target: &Path) {
        let server = lab.peer_serve(&[]);
        let (url, limit) = (
            url(self.family.peer(), &self.name()),
            within().as_secs().to_string(),
        );
        let mut words = vec![url.as_str(), "-n", "1", "--timeout", &limit];
        match self.direction {
            Direction::Up => words.extend(["--method", "PUT", "--body", path(source)]),
            Direction::Down => words.extend(["--output", path(target)]),
        }
        words.extend(options);
        let report = lab.load(&words, within());
        assert_eq!(report["succeeded"], 1, "{self:?}: {report}");
        server.stop();
    }

    fn name(&self) -> String {
        format!("{:?}-{:?}", self.direction, self.family)
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn within() -> Duration {
    sized(FULL_WITHIN, WITHIN)
}

/// Every role, direction, family and mode.
fn combinations(length: u64) -> Vec<Transfer> {
    let mut all = Vec::new();
    for role in [Role::Server, Role::Client] {
        for direction in [Direction::Up, Direction::Down] {
            for family in Family::BOTH {
                for mode in ["inline", "paired"] {
                    let fault = None;
                    all.push(Transfer {
                        role,
                        direction,
                        family,
                        length,
                        fault,
                        mode,
                    });
                }
            }
        }
    }
    all
}

/// One after the other.
fn clean(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(kind);
    for transfer in combinations(100 * MB) {
        transfer.run(&lab);
    }
}

/// All at once, each on a network of its own: they wait more than they work.
fn bad(kind: Kind, loss: &str, length: u64) {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    thread::scope(|scope| {
        for (seed, mut transfer) in combinations(length).into_iter().enumerate() {
            let fault = format!("loss={loss},reorder=1%,dup=1%,corrupt=1%,seed={seed}");
            transfer.fault = Some(fault);
            scope.spawn(move || transfer.run(&Lab::new(kind)));
        }
    });
}

#[test]
fn afxdp_without_faults() {
    clean(Kind::Afxdp);
}

/// Packets of 9000 bytes, in both directions, and with a peer that has short ones.
fn long_packets(queues: u32) {
    const MTU: u32 = 9000;
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    let lab = Lab::with(Kind::Afxdp, MTU, queues);
    let server = lab.serve(&[]);
    for (family, headers) in [(Family::V4, 40), (Family::V6, 60)] {
        // What the stack said that it takes, less the timestamps.
        let _stream = lab.peer().enter(|| {
            let address = SocketAddr::new(family.ours(), interop::lab::PORT);
            TcpStream::connect(address).unwrap()
        });
        let mut ss = lab.peer().command("ss");
        ss.args(["--tcp", "--info", "--no-header", "--numeric", "dst"]);
        ss.arg(SocketAddr::new(family.ours(), interop::lab::PORT).to_string());
        let said = process::finish(ss, within()).must_succeed().stdout;
        let mss = format!(" mss:{} ", MTU - headers - 12);
        assert!(said.contains(&mss), "{mss}: {said}");
    }
    server.stop();
    let each = |lab: &Lab| {
        for transfer in combinations(sized(100 * MB, 20 * MB)) {
            if transfer.mode == "inline" {
                transfer.run(lab);
            }
        }
    };
    each(&lab);
    lab.peer().ip("link set peer0 mtu 1500");
    each(&lab);
}

#[test]
fn afxdp_with_packets_of_9000_bytes() {
    long_packets(1);
}

#[test]
fn afxdp_with_packets_of_9000_bytes_and_two_queues() {
    long_packets(2);
}

#[test]
fn tap_without_faults() {
    clean(Kind::Tap);
}

#[test]
fn packet_without_faults() {
    clean(Kind::Packet);
}

#[test]
fn afxdp_with_reordering_duplication_corruption() {
    bad(Kind::Afxdp, "0%", sized(100 * MB, 40 * MB));
}

#[test]
fn tap_with_reordering_duplication_corruption() {
    bad(Kind::Tap, "0%", sized(100 * MB, 40 * MB));
}

#[test]
fn packet_with_reordering_duplication_corruption() {
    bad(Kind::Packet, "0%", sized(100 * MB, 40 * MB));
}

#[test]
fn afxdp_with_1_percent_loss_and_more() {
    bad(Kind::Afxdp, "1%", sized(100 * MB, 40 * MB));
}

#[test]
fn tap_with_1_percent_loss_and_more() {
    bad(Kind::Tap, "1%", sized(100 * MB, 40 * MB));
}

#[test]
fn packet_with_1_percent_loss_and_more() {
    bad(Kind::Packet, "1%", sized(100 * MB, 40 * MB));
}

#[test]
fn afxdp_with_5_percent_loss_and_more() {
    bad(Kind::Afxdp, "5%", sized(100 * MB, 10 * MB));
}

#[test]
fn tap_with_5_percent_loss_and_more() {
    bad(Kind::Tap, "5%", sized(100 * MB, 10 * MB));
}

#[test]
fn packet_with_5_percent_loss_and_more() {
    bad(Kind::Packet, "5%", sized(100 * MB, 10 * MB));
}

#[test]
fn afxdp_with_10_percent_loss_and_more() {
    bad(Kind::Afxdp, "10%", sized(20 * MB, 2 * MB));
}

#[test]
fn tap_with_10_percent_loss_and_more() {
    bad(Kind::Tap, "10%", sized(20 * MB, 2 * MB));
}

#[test]
fn packet_with_10_percent_loss_and_more() {
    bad(Kind::Packet, "10%", sized(20 * MB, 2 * MB));
}
