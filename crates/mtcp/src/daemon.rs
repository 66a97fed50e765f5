//! A daemon that has the stack: how a process finds it and attaches to it.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use control::NetNamespace;
use control::client::{self, Found, Session};
use control::place::Place;

use crate::config::{Cidr, Config, IoSpec};
use crate::context::Context;
use crate::service::{self, Attachment};
use crate::setup_error::SetupError;

/// What the daemon's side of this process is reached by. The process is attached as long as the
/// session lives.
#[derive(Debug)]
struct Attached {
    session: Session,
    attachment: Attachment,
}

/// See [`use_door`].
static DOOR: OnceLock<OwnedFd> = OnceLock::new();

/// From now on this process comes to its daemon by way of this connection to it, which other
/// processes have too (`Session::through`), and only if that daemon has ended by its name.
pub fn use_door(door: OwnedFd) {
    // It may be unknown later, in another root directory.
    let _ = NetNamespace::own();
    // There is one daemon for a process.
    let _ = DOOR.set(door);
}

/// A daemon that contexts attach to, each by a channel of its own.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    facts: Vec<(&'static str, String)>,
    /// For the first of them.
    first: Mutex<Option<Attached>>,
}

impl Daemon {
    /// Attaches to the daemon of this name, or that of this network namespace if it is empty.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub(crate) fn attach(name: &str) -> Result<Self, SetupError> {
        let attached = attach(name)?;
        let welcome = attached.session.welcome();
        Ok(Self {
            name: name.to_owned(),
            facts: vec![
                ("daemon", welcome.name.clone()),
                ("process", welcome.pid.to_string()),
                ("links", welcome.links.clone()),
            ],
            first: Mutex::new(Some(attached)),
        })
    }

    /// Who it is, for people.
    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }

    /// A context on its stack.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub(crate) fn context(&self, core: usize, config: &Config) -> Result<Context, SetupError> {
        let attached = {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.take()
        };
        let Attached {
            session,
            attachment,
        } = attached.map_or_else(|| attach(&self.name), Ok)?;
        Context::attach(attachment, Some(session), config, core)
    }
}

/// Looks for the daemon that the link of `config` names, and takes its addresses and routes. With
/// another link nothing is done.
///
/// # Errors
/// One line with cause and remedy.
pub fn take_daemon(config: &mut Config) -> Result<(), SetupError> {
    let IoSpec::Daemon(name) = config.link()? else {
        return Ok(());
    };
    let session = find_daemon(&name)?;
    let lines = session.settings().map_err(said)?;
    take_lines(config, &lines)
}

/// What a daemon tells programs of its stack: keys of mtcp.conf.
const TOLD: [&str; 5] = ["addr", "port", "follow_kernel", "gateway", "route"];

/// Has these count in place of what the program's own settings say of a stack. A daemon says
/// nothing else of a program, least of all where it writes files.
fn take_lines(config: &mut Config, lines: &str) -> Result<(), SetupError> {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_owned());
    let is_told = |line| key(line).is_some_and(|key| TOLD.contains(&key.as_str()));
    if !lines.lines().all(is_told) {
        return Err(nonsense());
    }
    config.addresses.clear();
    config.gateways.clear();
    config.routes.clear();
    config.read(lines, "the daemon")?;
    config.host = false;
    Ok(())
}

/// What of a stack's settings programs have to know before they attach, as lines that
/// [`take_daemon`] reads: its addresses, where its routes lead, and the interface.
pub fn settings_for_programs(config: &Config) -> String {
    let addresses = config.addresses.iter();
    let addresses: String = addresses
        .map(|Cidr { addr, prefix_len }| format!("addr = {addr}/{prefix_len}\n"))
        .collect();
    let line = |name: &str| {
        let mut keys = crate::config::keys().iter();
        let value = keys.find(|key| key.name == name)?.show(config);
        (!value.is_empty()).then(|| format!("{name} = {value}\n"))
    };
    let of_kernel = matches!(config.io, IoSpec::Afxdp(_) | IoSpec::Packet(_));
    let interface = of_kernel.then(|| format!("port = {}\n", config.io.name()));
    [Some(addresses), interface]
        .into_iter()
        .chain(["follow_kernel", "gateway", "route"].map(line))
        .flatten()
        .collect()
}

