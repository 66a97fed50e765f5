//! A program's end of the control socket. Every call has a deadline; every failure is one line.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, connect,
    sockopt::{self, Timeout},
};

use crate::message::{
    Channel, ClientRow, Envelope, Hello, Overview, Reply, Request, SocketRow, Welcome,
};
use crate::place::{Place, check_name};
use crate::socket::{self, Fault, Received};
use crate::{Build, Error, NetNamespace};

/// Within what a daemon must answer. It does so at once, unless it is stopped.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Rows that are read of a daemon at most.
const ROWS_MAX: usize = 1 << 20;
/// Bytes of settings that are read of a daemon, about.
const SETTINGS_MAX: usize = 16 << 20;
/// Pieces in which a daemon lists its sockets at most.
const PAGES_MAX: u32 = 1 << 20;
/// Stacks that a daemon has at most.
const CHANNELS_MAX: u32 = 1024;

/// A daemon that greeted us. When this is dropped, the daemon takes the program for gone.
#[derive(Debug)]
pub struct Session {
    socket: OwnedFd,
    build: Build,
    welcome: Welcome,
}

/// A daemon that was looked for.
#[derive(Debug)]
pub enum Found {
    /// It is there.
    Session(Session),
    /// None answers: none was started, it ended, or it ends. Why not, for people.
    Nobody(Error),
}

/// A channel that the daemon made for this program.
#[derive(Debug)]
pub struct Attached {
    /// What describes it.
    pub channel: Channel,
    /// Its descriptors, closed on exec.
    pub descriptors: Vec<OwnedFd>,
}

/// A daemon and who is attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The daemon.
    pub overview: Overview,
    /// Those programs that we may see.
    pub clients: Vec<ClientRow>,
}

/// The daemon of this name in the first of `places` that has one, if it is of this network
/// namespace.
///
/// # Errors
/// It is of another build or another namespace, refuses this user, does not answer, or its
/// directory cannot be trusted.
pub fn named(places: &[Place], name: &str, build: &Build) -> Result<Found, Error> {
    check_name(name)?;
    let own = NetNamespace::own()?;
    let mut nobody = nobody(&format!("no daemon '{name}' runs"));
    for place in places {
        match enter(place, name, build, own)? {
            Found::Session(session) if session.welcome.namespace == own => {
                return Ok(Found::Session(session));
            }
            Found::Session(session) => return Err(session.of_another_namespace(own)),
            Found::Nobody(why) if why.errno() == Errno::NOENT => {}
            Found::Nobody(why) => nobody = why,
        }
    }
    Ok(Found::Nobody(nobody))
}

