//! Programs that come to a daemon by way of a connection that they share.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use common::{Daemon, build, dial, hello, is_dropped};
use control::Error;
use control::client::{Found, Session};
use control::message::Request;
use control::server::{DropReason, Listener, Server};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    send, sendmsg, socketpair,
};
use rustix::process::{Gid, Uid, geteuid};

fn through(door: &Session) -> Result<Session, Error> {
    match Session::through(door.socket(), &build())? {
        Found::Session(session) => Ok(session),
        Found::Nobody(error) => Err(error),
    }
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Hands over these as if they were a program's connections.
fn introduce(door: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let message = Request::Introduce.emit(&build());
    let parts = [IoSlice::new(&message)];
    sendmsg(door, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn a_program_comes_by_the_connection_of_another() {
    let daemon = Daemon::new("");
    let door = daemon.join().unwrap();
    let sessions = [through(&door).unwrap(), through(&door).unwrap()];
    for session in &sessions {
        assert_eq!(session.welcome(), door.welcome());
        assert_eq!(session.attach().unwrap().len(), 2);
    }
    // It may do all the same what it may do.
    assert_eq!(door.status().unwrap().overview.attached, 2);
    assert_eq!(door.attach().unwrap().len(), 2);
    // Each ends by itself.
    let [first, second] = sessions;
    drop((door, first));
    daemon.wait("two are detached", |daemon| {
        daemon.stacks.detached.lock().unwrap().len() == 2
    });
    assert_eq!(second.status().unwrap().clients.len(), 1);
}

/// A directory that nobody else may enter keeps out who comes by its name, and no other: who has a
/// connection was given it.
#[test]
fn a_process_that_became_another_user_comes_as_that() {
    if !geteuid().is_root() {
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), "skipped: other users need root");
        return;
    }
    let daemon = Daemon::new("attach = 1001");
    let door = daemon.join().unwrap();
    let come = |uid: u32| {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let session = through(&door)?;
        session.attach()?;
        Ok(session.status()?.clients)
    };
    std::thread::scope(|scope| {
        let rows: Result<_, Error> = scope.spawn(|| come(1001)).join().unwrap();
        let uids: Vec<u32> = rows.unwrap().iter().map(|row| row.uid).collect();
        assert_eq!(uids, [1001]);
        // The policy is asked of who comes, not of whom the connection is.
        let error = scope.spawn(|| come(1002)).join().unwrap().unwrap_err();
        assert!(error.to_string().contains("user 1002 may not"), "{error}");
    });
    assert_eq!(door.status().unwrap().overview.connected, 1);
}

#[test]
fn what_is_no_connection_of_a_program_ends_the_one_it_comes_by() {
    let daemon = Daemon::new("");
    let good = daemon.join().unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let stream = pair(SocketType::STREAM);
    let [first, second] = [pair(SocketType::SEQPACKET), pair(SocketType::SEQPACKET)];
    let cases: [&[BorrowedFd<'_>]; 4] = [
        &[],
        &[write.as_fd()],
        &[stream.0.as_fd()],
        &[first.0.as_fd(), second.0.as_fd()],
    ];
    for case in cases {
        let socket = dial(&daemon.path());
        send(&socket, &hello(), SendFlags::empty()).unwrap();
        introduce(socket.as_fd(), case);
        assert!(is_dropped(&socket), "{case:?}");
    }
    daemon.wait("they are counted", |daemon| {
        daemon.drops(DropReason::Descriptors) == cases.len() as u64
    });
    // Nothing of it is kept.
    drop((write, stream.0, first.0, second.0));
    assert_eq!(rustix::io::read(&read, &mut [0]).unwrap(), 0);
    for end in [stream.1, first.1, second.1] {
        assert_eq!(rustix::io::read(&end, &mut [0]).unwrap(), 0);
    }
    // Who has not said hello introduces nobody.
    let (ours, theirs) = pair(SocketType::SEQPACKET);
    let socket = dial(&daemon.path());
    introduce(socket.as_fd(), &[theirs.as_fd()]);
    drop(theirs);
    assert!(is_dropped(&socket) && is_dropped(&ours));
    assert_eq!(good.attach().unwrap().len(), 2);
}

#[test]
fn who_was_introduced_says_hello_or_goes() {
    let daemon = Daemon::new("");
    let door = daemon.join().unwrap();
    let (ours, theirs) = pair(SocketType::SEQPACKET);
    introduce(door.socket(), &[theirs.as_fd()]);
    drop(theirs);
    assert!(is_dropped(&ours));
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::NoHello) == 1
    });
    assert!(through(&door).is_ok());
}

#[test]
fn by_the_connection_to_one_that_has_ended_nobody_comes() {
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    let listener = Listener::open(&place, "x", Duration::ZERO).unwrap();
    let stacks = std::sync::Arc::new(common::Counting::default());
    let server = Server::new(listener, build(), stacks, std::sync::Arc::default()).unwrap();
    let door = dial(&place.socket("x"));
    drop(server);
    let found = Session::through(&door, &build()).unwrap();
    let Found::Nobody(error) = found else {
        panic!("it has ended");
    };
    assert!(error.to_string().contains("has ended"), "{error}");
}
