//! The connection to the daemon that the program and all that come of it share.

use std::ffi::OsString;
use std::os::fd::{IntoRawFd as _, OwnedFd};

use control::NetNamespace;
use control::client::Session;
use control::place::Place;
use control::private;
use mtcp::service::build;
use mtcp::{Config, IoSpec};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::lines::settings;
use crate::fail::Failure;
use crate::{machine, output};

/// Programs beside each other that have room for what one may have.
const PROGRAMS: u32 = 4;
/// Where numbers of descriptors end at the latest: each fork copies those below.
const NUMBERS_END: u64 = 16 << 10;

/// Starts or joins the private daemon of this stack, which from now on is the one in `config`.
///
/// # Errors
/// Why the daemon cannot start, as it says itself.
pub(super) fn share(config: &mut Config, log_level: Option<&str>) -> anyhow::Result<Session> {
    let stack = Config {
        max_concurrency: config.max_concurrency.saturating_mul(PROGRAMS),
        ..config.clone()
    };
    let lines = settings(&stack);
    let key = private::key(NetNamespace::own()?, &[&lines]);
    let mut command: Vec<OsString> = vec![machine::own_program()?];
    if let Some(level) = log_level {
        command.extend(["--log-level", level].map(OsString::from));
    }
    let words = [
        "daemon",
        "--background",
        "--private",
        &key,
        "--settings",
        &lines,
    ];
    command.extend(words.map(OsString::from));
    let joined = private::start_or_join(&Place::own(), &key, &build(), &command)?;
    for line in joined.started.iter().flatten() {
        output::note(line);
    }
    let path = joined.session.path();
    let name = path.with_extension("");
    let name = name.to_str().ok_or_else(|| {
        Failure::error(
            format!("the directory of '{}' is no text", path.display()),
            "set XDG_RUNTIME_DIR to another",
        )
    })?;
    config.io = IoSpec::Daemon(name.to_owned());
    mtcp::take_daemon(config).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(joined.session)
}

/// Leaves the connection open for the program, at a number that it does not use. Returns what names
/// it.
///
/// # Errors
/// No more descriptors.
pub(super) fn leave_open(session: Session) -> anyhow::Result<String> {
    let failed = |error: rustix::io::Errno| {
        Failure::error(
            format!("cannot keep the connection to the daemon: {error}"),
            "raise the limit of open files (ulimit -n)",
        )
    };
    let kept = beyond(&session.into_socket()).map_err(failed)?;
    fcntl_setfd(&kept, FdFlags::empty()).map_err(failed)?;
    let file = rustix::fs::fstat(&kept).map_err(failed)?;
    // It is the program's library that has it from now on.
    let number = kept.into_raw_fd();
    Ok(format!("{number}:{}:{}", file.st_dev, file.st_ino))
}

/// A copy whose number lies beyond those that the program may have, or else is the highest of them.
fn beyond(socket: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let limit = getrlimit(Resource::Nofile);
    let first = limit.current.unwrap_or(NUMBERS_END).min(NUMBERS_END);
    let raised = Rlimit {
        current: Some(first + 1).max(limit.current),
        maximum: limit.maximum,
    };
    let number = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let copy = match is_raised {
        true => fcntl_dupfd_cloexec(socket, number(first)),
        false => fcntl_dupfd_cloexec(socket, number(first.saturating_sub(1))),
    };
    let _ = setrlimit(Resource::Nofile, limit);
    copy
}