/// The daemon of this network namespace in `place`: the default one, if it is of this namespace,
/// else the first that is.
///
/// # Errors
/// As [`named`], where there is no other.
pub fn of_namespace(place: &Place, build: &Build) -> Result<Found, Error> {
    let own = NetNamespace::own()?;
    let mut failure = None;
    let mut nobody = nobody("no daemon runs in this network namespace");
    if !place.check()? {
        return Ok(Found::Nobody(nobody));
    }
    for name in place.names() {
        match enter(place, &name, build, own) {
            Ok(Found::Session(session)) if session.welcome.namespace == own => {
                return Ok(Found::Session(session));
            }
            Ok(Found::Session(session)) => nobody = session.of_another_namespace(own),
            Ok(Found::Nobody(_)) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(Found::Nobody(nobody)), Err)
}

/// The daemon of this name, of whatever network namespace: to ask how it is.
///
/// # Errors
/// As [`named`].
pub fn any_namespace(place: &Place, name: &str, build: &Build) -> Result<Found, Error> {
    check_name(name)?;
    enter(place, name, build, NetNamespace::own()?)
}

fn nobody(cause: &str) -> Error {
    Error::new(Errno::NOENT, cause, "start one with 'mtcp daemon'")
}

/// Connects to the daemon `name` in `place`, and says hello. Its namespace is for the caller to
/// compare.
fn enter(place: &Place, name: &str, build: &Build, own: NetNamespace) -> Result<Found, Error> {
    if !place.check()? {
        return Ok(Found::Nobody(nobody(&format!("no daemon '{name}' runs"))));
    }
    Session::open(&place.socket(name), build, own)
}

impl Session {
    /// Connects to the socket at `path`.
    fn open(path: &Path, build: &Build, own: NetNamespace) -> Result<Found, Error> {
        if fs::symlink_metadata(path).is_err() {
            let cause = format!("no daemon listens at '{}'", path.display());
            return Ok(Found::Nobody(nobody(&cause)));
        }
        let end = Instant::now() + ANSWER_TIMEOUT;
        let socket = match dial(path, end) {
            Ok(socket) => socket,
            // Left by one that was killed, or removed this moment.
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(Found::Nobody(ended(path))),
            Err(errno) => return Err(unreachable(path, errno)),
        };
        Self::greet(socket, path, build, own, end)
    }

    /// A connection of this process's own to the daemon that `door` is connected to, which other
    /// processes may have and use as well. So a daemon is reached whose socket is not: from another
    /// root directory, or as another user.
    ///
    /// # Errors
    /// As [`named`].
    pub fn through(door: impl AsFd, build: &Build) -> Result<Found, Error> {
        let own = NetNamespace::own()?;
        let path = socket::peer_path(&door);
        let end = Instant::now() + ANSWER_TIMEOUT;
        match introduce(&door, build, end) {
            Ok(socket) => Self::greet(socket, &path, build, own, end),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Ok(Found::Nobody(ended(&path))),
            Err(errno) => Err(unreachable(&path, errno)),
        }
    }

    /// Says hello over a new connection. `path`: to whom it leads, for people.
    fn greet(
        socket: OwnedFd,
        path: &Path,
        build: &Build,
        own: NetNamespace,
        end: Instant,
    ) -> Result<Found, Error> {
        let hello = Request::Hello(Hello {
            build: build.name().to_owned(),
            namespace: own,
        });
        let answer = match ask(&socket, &hello, build, end) {
            // It ended before it came to us.
            Err(Asked::Errno(Errno::CONNRESET | Errno::PIPE)) => {
                return Ok(Found::Nobody(ended(path)));
            }
            Err(Asked::Errno(errno)) => Err(unreachable(path, errno)),
            Err(Asked::Error(error)) => Err(error),
            Ok(answer) => Ok(answer),
        };
        match answer {
            Ok((Reply::Welcome(welcome), _)) => Ok(Found::Session(Self {
                socket,
                build: build.clone(),
                welcome,
            })),
            Ok(_) => Err(nonsense()),
            Err(error) if error.errno() == Errno::SHUTDOWN => Ok(Found::Nobody(error)),
            Err(error) => Err(error),
        }
    }

    /// What the daemon said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The socket of the daemon.
    pub fn path(&self) -> PathBuf {
        socket::peer_path(&self.socket)
    }

    /// Becomes readable, and no request is under way, when the daemon is gone.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The connection itself, for who watches it together with others.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// One channel to each stack.
    ///
    /// # Errors
    /// The daemon refuses, or does not answer.
    pub fn attach(&self) -> Result<Vec<Attached>, Error> {
        let end = Instant::now() + ANSWER_TIMEOUT;
        let count = match self.ask(&Request::Attach, end)? {
            Reply::Attached { channels } if channels <= CHANNELS_MAX => channels,
            _ => return Err(nonsense()),
        };
        let channel = |_| {
            let answer = answer(&self.socket, &self.build, end);
            match answer.map_err(|asked| self.error(asked))? {
                (Reply::Channel(channel), descriptors)
                    if descriptors.len() == channel.descriptors as usize =>
                {
                    Ok(Attached {
                        channel,
                        descriptors,
                    })
                }
                _ => Err(nonsense()),
            }
        };
        (0..count).map(channel).collect()
    }

    /// What a program has to know of the stack before it attaches: lines of the settings file.
    ///
    /// # Errors
    /// As [`Session::attach`].
    pub fn settings(&self) -> Result<String, Error> {
        let end = Instant::now() + ANSWER_TIMEOUT;
        let (mut all, mut from) = (String::new(), 0);
        loop {
            match self.ask(&Request::Settings { from }, end)? {
                Reply::Settings { lines, next } if all.len() < SETTINGS_MAX => {
                    all += &lines;
                    if next == 0 {
                        return Ok(all);
                    }
                    from = after(from, next)?;
                }
                _ => return Err(nonsense()),
            }
        }
    }

    /// How the daemon is, and who is attached.
    ///
    /// # Errors
    /// As [`Session::attach`].
    pub fn status(&self) -> Result<Status, Error> {
        let end = Instant::now() + ANSWER_TIMEOUT;
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            match self.ask(&Request::Status { from }, end)? {
                Reply::Status {
                    overview,
                    clients,
                    next,
                } => {
                    all.extend(clients);
                    if next == 0 || all.len() > ROWS_MAX {
                        return Ok(Status {
                            overview,
                            clients: all,
                        });
                    }
                    from = after(from, next)?;
                }
                _ => return Err(nonsense()),
            }
        }
    }

    /// The sockets of this user; of all users for root and the daemon's own. The list is made while
    /// sockets come and go.
    ///
    /// # Errors
    /// As [`Session::attach`].
    pub fn sockets(&self) -> Result<Vec<SocketRow>, Error> {
        let (mut all, mut from) = (Vec::new(), 0);
        for _ in 0..PAGES_MAX {
            // A list may be long; it is made as fast as the stack has time for it.
            let end = Instant::now() + ANSWER_TIMEOUT;
            match self.ask(&Request::Sockets { from }, end)? {
                Reply::Sockets { sockets, next } => {
                    all.extend(sockets);
                    if next == 0 {
                        return Ok(all);
                    }
                    from = after(from, next)?;
                }
                _ => return Err(nonsense()),
            }
        }
        Err(nonsense())
    }

    fn ask(&self, request: &Request, end: Instant) -> Result<Reply, Error> {
        match ask(&self.socket, request, &self.build, end) {
            // Those that come where none belong are closed here.
            Ok((reply, _)) => Ok(reply),
            Err(asked) => Err(self.error(asked)),
        }
    }

    fn error(&self, asked: Asked) -> Error {
        match asked {
            Asked::Error(error) => error,
            Asked::Errno(errno) => Error::new(
                errno,
                format!(
                    "the daemon '{}' does not answer: {errno}",
                    self.welcome.name
                ),
                format!("see what process {} does", self.welcome.pid),
            ),
        }
    }

    fn of_another_namespace(&self, own: NetNamespace) -> Error {
        let Welcome {
            name, namespace, ..
        } = &self.welcome;
        Error::new(
            Errno::NOENT,
            format!(
                "the daemon '{name}' is of another network namespace ({namespace}) than this program ({own})"
            ),
            "start one here, with another --name",
        )
    }
}

