//! Two stations: ours, where mTCP owns an address, and the peer's, where a kernel answers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{self, Finished, PROMPT, Process, wait_until};
use crate::{Namespace, baseline, programs};

/// The stack's addresses.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// See [`OURS`].
pub const OURS6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
/// The peer's addresses.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// See [`PEER`].
pub const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// The addresses of the kernel on the stack's own interface (not over TAP).
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// See [`KERNEL`].
pub const KERNEL6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 3);

/// The port of every server here.
pub const PORT: u16 = 80;

/// What the frames travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One end of a veth pair, through AF_XDP.
    Afxdp,
    /// The same, through packet sockets.
    Packet,
    /// A TAP interface of the peer.
    Tap,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 3] = [Self::Afxdp, Self::Packet, Self::Tap];
}

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The stack's address.
    pub fn ours(self) -> IpAddr {
        match self {
            Self::V4 => OURS.into(),
            Self::V6 => OURS6.into(),
        }
    }

    /// The peer's address.
    pub fn peer(self) -> IpAddr {
        match self {
            Self::V4 => PEER.into(),
            Self::V6 => PEER6.into(),
        }
    }

    /// The address of the kernel beside the stack.
    pub fn kernel(self) -> IpAddr {
        match self {
            Self::V4 => KERNEL.into(),
            Self::V6 => KERNEL6.into(),
        }
    }
}

/// `http://HOST/PATH`, for a server on [`PORT`].
pub fn url(host: IpAddr, path: &str) -> String {
    format!("http://{}/{path}", SocketAddr::new(host, PORT))
}

/// The two stations and a directory for their files.
#[derive(Debug)]
pub struct Lab {
    kind: Kind,
    ours: Namespace,
    /// None: a TAP interface is in the namespace of its other end.
    peer: Option<Namespace>,
    files: TempDir,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Afxdp => "afxdp",
            Self::Packet => "packet",
            Self::Tap => "tap",
        })
    }
}

impl Lab {
    /// With an MTU of 1500 bytes and one queue.
    pub fn new(kind: Kind) -> Self {
        Self::with(kind, 1500, 1)
    }

    /// With this MTU, in bytes, and so many queues (not over TAP).
    pub fn with(kind: Kind, mtu: u32, queues: u32) -> Self {
        let ours = Namespace::new();
        let peer = (kind != Kind::Tap || baseline()).then(Namespace::new);
        let lab = Self {
            kind,
            ours,
            peer,
            files: tempfile::tempdir().unwrap(),
        };
        match &lab.peer {
            Some(peer) => lab.add_pair(peer, mtu, queues),
            None => lab.add_tap(mtu),
        }
        for directory in [lab.www(), lab.uploads()] {
            std::fs::create_dir(directory).unwrap();
        }
        lab.wait_ready();
        lab
    }

    fn add_pair(&self, peer: &Namespace, mtu: u32, queues: u32) {
        let shape = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
        self.ours.ip(&format!(
            "link add ours0 {shape} type veth peer name peer0 {shape} netns {}",
            peer.name()
        ));
        for address in [KERNEL.to_string() + "/24", format!("{KERNEL6}/64")] {
            self.add_address("ours0", &address);
        }
        if baseline() {
            for address in [OURS.to_string() + "/24", format!("{OURS6}/64")] {
                self.add_address("ours0", &address);
            }
        }
        self.ours.ip("link set ours0 up");
        self.peer_up("peer0");
    }

    /// Removes the pair (not over TAP).
    pub fn remove_pair(&self) {
        self.peer().ip("link delete peer0");
    }

    /// Makes the pair again, with an MTU of 1500 bytes and one queue.
    pub fn make_pair_again(&self) {
        self.add_pair(self.peer(), 1500, 1);
        self.wait_ready();
    }

    fn add_tap(&self, mtu: u32) {
        self.ours.ip("tuntap add dev tap0 mode tap vnet_hdr");
        self.ours.ip(&format!("link set tap0 mtu {mtu}"));
        self.peer_up("tap0");
    }

    fn add_address(&self, interface: &str, address: &str) {
        add_address(&self.ours, interface, address);
    }

    fn peer_up(&self, interface: &str) {
        add_address(self.peer(), interface, &format!("{PEER}/24"));
        add_address(self.peer(), interface, &format!("{PEER6}/64"));
        self.peer().ip(&format!("link set {interface} up"));
    }

    /// Kernels take up to a second to notice that a link has come up. Until then they do not hear
    /// solicitations for their addresses, and whoever asks has to wait for a second question.
    fn wait_ready(&self) {
        // A TAP interface comes up when mTCP opens it.
        if self.peer.is_some() {
            wait_hearing(&self.ours, KERNEL6);
            wait_hearing(self.peer(), PEER6);
        }
    }

    /// Tells both ends each other's hardware address for good; the option that does so for ours.
    ///
    /// For networks that damage frames: ARP has no checksum, so that a kernel may believe in a
    /// damaged address for a minute.
    pub fn acquaint(&self) -> String {
        const OUR_MAC: &str = "02:00:00:00:00:03";
        // Our end of a TAP interface is the kernel's with the last bit inverted.
        const PEER_MAC: &str = "02:00:00:00:00:02";
        let interface = self.peer_interface();
        if self.peer.is_some() {
            self.ours.ip(&format!("link set ours0 address {OUR_MAC}"));
        }
        self.peer()
            .ip(&format!("link set {interface} address {PEER_MAC}"));
        for address in [IpAddr::from(OURS), IpAddr::from(OURS6)] {
            self.peer().ip(&format!(
                "neighbour replace {address} lladdr {OUR_MAC} dev {interface} nud permanent"
            ));
        }
        format!("{PEER}={PEER_MAC},{PEER6}={PEER_MAC}")
    }

