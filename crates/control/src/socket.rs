//! One message over a socket that keeps their bounds, with the descriptors that come with it.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    getpeername, recvmsg, sendmsg, socket_with, socketpair, sockopt,
};

use crate::message::{DESCRIPTORS_MAX, MESSAGE_MAX};

/// What came.
#[derive(Debug)]
pub(crate) struct Received {
    /// Empty: the peer is gone.
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// What cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call failed.
    Errno(Errno),
    /// The message is longer than any of ours.
    TooLong,
    /// More descriptors than any message has, or none could be made here (MSG_CTRUNC).
    DescriptorsLost,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// A socket of the kind that both ends have.
pub(crate) fn open(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// A connection of that kind, both ends of which are here.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// The name of the socket that this one is connected to, for people; empty where it has none.
pub(crate) fn peer_path(socket: impl AsFd) -> PathBuf {
    let name = getpeername(socket).ok().flatten();
    let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
    let path = name.as_ref().and_then(SocketAddrUnix::path);
    path.map(|path| PathBuf::from(OsStr::from_bytes(path.to_bytes())))
        .unwrap_or_default()
}

/// Whether it is a socket of that kind, with which no call waits that is told not to.
pub(crate) fn is_of_our_kind(socket: &OwnedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
}

/// Receives one message. Descriptors that come with it are closed with what is returned, also where
/// they are unexpected.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<Received, Fault> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg(socket, &mut parts, &mut control, flags)?;
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Fault::DescriptorsLost);
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(Fault::TooLong);
    }
    bytes.truncate(message.bytes);
    Ok(Received { bytes, descriptors })
}

/// Sends one message.
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let parts = [IoSlice::new(bytes)];
    let sent = sendmsg(socket, &parts, &mut control, flags | SendFlags::NOSIGNAL)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(Errno::MSGSIZE)
    }
}