/// Why there is no answer.
enum Asked {
    Errno(Errno),
    Error(Error),
}

/// A daemon goes on where it says, and not in circles.
fn after(from: u64, next: u64) -> Result<u64, Error> {
    if next > from {
        Ok(next)
    } else {
        Err(nonsense())
    }
}

fn nonsense() -> Error {
    Error::new(
        Errno::PROTO,
        "the daemon answers what was not asked for",
        "use one build for programs and daemon",
    )
}

fn ended(path: &Path) -> Error {
    let cause = format!("the daemon of '{}' has ended", path.display());
    Error::new(Errno::CONNREFUSED, cause, "start it again")
}

fn unreachable(path: &Path, errno: Errno) -> Error {
    let remedy = match errno {
        Errno::ACCESS => "have its owner start it so that this user may use it",
        Errno::AGAIN | Errno::TIMEDOUT => "see whether it is stopped",
        _ => "restart it",
    };
    let errno = if errno == Errno::AGAIN {
        Errno::TIMEDOUT
    } else {
        errno
    };
    let cause = format!(
        "the daemon at '{}' cannot be reached: {errno}",
        path.display()
    );
    Error::new(errno, cause, remedy)
}

/// A connection of this process's own, made by way of one that it shares with others.
fn introduce(door: impl AsFd, build: &Build, end: Instant) -> Result<OwnedFd, Errno> {
    let (ours, theirs) = socket::pair()?;
    let message = Request::Introduce.emit(build);
    loop {
        // How long calls wait on it is for all who share it.
        match socket::send(&door, &message, &[theirs.as_fd()], SendFlags::DONTWAIT) {
            Ok(()) => return Ok(ours),
            Err(Errno::AGAIN) if Instant::now() < end => {}
            Err(errno) => return Err(errno),
        }
        let timeout = Timespec::try_from(end.saturating_duration_since(Instant::now()));
        let mut fds = [PollFd::new(&door, PollFlags::OUT)];
        match poll(&mut fds, timeout.ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// A connection to `path` by `end`. While many others wait to be accepted it waits, too.
fn dial(path: &Path, end: Instant) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket::open(SocketFlags::empty())?;
    loop {
        set_timeouts(&socket, end)?;
        match connect(&socket, &address) {
            Err(Errno::INTR) => {}
            done => return done.map(|()| socket),
        }
    }
}

/// How long calls wait from now on.
fn set_timeouts(socket: &OwnedFd, end: Instant) -> Result<(), Errno> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Errno::TIMEDOUT);
    }
    let left = Some(left.max(Duration::from_millis(1)));
    sockopt::set_socket_timeout(socket, Timeout::Send, left)?;
    sockopt::set_socket_timeout(socket, Timeout::Recv, left)
}

