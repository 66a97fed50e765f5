//! Where who wants an interface asks the executor that has it: a socket that only the same user and
//! root reach. The one asks with what its stacks have ([`Terms`]); the other leaves what it has,
//! refuses while its program lives, or ends.

use std::fs::{DirBuilder, File};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{array, fs, io};

use ::io::poll::{self, PollFd, PollFlags};
use rustix::cmsg_space;
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, recvmsg, send, sendmsg, socket_with, sockopt,
};
use rustix::process::geteuid;

use crate::config::Config;

/// Those who ask at a time.
const BACKLOG: i32 = 8;
/// Longest wait for an executor to leave, which takes it a second.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest wait for the question of one that has come.
const PROMPT: Duration = Duration::from_millis(100);
const LEFT: u8 = b'l';
const REFUSED: u8 = b'r';
const WORDS: usize = 4;

/// What stacks must have in common to take each other's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms([u64; WORDS]);

impl Terms {
    pub(crate) fn of(config: &Config) -> Self {
        let holdings = config.holdings();
        Self([
            config.processes.max(1).into(),
            holdings.connections.into(),
            holdings.send_pool as u64,
            holdings.max_buffer.into(),
        ])
    }

    fn bytes(&self) -> [u8; WORDS * 8] {
        let all: Vec<u8> = self.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        array::from_fn(|at| all.get(at).copied().unwrap_or_default())
    }
}

/// What became of a question.
#[derive(Debug)]
pub(crate) enum Answer {
    /// There is no executor, or it waits beside a program that lives.
    Nobody,
    /// It is about to end.
    Ended,
    /// The same, and this is what it had.
    Left([OwnedFd; 2]),
}

/// The executor's side.
#[derive(Debug)]
pub(crate) struct Door {
    socket: OwnedFd,
    path: PathBuf,
}

/// One that asks.
#[derive(Debug)]
pub(crate) struct Guest {
    socket: OwnedFd,
    terms: Option<Terms>,
}

impl Door {
    /// `None`: another executor is there, or there is no place for a door.
    pub(crate) fn open(interface: &str) -> Option<Self> {
        let path = path(interface).ok()?;
        // Only processes of this user can take it. Two that find the door of a dead one must not
        // both remove it.
        let directory = File::open(path.parent()?).ok()?;
        flock(&directory, FlockOperation::LockExclusive).ok()?;
        if connect(&socket().ok()?, &SocketAddrUnix::new(&path).ok()?).is_ok() {
            return None;
        }
        let _ = fs::remove_file(&path);
        let open = || {
            let socket = socket()?;
            bind(&socket, &SocketAddrUnix::new(&path)?)?;
            listen(&socket, BACKLOG)?;
            Ok::<_, rustix::io::Errno>(socket)
        };
        let socket = open().ok()?;
        Some(Self { socket, path })
    }

    /// To wait for the next.
    pub(crate) fn poll(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }

    /// The next that is to be heard.
    pub(crate) fn accept(&self) -> Option<Guest> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = accept_with(&self.socket, flags).ok()?;
        if !is_trusted(&socket) {
            return None;
        }
        wait(&socket, PROMPT).ok()?;
        let mut bytes = [0; WORDS * 8];
        let (len, _) = recv(&socket, &mut bytes, RecvFlags::empty()).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let words = array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word)));
        let terms = (len == bytes.len()).then_some(Terms(words));
        Some(Guest { socket, terms })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // What stays behind nobody listens at.
        let _ = fs::remove_file(&self.path);
    }
}

impl Guest {
    pub(crate) fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// The interface is somebody else's.
    pub(crate) fn refuse(self) {
        // It sees the end, too.
        let _ = send(&self.socket, &[REFUSED], SendFlags::NOSIGNAL);
    }

    pub(crate) fn give(&self, fds: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let word = [IoSlice::new(&[LEFT])];
        sendmsg(&self.socket, &word, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Asks the executor of an interface to leave it. `terms`: those on which its connections would be
/// gone on with.
pub(crate) fn ask(interface: &str, terms: Option<&Terms>) -> Answer {
    let Ok(socket) = knock(interface) else {
        return Answer::Nobody;
    };
    if !is_trusted(&socket) {
        return Answer::Nobody;
    }
    let question = terms.map_or_else(|| vec![0], |terms| terms.bytes().to_vec());
    let asked = send(&socket, &question, SendFlags::NOSIGNAL);
    if asked.is_err() || wait(&socket, PATIENCE).is_err() {
        return Answer::Ended;
    }
    hear(&socket).unwrap_or(Answer::Ended)
}

fn knock(interface: &str) -> io::Result<OwnedFd> {
    let socket = socket()?;
    connect(&socket, &SocketAddrUnix::new(path(interface)?)?)?;
    Ok(socket)
}

fn hear(socket: &OwnedFd) -> io::Result<Answer> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let mut words = [IoSliceMut::new(&mut word)];
    recvmsg(socket, &mut words, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = rights.flatten().collect();
    Ok(match (word, <[OwnedFd; 2]>::try_from(fds)) {
        ([REFUSED], _) => Answer::Nobody,
        ([LEFT], Ok(fds)) => Answer::Left(fds),
        _ => Answer::Ended,
    })
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Where the door of an interface is: in a directory of this user's alone, under a name of the
/// network namespace that the interface is in. An abstract name would be anybody's.
///
/// # Errors
/// There is no such directory, and none can be made.
pub(crate) fn path(interface: &str) -> io::Result<PathBuf> {
    if interface.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(directory()?.join(format!("executor-{namespace}-{interface}")))
}

fn directory() -> io::Result<PathBuf> {
    let user = geteuid();
    let run = if user.is_root() {
        PathBuf::from("/run/mtcp-takeover")
    } else {
        PathBuf::from(format!("/run/user/{}/mtcp", user.as_raw()))
    };
    let shared = PathBuf::from(format!("/tmp/mtcp-{}", user.as_raw()));
    own(&run).or_else(|_| own(&shared))
}

/// The directory, made if it is not there, and only if nobody else can do anything in it.
pub(super) fn own(path: &Path) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let ours = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
    if ours {
        Ok(path.to_owned())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn is_trusted(socket: &OwnedFd) -> bool {
    let peer = sockopt::socket_peercred(socket);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}

fn wait(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    match poll::sleep(&mut fds, Some(timeout))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}
