//! Where the program is attached.

use std::io;

use aya::programs::ProgramError;

use crate::netlink::Link;

use super::config::{AttachMode, XdpConfig, ZeroCopy};
use super::error::LOAD;
use super::program::{Kind, Program};
use super::resources::{may_measure, raise_memlock};

/// Whether frames may come through traffic control: those of a veth pair do, if all of them are for
/// one thread.
fn can_use_tc_ring(config: &XdpConfig, link: &Link, queues: u32) -> bool {
    link.is_veth()
        && config.flows.is_none()
        && config.mode == AttachMode::Auto
        && config.zero_copy != ZeroCopy::ZeroCopy
        && config.processes <= 1
        && queues == 1
}

/// Attaches the program where frames come soonest. `queues`: that there are, and at most. `parts`:
/// packets may lie in several frames.
pub(super) fn attach(
    config: &XdpConfig,
    link: &Link,
    (queues, most): (u32, u32),
    parts: bool,
) -> io::Result<Program> {
    if !can_use_tc_ring(config, link, queues) {
        return attach_xdp(config, link, most, parts);
    }
    if may_measure() {
        match Program::attach_tc_ring(&link.name, link.index, &config.addresses) {
            Ok(program) => return Ok(program),
            Err(error) => tell_fall_back(&link.name, &*error),
        }
    } else {
        log::warn!(
            "XDP on {}: the program for traffic control needs CAP_PERFMON, too: going on with XDP, which is slower here",
            link.name
        );
    }
    attach_xdp(config, link, most, parts)
}

/// Says that frames come by XDP instead of traffic control. That the kernel does not take the
/// program is a fault; that it is too old, or told to do otherwise, is not.
fn tell_fall_back(name: &str, error: &(dyn std::error::Error + 'static)) {
    match error.downcast_ref::<ProgramError>() {
        Some(ProgramError::LoadError { io_error, .. }) => log::warn!(
            "XDP on {name}: this kernel refuses the program for traffic control ({io_error}): going on with XDP, which is slower here"
        ),
        _ => log::info!("XDP on {name}: no traffic control: {error}"),
    }
}

/// Attaches the program.
fn attach_xdp(config: &XdpConfig, link: &Link, queues: u32, parts: bool) -> io::Result<Program> {
    let kind = kind(config, queues, parts);
    with_memlock(|| Program::attach(&link.name, link.index, &config.addresses, kind, config.mode))
}

/// Whether the kernel takes the program, which is not attached.
pub(super) fn check(config: &XdpConfig, link: &Link, (most, parts): (u32, bool)) -> io::Result<()> {
    let kind = kind(config, most, parts);
    with_memlock(|| Program::check(&link.name, &config.addresses, kind))
}

fn kind(config: &XdpConfig, queues: u32, parts: bool) -> Kind {
    Kind {
        queues,
        parts,
        flows: config.flows,
    }
}

/// Once more with the limit on locked memory raised where maps count against it (before Linux
/// 5.11).
fn with_memlock<T>(load: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match load() {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && error.to_string().contains(LOAD) =>
        {
            if raise_memlock() {
                load()
            } else {
                Err(error)
            }
        }
        result => result,
    }
}
