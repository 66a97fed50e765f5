//! Two namespaces for measurements over frames that leave shared memory: the server's and the
//! client's, joined by a veth pair for mTCP and by others for the kernel, whose own settings
//! differ.

use std::process::Command;

use mtcp::CongestionControl;

use crate::doctor::capabilities::has_net_admin;
use crate::fail::Failure;
use crate::namespaces::{End, Namespaces};
use crate::programs::require;

use super::baseline::Baseline;
use super::options::LinkKind;
use super::side::Side;

/// The first address of mTCP's server.
pub(crate) const OURS: &str = "10.9.0.1";
/// The first address of a kernel server without a network.
pub(crate) const LOOPBACK: &str = "127.0.0.1";
/// The pair whose ends mTCP can drive.
pub(crate) const ENDS: [&str; 2] = ["mtcp0", "mtcp1"];
/// The device of mTCP's server, if that is its link.
pub(crate) const TAP: &str = "mtcp0";

/// Addresses of each server.
const SERVERS: u32 = 100;
/// Last part of the kernel's address at the client's end.
const CLIENT: u32 = 250;
/// The first kernel pair, as the kernel makes it.
const KERNEL: Pair = Pair {
    devices: ["kern0", "kern1"],
    network: "10.10.0",
};
/// The second, with segmentation and receive offloads turned off, so that its packets are cut as
/// those of a network are.
const PLAIN: Pair = Pair {
    devices: ["plain0", "plain1"],
    network: "10.11.0",
};

struct Pair {
    devices: [&'static str; 2],
    network: &'static str,
}

/// The namespaces with what joins them.
#[derive(Debug)]
pub(crate) struct Network(Namespaces);

impl Network {
    /// Namespaces with nothing between them, in whose loopback the kernel is measured; `None` where
    /// this user cannot have any.
    pub(crate) fn loopback() -> Option<Self> {
        Namespaces::new("bench").ok().map(Self)
    }

    /// Makes them, joined for `link`.
    ///
    /// # Errors
    /// No privilege, a program is missing, or one of them refused.
    pub(crate) fn new(link: LinkKind) -> anyhow::Result<Self> {
        if !has_net_admin() {
            return Err(Failure::error(
                "network namespaces need CAP_NET_ADMIN",
                "run it as root, or use --link shm",
            ));
        }
        require(&["ip", "ethtool"])?;
        let namespaces = Namespaces::new("bench")?;
        let kernel = End {
            device: ENDS[1],
            addresses: vec![format!("10.9.0.{CLIENT}/24")],
        };
        match link {
            LinkKind::Shm => {}
            LinkKind::Afxdp | LinkKind::Packet => {
                let ours = End {
                    device: ENDS[0],
                    addresses: Vec::new(),
                };
                namespaces.join(&[ours, kernel])?;
            }
            LinkKind::Tap => namespaces.tap(
                0,
                &End {
                    device: TAP,
                    ..kernel
                },
            )?,
        }
        for pair in [KERNEL, PLAIN] {
            pair.join(&namespaces)?;
        }
        for (side, device) in PLAIN.devices.iter().enumerate() {
            let off = ["-K", device, "tso", "off", "gso", "off", "gro", "off"];
            namespaces.ethtool(side, &off)?;
        }
        Ok(Self(namespaces))
    }

    /// Has what comes for each namespace received by its own one of `cores` (receive packet
    /// steering), whoever sends it.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn steer(&self, cores: [usize; 2]) -> anyhow::Result<()> {
        for (side, core) in cores.into_iter().enumerate() {
            for devices in [ENDS, KERNEL.devices, PLAIN.devices] {
                let file = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", devices[side]);
                let script = format!("echo {} > {file}", mask(core));
                let status = self.command(side, "sh").args(["-c", &script]).status()?;
                if !status.success() {
                    return Err(Failure::error(
                        format!("{file} cannot be written"),
                        "measure without --steer (the kernel needs CONFIG_RPS)",
                    ));
                }
            }
        }
        Ok(())
    }

    /// What the kernel's sockets run with there: settings, and the offloads of the interface that
    /// `link` compares with.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub(crate) fn baseline(
        &self,
        link: LinkKind,
        cc: CongestionControl,
    ) -> anyhow::Result<Baseline> {
        let mut baseline = self.0.enter(0, || Baseline::read(cc, true))?;
        let device = match link {
            LinkKind::Shm => "lo",
            LinkKind::Afxdp | LinkKind::Packet | LinkKind::Tap => KERNEL.devices[0],
        };
        let mut ethtool = self.command(0, "ethtool");
        ethtool.args(["-k", device]);
        baseline.add_offloads(ethtool);
        Ok(baseline)
    }

    /// A command in the namespace of the servers (0) or the clients (1).
    pub(crate) fn command(&self, namespace: usize, program: &str) -> Command {
        self.0.command(namespace, program)
    }
}

impl Pair {
    fn join(&self, namespaces: &Namespaces) -> anyhow::Result<()> {
        let servers = (1..=SERVERS).map(|host| format!("{}.{host}/24", self.network));
        let server = End {
            device: self.devices[0],
            addresses: servers.collect(),
        };
        let client = End {
            device: self.devices[1],
            addresses: vec![format!("{}.{CLIENT}/24", self.network)],
        };
        namespaces.join(&[server, client])
    }
}

/// The first address of a side's server where there is a network.
pub(crate) fn target(side: Side) -> &'static str {
    match side {
        Side::Mtcp | Side::MtcpInline => OURS,
        Side::Kernel | Side::KernelTuned => "10.10.0.1",
        Side::KernelPlain => "10.11.0.1",
    }
}

/// One processor as the kernel reads sets of them: hexadecimal words of 32 bits, the highest first.
fn mask(core: usize) -> String {
    let words = ",00000000".repeat(core / 32);
    format!("{:x}{words}", 1_u32 << (core % 32))
}

/// So many addresses of mTCP's server, with the length of their network.
pub(crate) fn server_addresses(count: u32) -> String {
    let addresses: Vec<String> = (1..=count)
        .map(|host| format!("10.9.0.{host}/24"))
        .collect();
    addresses.join(",")
}

/// The address of mTCP's n-th client.
pub(crate) fn client_address(client: u32) -> String {
    format!("10.9.0.{}/24", 200 + client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_one_processor_are_written_as_the_kernel_reads_them() {
        assert_eq!(mask(0), "1");
        assert_eq!(mask(5), "20");
        assert_eq!(mask(31), "80000000");
        assert_eq!(mask(33), "2,00000000");
        assert_eq!(mask(64), "1,00000000,00000000");
    }
}
