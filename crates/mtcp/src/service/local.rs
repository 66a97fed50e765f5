//! Daemon and program in one process, for tests: everything between them is as between two.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use ::io::AnyPort;

use super::{Identity, Policy};
use crate::{Config, Context, Result, SetupError, assembly};

/// Everything is allowed.
#[derive(Debug)]
pub(super) struct Anything;

impl Policy for Anything {
    fn listen(&self, _: SocketAddr) -> Result<()> {
        Ok(())
    }

    fn connect(&self, _: Option<SocketAddr>, _: SocketAddr) -> Result<()> {
        Ok(())
    }

    fn tell(&self, _: &str) {}

    fn connections(&self) -> usize {
        4096
    }

    fn listeners(&self) -> usize {
        usize::MAX
    }

    fn memory(&self) -> usize {
        256 << 20
    }
}

/// A context on a stack that a thread of this process serves, until the context is gone and its
/// peers have what it wrote. `config` is as for [`Context::on_port`].
///
/// # Errors
/// As [`Context::on_port`].
pub fn on_thread(
    port: impl Into<AnyPort>,
    config: &Config,
) -> std::result::Result<Context, SetupError> {
    let failed = |error: std::io::Error| SetupError(error.to_string());
    let (host, handle) = assembly::host_on_port(port.into(), config)?;
    let program = Identity {
        id: 0,
        pid: std::process::id(),
        uid: 0,
    };
    let attachment = handle
        .attach(program, Arc::new(Anything), Arc::default())
        .map_err(failed)?;
    thread::Builder::new()
        .name("mtcp-daemon".to_owned())
        .spawn(move || host.run_until_unused())
        .map_err(failed)?;
    Context::attach(attachment, None, config, 0)
}
