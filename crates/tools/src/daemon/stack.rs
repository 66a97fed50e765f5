//! The stacks of the daemon. They answer the network; programs cannot use them yet.

use std::sync::Arc;

use control::Error;
use control::message::SocketRow;
use control::server::{Channel, Client, ClientId, Stacks, Usage};
use mtcp::{Context, Mtcp};
use rustix::io::Errno;

use super::settings::Loaded;

/// Stacks that nobody can use yet.
#[derive(Debug)]
pub(super) struct Unserved {
    links: String,
}

impl Stacks for Unserved {
    fn count(&self) -> u32 {
        1
    }

    fn links(&self) -> String {
        self.links.clone()
    }

    fn attach(&self, _: &Client) -> Result<Vec<Channel>, Error> {
        Err(Error::new(
            Errno::OPNOTSUPP,
            "the daemon of this build serves no programs yet",
            "use mtcp run --io",
        ))
    }

    fn detach(&self, _: ClientId) {}

    fn usage(&self, _: ClientId) -> Usage {
        Usage::default()
    }

    fn sockets(&self, _: Option<u32>, _: u64, _: usize) -> Vec<SocketRow> {
        Vec::new()
    }
}

/// Links and stacks.
#[derive(Debug)]
pub(super) struct Opened {
    stacks: Arc<Unserved>,
    // In this order: a context goes before what it is of.
    _context: Context,
    _mtcp: Mtcp,
}

/// Opens what the settings say.
pub(super) fn open(loaded: &Loaded) -> anyhow::Result<Opened> {
    let config = loaded.config(true)?;
    let addresses = config.addresses.iter();
    let addresses = addresses.map(|cidr| format!(" {}/{}", cidr.addr, cidr.prefix_len));
    let links = format!("{}{}", config.io, addresses.collect::<String>());
    let mtcp = Mtcp::init(config).map_err(|error| anyhow::anyhow!("{error}"))?;
    let context = mtcp
        .context(0)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(Opened {
        stacks: Arc::new(Unserved { links }),
        _context: context,
        _mtcp: mtcp,
    })
}

impl Opened {
    pub(super) fn stacks(&self) -> &Arc<Unserved> {
        &self.stacks
    }

    pub(super) fn label(&self) -> &str {
        &self.stacks.links
    }
}
