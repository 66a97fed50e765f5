//! What a load run shall do.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::serve::raw::Sizes;

use http1::reply::Reply;

/// One server and the request for it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Where it listens.
    pub(crate) remote: SocketAddr,
    /// Whether it is reached through a gateway.
    pub(crate) routed: bool,
    /// Head of the request, or all of it.
    pub(crate) request: Vec<u8>,
}

/// The body of every request.
#[derive(Debug)]
pub(crate) struct Body {
    /// Read anew for each request.
    pub(crate) file: OwnedFd,
    /// Bytes.
    pub(crate) length: u64,
}

/// The whole run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Taken in turn, one per connection.
    pub(crate) targets: Vec<Target>,
    /// Our addresses to connect from, taken in turn; empty: whichever.
    pub(crate) sources: Vec<IpAddr>,
    /// Fixed sizes instead of HTTP.
    pub(crate) raw: Option<Sizes>,
    /// Whether the method is HEAD.
    pub(crate) head: bool,
    /// Sent after the head of each request.
    pub(crate) body: Option<Body>,
    /// Many requests per connection.
    pub(crate) keep_alive: bool,
    /// Close with RST.
    pub(crate) reset: bool,
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Requests in all; `None`: until `duration` is over.
    pub(crate) requests: Option<u64>,
    /// How long; `None`: until `requests` are done.
    pub(crate) duration: Option<Duration>,
    /// For one request, connecting included.
    pub(crate) timeout: Duration,
    /// Go on where no connection can be had.
    pub(crate) keep_going: bool,
    /// The first response's body goes here.
    pub(crate) output: Option<File>,
}

impl Plan {
    /// An empty reply to a request of this plan.
    pub(crate) fn reply(&self) -> Reply {
        match self.raw {
            Some(sizes) => Reply::raw(sizes.response as u64),
            None => Reply::http(self.head),
        }
    }

    /// Bytes of a request to `target`.
    pub(crate) fn request_length(&self, target: &Target) -> u64 {
        target.request.len() as u64 + self.body.as_ref().map_or(0, |body| body.length)
    }
}
