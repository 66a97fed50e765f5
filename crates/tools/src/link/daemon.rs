//! Sockets of a daemon's stack.

use std::net::IpAddr;

use control::client::{self, Found, Session};
use control::place::Place;
use mtcp::service::Attachment;
use mtcp::{Config, Context};

use crate::daemon::version::build;
use crate::fail::Failure;
use crate::sockets::stack::Stack;

/// A program's side of a daemon.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) sockets: Stack,
    /// This process is attached as long as this lives.
    pub(super) session: Session,
    pub(super) addresses: Vec<IpAddr>,
}

/// Attaches to the daemon of this name, or that of this network namespace.
pub(super) fn open(name: Option<&str>, config: &Config) -> anyhow::Result<Attached> {
    let session = find(name)?;
    let attached = session.attach()?;
    let Some(first) = attached.into_iter().next() else {
        return Err(Failure::error("the daemon has no stack", "start it again"));
    };
    let descriptors = first.descriptors.try_into();
    let words = first.channel.words.first_chunk().copied();
    let attachment = descriptors
        .ok()
        .zip(words)
        .and_then(|(descriptors, words)| Attachment::from_parts(descriptors, words));
    let Some(attachment) = attachment else {
        return Err(Failure::error(
            "the daemon says what means nothing",
            "use the mtcp of the daemon's build",
        ));
    };
    let context =
        Context::attach(attachment, config).map_err(|error| anyhow::anyhow!("{error}"))?;
    let addresses = context.addresses().to_vec();
    let sockets = Stack::new(context).map_err(|error| {
        Failure::error(
            format!("cannot make an epoll instance: {error}"),
            "raise max_concurrency",
        )
    })?;
    Ok(Attached {
        sockets,
        session,
        addresses,
    })
}

/// The daemon of this name, or that of this network namespace.
pub(crate) fn find(name: Option<&str>) -> anyhow::Result<Session> {
    let places: Vec<Place> = [Place::system()].into_iter().chain(Place::own()).collect();
    let found = match name.map(|name| name.rsplit_once('/').ok_or(name)) {
        Some(Ok((directory, name))) => client::named(&[Place::shared(directory)], name, &build())?,
        Some(Err(name)) => client::named(&places, name, &build())?,
        None => of_namespace(&places)?,
    };
    match found {
        Found::Session(session) => Ok(session),
        Found::Nobody(error) => Err(error.into()),
    }
}

/// The daemon of this network namespace in the first place that has one.
fn of_namespace(places: &[Place]) -> anyhow::Result<Found> {
    let mut nobody = None;
    for place in places {
        match client::of_namespace(place, &build())? {
            Found::Session(session) => return Ok(Found::Session(session)),
            Found::Nobody(error) => nobody = nobody.or(Some(error)),
        }
    }
    nobody
        .map(Found::Nobody)
        .ok_or_else(|| Failure::error("no place for daemons", "start one with 'mtcp daemon'"))
}
