//! `mtcp doctor`: what on this machine helps or hinders, with remedies.

pub(crate) mod capabilities;
mod check;
mod holder;
mod interface;
mod packet;
mod peer;
mod system;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use clap::Args;
use mtcp::IoSpec;
use mtcp::interfaces::{self, Holder};

use crate::link::{Backend, Io, LinkArgs};
use crate::net::Own;
use crate::output;

use check::{Check, State, table};

const EXAMPLES: &str = "Examples:
  mtcp doctor
  mtcp doctor --io afxdp:eth0 --addr 10.0.0.2/24
  mtcp doctor --io afxdp:veth0 --addr 10.0.0.2/24 --open
  mtcp doctor --io afxdp:eth0 --addr 10.0.0.2/24 --peer 10.0.0.1:22

'ok' says that nothing was seen in the way, not that it was tried: --open opens the link, --peer has a peer answer over it.";

/// Says what on this machine helps or hinders. With --io, exits with 1 if something that it needs
/// is missing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Look at what these sockets need: afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH or
    /// kernel
    #[arg(long, value_name = "IO")]
    io: Option<Io>,
    /// Addresses that mTCP shall own there
    #[arg(long, value_name = "A/LEN", value_delimiter = ',')]
    addr: Vec<Own>,
    /// Open the link too, and say what came of it
    #[arg(long, requires = "io", requires = "addr")]
    open: bool,
    /// Open the link and connect to this address and port: an answer or a refusal shows that frames
    /// go both ways
    #[arg(long, value_name = "ADDR:PORT", requires = "io", requires = "addr")]
    peer: Option<SocketAddr>,
    /// Gateway to a peer elsewhere
    #[arg(long, value_name = "G", value_delimiter = ',', requires = "peer")]
    gateway: Vec<IpAddr>,
}

impl DoctorArgs {
    /// Prints the table; false if something that --io needs is missing.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        let mut checks = match &self.io {
            None => everything(),
            Some(Io::Kernel) => [
                vec![system::open_files()],
                system::kernel_sockets(),
                system::processors(),
            ]
            .concat(),
            Some(Io::Mtcp(spec)) => needs(spec),
        };
        if !matches!(self.io, Some(Io::Kernel | Io::Mtcp(IoSpec::Daemon(_)))) {
            let shared = self.addr.contains(&Own::Host);
            let given = self.addr.iter().filter_map(Own::address);
            let alone = given.filter(|_| !shared);
            checks.extend(alone.map(|address| owned_by_kernel(address.ip)));
        }
        if self.open || self.peer.is_some() {
            checks.extend(self.opened());
        }
        output::print(&table(&checks))?;
        Ok(self.io.is_none() || checks.iter().all(|check| check.state < State::Fail))
    }

    /// What opening the link says.
    fn opened(&self) -> Vec<Check> {
        let link = LinkArgs {
            io: self.io.clone(),
            addr: self.addr.clone(),
            gateway: self.gateway.clone(),
            ..LinkArgs::default()
        };
        match link.open().map(|link| link.backend) {
            Ok(Backend::Stack(mut sockets, mtcp)) => {
                let facts = mtcp.report().lines.into_iter();
                let syn = self.peer.map(|to| peer::check(&mut *sockets, to));
                facts
                    .map(|(what, value)| Check::ok(what, value))
                    .chain(syn)
                    .collect()
            }
            Ok(Backend::Kernel(mut sockets)) => {
                let syn = self.peer.map(|to| peer::check(&mut sockets, to));
                [Check::ok("open", "kernel sockets")]
                    .into_iter()
                    .chain(syn)
                    .collect()
            }
            Err(error) => vec![Check::fail("open", format!("{error:#}"), "see above")],
        }
    }
}

fn everything() -> Vec<Check> {
    let mut checks = vec![
        system::kernel(),
        capabilities::check(None),
        system::xdp_sockets(),
        system::bpf_jit(),
        system::memlock(),
        system::tun(),
        system::huge_pages(),
        system::open_files(),
    ];
    checks.extend(capabilities::programs().into_iter().map(Check::softened));
    checks.extend(system::kernel_sockets());
    checks.extend(system::processors());
    // Nobody said that these interfaces shall be used.
    let interfaces = interface::names();
    checks.extend(
        interfaces
            .iter()
            .flat_map(|name| interface::check(name))
            .map(Check::softened),
    );
    checks
}

fn needs(spec: &IoSpec) -> Vec<Check> {
    let mut checks = match spec {
        IoSpec::Afxdp(name) => {
            let mut checks = vec![
                system::kernel(),
                capabilities::check(Some("AF_XDP")),
                system::xdp_sockets(),
                system::bpf_jit(),
                system::memlock(),
            ];
            checks.extend(capabilities::programs());
            checks.extend(interface::check(name));
            checks
        }
        IoSpec::Packet(name) => packet::check(name),
        IoSpec::Tap(_) => vec![capabilities::check(Some("TAP")), system::tun()],
        IoSpec::Shm(path) => vec![shm(path)],
        IoSpec::Loop(_) => Vec::new(),
        IoSpec::Daemon(_) => vec![system::open_files()],
    };
    checks.push(system::huge_pages());
    checks.extend(system::processors());
    checks
}

/// Whether the link's socket can be made at `path`.
fn shm(path: &Path) -> Check {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let access = rustix::fs::access(
        parent,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    );
    match (path.exists(), access) {
        (true, _) => Check::ok(
            "link",
            format!(
                "'{}' is there: another program may be waiting",
                path.display()
            ),
        ),
        (false, Ok(())) => Check::ok("link", format!("'{}' can be made", path.display())),
        (false, Err(error)) => Check::fail(
            "link",
            format!("'{}': {error}", parent.display()),
            "choose a path in a directory of yours",
        ),
    }
}

/// The kernel would answer our connections with RST if it owned our address too. On the loopback
/// interface it is there for other programs of this machine, whom the stack hears nothing of.
fn owned_by_kernel(ip: IpAddr) -> Check {
    let what = format!("address {ip}");
    let whole = if ip.is_ipv4() { 32 } else { 128 };
    match interfaces::holder(ip) {
        Ok(Holder::Nobody) => Check::ok(
            what,
            format!(
                "not the kernel's; other programs of this machine reach it after 'ip addr add {ip}/{whole} dev lo'"
            ),
        ),
        Ok(Holder::Loopback) => Check::ok(
            what,
            "the kernel's on lo only: other programs of this machine reach it",
        ),
        Ok(Holder::Interface(name)) => Check::fail(
            what,
            "the kernel owns it too, and would reset our connections",
            format!(
                "choose another --addr, or take it from the kernel with 'ip addr del {ip}/… dev {name}'"
            ),
        ),
        Err(error) => Check::warn(what, format!("{error}"), "allow netlink"),
    }
}