fn ask(
    socket: &OwnedFd,
    request: &Request,
    build: &Build,
    end: Instant,
) -> Result<(Reply, Vec<OwnedFd>), Asked> {
    let bytes = request.emit(build);
    loop {
        set_timeouts(socket, end).map_err(Asked::Errno)?;
        match socket::send(socket, &bytes, &[], SendFlags::empty()) {
            Err(Errno::INTR) => {}
            // It may have said why before it went.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => break,
            Err(errno) => return Err(Asked::Errno(errno)),
        }
    }
    answer(socket, build, end)
}

/// What the daemon answers: never a refusal, which is an error.
fn answer(socket: &OwnedFd, build: &Build, end: Instant) -> Result<(Reply, Vec<OwnedFd>), Asked> {
    let Received { bytes, descriptors } = wait(socket, end)?;
    let odd = |what: &dyn std::fmt::Display| {
        Asked::Error(Error::new(
            Errno::PROTO,
            format!("the daemon sent {what}"),
            "use one build for programs and daemon",
        ))
    };
    let envelope = Envelope::parse(&bytes).map_err(|error| odd(&error))?;
    let reply = Reply::parse(&envelope);
    match reply {
        Ok(Reply::Refused(refused)) => {
            Err(Asked::Error(Error::new(refused.errno, refused.line, "")))
        }
        _ if !envelope.fits(build) => Err(odd(&"an answer of another build of mTCP")),
        Ok(reply) => Ok((reply, descriptors)),
        Err(error) => Err(odd(&error)),
    }
}

fn wait(socket: &OwnedFd, end: Instant) -> Result<Received, Asked> {
    let mut resets = 0;
    loop {
        set_timeouts(socket, end).map_err(Asked::Errno)?;
        match socket::receive(socket, RecvFlags::empty()) {
            Ok(received) if received.bytes.is_empty() => {
                return Err(Asked::Errno(Errno::CONNRESET));
            }
            Ok(received) => return Ok(received),
            Err(Fault::Errno(Errno::INTR)) => {}
            // Linux tells of a connection that was closed with something unread first, and gives
            // what lies there to the next call.
            Err(Fault::Errno(Errno::CONNRESET)) if resets == 0 => resets += 1,
            Err(Fault::Errno(errno)) => return Err(Asked::Errno(errno)),
            Err(Fault::TooLong) => return Err(Asked::Errno(Errno::MSGSIZE)),
            Err(Fault::DescriptorsLost) => {
                let cause = "descriptors of the daemon were lost";
                let remedy = "raise the limit of open files (ulimit -n)";
                return Err(Asked::Error(Error::new(Errno::MFILE, cause, remedy)));
            }
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        Self::new(kind, error)
    }
}
