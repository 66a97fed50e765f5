//! Where who wants an interface asks the executor that has it: a socket with the name of the interface, which only the same user and root
//! are heard at. The one asks with what its stacks have ([`Terms`]); the other leaves what it has, refuses while its program lives, or
//! ends.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{array, io};

use ::io::poll::{self, PollFd, PollFlags};
use rustix::cmsg_space;
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
pub(crate) struct Door(OwnedFd);

/// One that asks.
#[derive(Debug)]
pub(crate) struct Guest {
    socket: OwnedFd,
    terms: Option<Terms>,
}

impl Door {
    /// `None`: another executor is there.
    pub(crate) fn open(interface: &str) -> Option<Self> {
        let open = || {
            let socket = socket()?;
            bind(&socket, &address(interface)?)?;
            listen(&socket, BACKLOG)?;
            Ok::<_, rustix::io::Errno>(Self(socket))
        };
        open().ok()
    }

    /// To wait for the next.
    pub(crate) fn poll(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }

    /// The next that is to be heard.
    pub(crate) fn accept(&self) -> Option<Guest> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = accept_with(&self.0, flags).ok()?;
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

/// Asks the executor of an interface to leave it. `terms`: those on which its connections would be gone on with.
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

fn knock(interface: &str) -> rustix::io::Result<OwnedFd> {
    let socket = socket()?;
    connect(&socket, &address(interface)?)?;
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

/// Abstract: of the network namespace that the interface is in.
fn address(interface: &str) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(name(interface).as_bytes())
}

/// The name of the door of an interface.
pub(crate) fn name(interface: &str) -> String {
    format!("mtcp-executor-{interface}")
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
