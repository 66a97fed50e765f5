//! A router between us and a host behind a narrow link: only its messages tell us to send less at a
//! time (RFC 1191, RFC 8201).

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::Path;
use std::time::Duration;

use interop::lab::{PEER, PEER6, listening};
use interop::process::{self, Finished};
use interop::{Family, Gate, Kind, Lab, Namespace, baseline, files, programs};

const WITHIN: Duration = Duration::from_secs(20);
const LENGTH: u64 = 5_000_000;

/// The host behind the router, which is the peer.
struct Far(Namespace);

impl Far {
    fn behind(lab: &Lab) -> Self {
        let far = Namespace::new();
        let router = lab.peer();
        router.set("net/ipv4/ip_forward", "1");
        router.set("net/ipv6/conf/all/forwarding", "1");
        router.ip(&format!(
            "link add narrow0 mtu 1280 type veth peer name far0 mtu 1500 netns {}",
            far.name()
        ));
        router.ip("address add 10.88.0.254/24 dev narrow0");
        router.ip("address add fd88::254/64 dev narrow0 nodad");
        router.ip("link set narrow0 up");
        far.ip("address add 10.88.0.1/24 dev far0");
        far.ip("address add fd88::1/64 dev far0 nodad");
        far.ip("link set far0 up");
        // It knows that the link is narrow, and does not say so.
        far.ip("route add default via 10.88.0.254 mtu 1280 advmss 1460");
        far.ip("-6 route add default via fd88::254 mtu 1280 advmss 1440");
        Self(far)
    }

    fn curl(&self, words: &[&str]) -> Finished {
        let mut command = self.0.command("curl");
        command.args(["--silent", "--show-error", "--fail", "--globoff"]);
        command.args(words);
        process::finish(command, WITHIN).must_succeed()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn narrow(kind: Kind) {
    let Some(_gate) = Gate::alone() else { return };
    if baseline() {
        interop::skipped("the kernel in the place of mTCP has no gateway");
        return;
    }
    let lab = Lab::new(kind);
    let far = Far::behind(&lab);
    let source = lab.www().join("file");
    files::make(&source, 4, LENGTH);
    let gateway = format!("{PEER},{PEER6}");
    let target = lab.files().join("target");
    let server = lab.serve(&["--gateway", &gateway]);
    for family in Family::BOTH {
        let url = interop::lab::url(family.ours(), "file");
        far.curl(&["--output", text(&target), &url]);
        assert_eq!(files::difference(&source, &target), None);
        let to = interop::lab::url(family.ours(), "sent");
        far.curl(&["--upload-file", text(&source), &to]);
        assert_eq!(
            files::difference(&source, &lab.uploads().join("sent")),
            None
        );
    }
    server.stop();
    let mut server = far.0.command(programs::mtcp());
    server.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
    server.arg("--upload").arg(lab.uploads());
    let server = listening(server);
    for host in ["10.88.0.1", "[fd88::1]"] {
        let to = format!("http://{host}/put");
        let words = [&to, "-n", "1", "--method", "PUT", "--body", text(&source)];
        let report = lab.load(&[&words[..], &["--gateway", &gateway]].concat(), WITHIN);
        assert_eq!(report["succeeded"], 1, "{report}");
        assert_eq!(files::difference(&source, &lab.uploads().join("put")), None);
    }
    server.stop();
}

#[test]
fn a_narrow_link_behind_a_router_on_afxdp() {
    narrow(Kind::Afxdp);
}

#[test]
fn a_narrow_link_behind_a_router_on_tap() {
    narrow(Kind::Tap);
}

#[test]
fn a_narrow_link_behind_a_router_on_packet() {
    narrow(Kind::Packet);
}