    /// What the frames travel on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where mTCP runs.
    pub fn ours(&self) -> &Namespace {
        &self.ours
    }

    /// Where the kernel answers.
    pub fn peer(&self) -> &Namespace {
        self.peer.as_ref().unwrap_or(&self.ours)
    }

    /// The peer's interface.
    pub fn peer_interface(&self) -> &'static str {
        if self.peer.is_some() { "peer0" } else { "tap0" }
    }

    /// The directory of all files.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// What servers serve.
    pub fn www(&self) -> PathBuf {
        self.files().join("www")
    }

    /// Where servers put what they are sent.
    pub fn uploads(&self) -> PathBuf {
        self.files().join("uploads")
    }

    /// The options that put `mtcp` on our end.
    pub fn link_args(&self) -> Vec<String> {
        let io = match self.kind {
            _ if baseline() => "kernel".to_owned(),
            Kind::Afxdp => "afxdp:ours0".to_owned(),
            Kind::Packet => "packet:ours0".to_owned(),
            Kind::Tap => "tap:tap0".to_owned(),
        };
        let addresses = format!("{OURS}/24,{OURS6}/64");
        ["--io", &io, "--addr", &addresses].map(String::from).into()
    }

    /// `mtcp` on our end with these words before the link's.
    pub fn mtcp(&self, words: &[&str]) -> Command {
        let mut command = self.ours.command(programs::mtcp());
        command.args(words).args(self.link_args());
        command
    }

    /// A server of our directory on our end, listening.
    pub fn serve(&self, words: &[&str]) -> Process {
        let mut command = self.mtcp(&["serve"]);
        command.arg(self.www()).arg("--upload").arg(self.uploads());
        command.args(suitable(words));
        let server = listening(command);
        self.wait_peer_hears();
        server
    }

    /// Waits until the peer can be solicited: opening our end may have taken the link down for a
    /// moment.
    pub fn wait_peer_hears(&self) {
        wait_hearing(self.peer(), PEER6);
    }

    /// A server of our directory on the peer's kernel, listening.
    pub fn peer_serve(&self, words: &[&str]) -> Process {
        let mut command = self.peer().command(programs::mtcp());
        command.arg("serve").arg(self.www()).arg("--upload");
        command.arg(self.uploads()).args(["--io", "kernel"]);
        command.args(["--addr", &format!("{PEER},{PEER6}")]);
        command.args(words);
        listening(command)
    }

    /// `mtcp load` from our end: what it reported, without a failed request.
    pub fn load(&self, words: &[&str], within: Duration) -> Value {
        let mut command = self.mtcp(&["load", "--json"]);
        command.args(suitable(words));
        report(&process::finish(command, within).must_succeed())
    }

    /// `mtcp load` from the peer's kernel.
    pub fn peer_load(&self, words: &[&str]) -> Command {
        let mut command = self.peer().command(programs::mtcp());
        command
            .args(["load", "--json", "--io", "kernel"])
            .args(words);
        command
    }

    /// The kernel's curl at the peer.
    pub fn curl(&self, words: &[&str], within: Duration) -> Finished {
        let mut command = self.peer().command("curl");
        command.args(["--silent", "--show-error", "--fail", "--globoff"]);
        command.args(["--connect-timeout", "20"]).args(words);
        process::finish(command, within)
    }

    /// Whether the peer's ping to `host` is answered within a second.
    pub fn peer_pings(&self, host: IpAddr) -> bool {
        self.peer_ping(host, &["-c", "1"]).status.success()
    }

    /// The peer's ping.
    pub fn peer_ping(&self, host: IpAddr, words: &[&str]) -> Finished {
        let mut command = self.peer().command("ping");
        command.args(["-n", "-W", "1"]).args(words);
        command.arg(host.to_string());
        process::finish(command, PROMPT)
    }
}

/// The one object that `mtcp load --json` prints.
pub fn report(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"))
}

/// Waits until a server can be reached.
pub fn listening(command: Command) -> Process {
    let mut server = Process::start(command);
    server.wait_for("listening on", PROMPT);
    server
}

/// Waits until the solicited-node group of `address` (RFC 4291 §2.7.1) has been joined.
fn wait_hearing(namespace: &Namespace, address: Ipv6Addr) {
    let prefix = 0xff02_0000_0000_0000_0000_0001_ff00_0000_u128;
    let group = format!("{:032x}", prefix | (address.to_bits() & 0xff_ffff));
    wait_until("the kernel hears solicitations", PROMPT, || {
        let groups = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/igmp6"));
        groups.unwrap().contains(group.as_str())
    });
}

fn add_address(namespace: &Namespace, interface: &str, address: &str) {
    let no_wait = if address.contains(':') { " nodad" } else { "" };
    namespace.ip(&format!("address add {address} dev {interface}{no_wait}"));
}

/// Options, each with a value, that kernel sockets do not have or need.
const FOR_THE_STACK: [&str; 4] = ["--fault", "--pcap", "--mode", "--neighbour"];

fn suitable<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if baseline() && FOR_THE_STACK.contains(word) {
            rest.next();
        } else {
            kept.push(*word);
        }
    }
    kept
}
