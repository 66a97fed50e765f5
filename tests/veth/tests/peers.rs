//! Peers and networks that are not the usual: options refused, large and small frames, small
//! segments.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::Path;
use std::time::Duration;

use interop::lab::url;
use interop::{Family, Gate, Kind, Lab, baseline, files, sized};

/// Without selective acknowledgments a kernel waits for timers much of the time.
const WITHIN: Duration = Duration::from_secs(100);
const FULL_WITHIN: Duration = Duration::from_secs(1200);

fn within() -> Duration {
    sized(FULL_WITHIN, WITHIN)
}

/// A file down and up with curl, then down and up with `mtcp load`.
fn exchange(lab: &Lab, family: Family, length: u64, words: &[&str]) {
    let source = lab.www().join("file");
    files::make(&source, length, length);
    let server = lab.serve(words);
    let target = lab.files().join("target");
    let sent = lab.uploads().join("sent");
    let file = url(family.ours(), "file");
    lab.curl(&["--output", text(&target), &file], within())
        .must_succeed();
    same(&source, &target);
    lab.curl(
        &["--upload-file", text(&source), &url(family.ours(), "sent")],
        within(),
    )
    .must_succeed();
    same(&source, &sent);
    server.stop();
    std::fs::remove_file(&sent).unwrap();

    let server = lab.peer_serve(&[]);
    let file = url(family.peer(), "file");
    let limit = within().as_secs().to_string();
    let once = ["-n", "1", "--timeout", &limit];
    let get = [
        &[file.as_str(), "--output", text(&target)],
        &once[..],
        words,
    ]
    .concat();
    lab.load(&get, within());
    same(&source, &target);
    let to = url(family.peer(), "sent");
    let put = [
        &[to.as_str(), "--method", "PUT", "--body", text(&source)],
        &once[..],
        words,
    ]
    .concat();
    lab.load(&put, within());
    same(&source, &sent);
    server.stop();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn same(source: &Path, target: &Path) {
    if let Some(difference) = files::difference(source, target) {
        panic!("{}: {difference}", target.display());
    }
}

/// Mean length of the frames that the peer got so far, bytes.
fn mean_frame(lab: &Lab) -> u64 {
    let interface = lab.peer_interface();
    let count = |name: &str| -> u64 {
        let file = format!("/sys/class/net/{interface}/statistics/rx_{name}");
        lab.peer().run("cat", &file).trim().parse().unwrap()
    };
    count("bytes") / count("packets").max(1)
}

/// `fault` says what is done to the frames, and how many bytes a full and a reduced run move over
/// IPv4 then.
fn without(settings: &[&str], fault: Option<(&str, [u64; 2])>) {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = Lab::new(kind);
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            lab.peer().set(&format!("net/ipv4/{key}"), value);
        }
        let neighbours = lab.acquaint();
        let mut words = vec!["--neighbour", &neighbours];
        words.extend(fault.iter().flat_map(|(fault, _)| ["--fault", fault]));
        let [full, reduced] = fault.map_or([100_000_000, 8_000_000], |(_, lengths)| lengths);
        let length = sized(full, reduced);
        exchange(&lab, Family::V4, length, &words);
        exchange(&lab, Family::V6, length / 4, &words);
    }
}

#[test]
fn a_peer_without_timestamps() {
    without(&["tcp_timestamps=0"], None);
}

#[test]
fn a_peer_without_window_scaling() {
    without(&["tcp_window_scaling=0"], None);
}

#[test]
fn a_peer_without_sack() {
    without(&["tcp_sack=0"], None);
}

#[test]
fn a_peer_without_any_option() {
    without(
        &["tcp_timestamps=0", "tcp_window_scaling=0", "tcp_sack=0"],
        None,
    );
}

#[test]
fn a_peer_without_any_option_on_a_bad_network() {
    let settings = ["tcp_timestamps=0", "tcp_window_scaling=0", "tcp_sack=0"];
    without(
        &settings,
        Some((
            "loss=1%,reorder=1%,dup=1%,corrupt=1%,seed=3",
            [100_000_000, 2_000_000],
        )),
    );
}

/// A kernel without selective acknowledgments waits for timers nearly all the time then: some 7
/// kB/s.
const LOSSY: (&str, [u64; 2]) = ("loss=10%,seed=4", [1_500_000, 150_000]);

#[test]
fn a_peer_without_any_option_at_10_percent_loss() {
    let settings = ["tcp_timestamps=0", "tcp_window_scaling=0", "tcp_sack=0"];
    without(&settings, Some(LOSSY));
}

#[test]
fn a_peer_that_offers_ecn_at_10_percent_loss() {
    without(&["tcp_ecn=1"], Some(LOSSY));
}

#[test]
fn a_peer_with_tiny_buffers_at_10_percent_loss() {
    let buffers = ["tcp_rmem=4096 4096 8192", "tcp_wmem=4096 4096 8192"];
    without(&buffers, Some(LOSSY));
}

#[test]
fn a_peer_that_offers_ecn() {
    without(&["tcp_ecn=1"], None);
}

#[test]
fn a_peer_with_tiny_buffers() {
    without(
        &["tcp_rmem=4096 4096 8192", "tcp_wmem=4096 4096 8192"],
        None,
    );
}

#[test]
fn a_peer_that_wants_small_segments() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = Lab::new(kind);
        let interface = lab.peer_interface();
        lab.peer().ip(&format!(
            "route change 10.77.0.0/24 dev {interface} advmss 200"
        ));
        exchange(&lab, Family::V4, sized(100_000_000, 2_000_000), &[]);
    }
}

/// The largest MTU with which the veth driver runs a program itself.
const NATIVE: u32 = 3498;

fn mtu(kind: Kind, mtu: u32) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::with(kind, mtu, 1);
    if kind == Kind::Afxdp && mtu > NATIVE {
        // A program in the kernel's stack sees what the peer did not cut into segments, and that
        // fits no frame.
        lab.peer().run("ethtool", "-K peer0 tso off gso off");
    }
    for family in Family::BOTH {
        exchange(&lab, family, sized(100_000_000, 8_000_000), &[]);
    }
    if mtu > 1500 && !baseline() {
        let mean = mean_frame(&lab);
        assert!(
            mean > 1500,
            "frames of {mean} bytes in the mean: the large MTU is not used"
        );
    }
}

#[test]
fn mtu_1280_on_afxdp() {
    mtu(Kind::Afxdp, 1280);
}

#[test]
fn mtu_1280_on_tap() {
    mtu(Kind::Tap, 1280);
}

#[test]
fn mtu_1280_on_packet() {
    mtu(Kind::Packet, 1280);
}

#[test]
fn mtu_9000_on_tap() {
    mtu(Kind::Tap, 9000);
}

#[test]
fn mtu_9000_on_packet() {
    mtu(Kind::Packet, 9000);
}

#[test]
fn mtu_3498_on_afxdp() {
    mtu(Kind::Afxdp, NATIVE);
}

/// As much as a frame of 4096 bytes holds: the program has to run in the kernel's stack (generic
/// mode).
#[test]
fn mtu_3822_on_afxdp() {
    mtu(Kind::Afxdp, 3822);
}

/// More than a frame holds: the packets of both ends are as long as one does.
#[test]
fn mtu_9000_on_afxdp() {
    mtu(Kind::Afxdp, 9000);
}
