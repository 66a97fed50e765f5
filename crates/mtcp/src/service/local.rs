//! Daemon and program in one process, for tests: everything between them is as between two.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use ::io::AnyPort;

use super::host::{Policy, SHAPE};
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

    fn connections(&self) -> usize {
        usize::MAX
    }

    fn listeners(&self) -> usize {
        usize::MAX
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
    let (host, handle, streams) = assembly::hosted(port.into(), config)?;
    let attachment = handle
        .attach(Arc::new(Anything), std::process::id())
        .map_err(failed)?;
    let end = attachment.join(SHAPE).map_err(failed)?;
    let sockets = assembly::attached(config, end, streams).map_err(failed)?;
    thread::Builder::new()
        .name("mtcp-daemon".to_owned())
        .spawn(move || host.run_until_unused())
        .map_err(failed)?;
    Ok(Context::from(sockets))
}
