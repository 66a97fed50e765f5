//! The program that keeps frames for our addresses from the kernel, behind the tap by which a
//! packet socket has them.

use std::error::Error;
use std::fs;
use std::net::IpAddr;

use aya::programs::tc::SchedClassifierLink;
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use rustix::thread::CapabilitySet;

use crate::{ours, privileges};

/// `bpf/behind_tap.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/behind_tap.bpf.o");

/// The program, attached until dropped, or until the last process that has it ends.
#[derive(Debug)]
pub(super) struct BehindTap {
    // Goes first.
    _link: SchedClassifierLink,
    _ebpf: Ebpf,
}

impl BehindTap {
    /// Attaches it to an interface.
    ///
    /// # Errors
    /// Linux before 6.6, whose programs in traffic control outlive their process; no right to.
    pub(super) fn attach(interface: &str, addresses: &[IpAddr]) -> Result<Self, Box<dyn Error>> {
        if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
            return Err("it needs Linux 6.6".into());
        }
        for (one, name) in [
            (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF, "CAP_BPF"),
            (CapabilitySet::PERFMON, "CAP_PERFMON"),
        ] {
            // The kernel would look at all of the program before it refuses it.
            if !privileges::allows(privileges::own(), one) {
                return Err(format!("it needs {name}").into());
            }
        }
        let entries = ours::entries(addresses)?;
        let mut ebpf = EbpfLoader::new()
            .map_max_entries("addresses4", entries)
            .map_max_entries("addresses6", entries)
            .load(OBJECT)?;
        ours::fill(&mut ebpf, addresses)?;
        let program: &mut SchedClassifier = ebpf
            .program_mut("behind_tap")
            .ok_or(ProgramError::NotLoaded)?
            .try_into()?;
        program.load()?;
        let link = program.attach(interface, TcAttachType::Ingress)?;
        let link = program.take_link(link)?;
        Ok(Self {
            _link: link,
            _ebpf: ebpf,
        })
    }
}

/// Says what comes of frames for our addresses that the kernel sees, too: without the program it
/// drops what is for nobody here, unless it sends on what is for others.
pub(super) fn tell_missing(interface: &str, addresses: &[IpAddr], error: &dyn Error) {
    let forwards = |family, any| {
        let of = |name| format!("/proc/sys/net/{family}/conf/{name}/forwarding");
        any && fs::read_to_string(of(interface)).is_ok_and(|value| value.trim() == "1")
    };
    let v4 = addresses.iter().any(IpAddr::is_ipv4);
    let v6 = addresses.iter().any(IpAddr::is_ipv6);
    if forwards("ipv4", v4) || forwards("ipv6", v6) {
        log::warn!(
            "AF_PACKET on {interface}: the kernel is not kept from sending on what comes for our addresses ({error}): it forwards there, and \
             each packet may be sent once more: `sysctl net.ipv4.conf.{interface}.forwarding=0 net.ipv6.conf.{interface}.forwarding=0`"
        );
    } else {
        log::info!(
            "AF_PACKET on {interface}: the kernel sees what comes for our addresses, too, and drops it ({error})"
        );
    }
}
