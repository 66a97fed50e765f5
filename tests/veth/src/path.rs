//! A path longer and narrower than a veth pair: a bridge between a station and a TAP interface,
//! with a rate and a queue towards the latter. Where the kernel has no netem, delay and loss are
//! for the end at the TAP to add, which is mTCP (`--fault`).

use std::process::Command;

use crate::{Namespace, programs};

/// The station's interface.
pub const NAME: &str = "path0";
/// What is at the far end.
pub const TAP: &str = "tap0";

/// The path, and what is at its ends.
#[derive(Debug)]
pub struct Path {
    /// Has the kernel's address 10.78.0.1 at [`NAME`].
    pub station: Namespace,
    /// Has [`TAP`].
    pub far: Namespace,
}

impl Path {
    /// To the TAP `megabits` a second, with `queue` bytes that may wait for it.
    pub fn new(megabits: u32, queue: u32) -> Self {
        let (station, far) = (Namespace::new(), Namespace::new());
        far.ip("link add bridge0 type bridge");
        far.ip(&format!(
            "link add port0 type veth peer name {NAME} netns {}",
            station.name()
        ));
        far.ip(&format!("tuntap add dev {TAP} mode tap"));
        station.ip(&format!("address add 10.78.0.1/24 dev {NAME}"));
        // Frames of the size that a wire carries, with checksums.
        for (place, interface) in [(&station, NAME), (&far, "port0")] {
            place.run(
                "ethtool",
                &format!("-K {interface} tx off gso off tso off gro off"),
            );
        }
        for port in ["port0", TAP] {
            far.ip(&format!("link set {port} master bridge0 up"));
        }
        far.ip("link set bridge0 up");
        station.ip(&format!("link set {NAME} up"));
        // What may leave at once: a millisecond's worth.
        let burst = (megabits * 125).max(32_000);
        far.run(
            "tc",
            &format!(
                "qdisc add dev {TAP} root tbf rate {megabits}mbit burst {burst} limit {queue}"
            ),
        );
        Self { station, far }
    }

    /// The station's kernel uses this congestion control, also where a namespace must not choose it
    /// for all.
    pub fn choose(&self, congestion: &str) {
        self.station.ip(&format!(
            "route replace 10.78.0.0/24 dev {NAME} src 10.78.0.1 congctl {congestion}"
        ));
    }
}

/// `mtcp` with these words there.
pub fn mtcp(place: &Namespace, words: &[&str]) -> Command {
    let mut command = place.command(programs::mtcp());
    command.args(words);
    command
}