fn attach(name: &str) -> Result<Attached, SetupError> {
    let session = find_daemon(name)?;
    let channels = session.attach().map_err(said)?;
    let Some(first) = channels.into_iter().next() else {
        return Err(SetupError(
            "the daemon has no stack: start it again".to_owned(),
        ));
    };
    let descriptors = first.descriptors.try_into().ok();
    let words = first.channel.words.first_chunk().copied();
    let attachment = descriptors
        .zip(words)
        .and_then(|(descriptors, words)| Attachment::from_parts(descriptors, words));
    match attachment {
        Some(attachment) => Ok(Attached {
            session,
            attachment,
        }),
        None => Err(nonsense()),
    }
}

fn nonsense() -> SetupError {
    SetupError("the daemon says what means nothing: use the build of mTCP that it is of".to_owned())
}

fn said(error: control::Error) -> SetupError {
    SetupError(error.to_string())
}

/// The daemon of this name, which may have the directory of its socket before it; that of this
/// network namespace if the name is empty.
///
/// # Errors
/// One line with cause and remedy.
pub fn find_daemon(name: &str) -> Result<Session, SetupError> {
    let build = service::build();
    if let Some(door) = DOOR.get()
        && let Found::Session(session) = Session::through(door, &build).map_err(said)?
    {
        return Ok(session);
    }
    let places = || -> Vec<Place> { [Place::system()].into_iter().chain(Place::own()).collect() };
    let found = match name.rsplit_once('/') {
        Some((directory, name)) => client::named(&[Place::shared(directory)], name, &build),
        None if name.is_empty() => of_namespace(&places()),
        None => client::named(&places(), name, &build),
    };
    match found.map_err(said)? {
        Found::Session(session) => Ok(session),
        Found::Nobody(error) => Err(said(error)),
    }
}

/// The daemon of this network namespace in the first place that has one.
fn of_namespace(places: &[Place]) -> Result<Found, control::Error> {
    let mut nobody = None;
    for place in places {
        match client::of_namespace(place, &service::build())? {
            Found::Session(session) => return Ok(Found::Session(session)),
            Found::Nobody(error) => nobody = nobody.or(Some(error)),
        }
    }
    Ok(Found::Nobody(nobody.unwrap_or_else(|| {
        control::Error::new(
            rustix::io::Errno::NOENT,
            "there is no directory for daemons",
            "start one with 'mtcp daemon'",
        )
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_hear_where_the_routes_of_a_stack_lead() {
        let mut stack = Config::default();
        for (key, value) in [
            ("io", "afxdp:eth0"),
            ("addr", "10.0.0.2/24 fd00::2/64"),
            ("gateway", "10.0.0.1"),
            ("route", "10.9.0.0/16@10.0.0.3"),
            ("cc", "bbr"),
        ] {
            stack.set(key, value).unwrap();
        }
        let mut program = Config::default();
        // What a file for a stack of its own would say.
        program.set("gateway", "10.0.0.9").unwrap();
        program.set("route", "10.8.0.0/16@10.0.0.9").unwrap();
        take_lines(&mut program, &settings_for_programs(&stack)).unwrap();
        assert_eq!(program.addresses, stack.addresses);
        assert_eq!(program.gateways, stack.gateways);
        assert_eq!(program.routes, stack.routes);
        assert_eq!(program.follow_kernel, stack.follow_kernel);
        assert_eq!(program.interfaces, ["eth0"]);
        assert_eq!(program.congestion, Config::default().congestion);
    }

    /// A program may attach to the daemon of another user.
    #[test]
    fn a_daemon_says_nothing_of_a_program_but_what_its_stack_is() {
        for lines in [
            "addr = 10.0.0.2/24\npcap = /home/user/.profile\n",
            "addr = 10.0.0.2/24\nio = tap:t0\n",
            "[addr]\n",
            "# addr = 10.0.0.2/24\n",
        ] {
            let mut program = Config::default();
            let refused = take_lines(&mut program, lines).unwrap_err();
            assert_eq!(refused.to_string(), nonsense().to_string(), "{lines}");
            assert_eq!((program.pcap, program.io), (None, Config::default().io));
        }
    }
}
