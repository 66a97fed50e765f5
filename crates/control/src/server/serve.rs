//! What programs ask for.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::clients::Stage;
use super::{ACCEPTS_MAX, Client, ClientId, DropReason, Server, Stacks, drops};
use crate::message::{DESCRIPTORS_MAX, Envelope, Hello, Overview, Refused, Reply, Request};
use crate::policy::Credentials;
use crate::socket::{self, Fault, Received};
use crate::{Error, sys};

impl<S: Stacks> Server<S> {
    /// Accepts who waits, some at a time so that others have their turn.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(socket) => self.admit(socket),
                Err(Errno::MFILE | Errno::NFILE) => {
                    let Self {
                        reserve, listener, ..
                    } = self;
                    let accepted = reserve.lend(|| listener.accept().is_ok());
                    self.clients.drops.count(DropReason::TooMany);
                    log::warn!(
                        "no descriptors are left for more programs: raise the limit of open files (ulimit -n, LimitNOFILE=)"
                    );
                    if !accepted {
                        return;
                    }
                }
                // The connection went meanwhile.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        let credentials = match credentials(&socket) {
            Ok(credentials) => credentials,
            Err(errno) => {
                self.clients.drops.count(DropReason::Forbidden);
                log::warn!("a program was turned away: the kernel does not say who it is: {errno}");
                return;
            }
        };
        let policy = self.policy.get();
        let budget = policy.budget(&credentials);
        let refusal = if !self.clients.has_room(&credentials, budget.programs) {
            Some((DropReason::TooMany, drops::refusal(DropReason::TooMany)))
        } else {
            let allowed = policy.allows_attach(&credentials);
            allowed.err().map(|error| (DropReason::Forbidden, error))
        };
        if let Some((reason, error)) = refusal {
            self.clients.drops.count(reason);
            log::warn!(
                "a program of user {} was turned away: {}",
                credentials.uid,
                reason.text()
            );
            self.refuse(&socket, &error);
            return;
        }
        let id = self.clients.next_id();
        let data = epoll::EventData::new_u64(id.0);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if let Err(errno) = epoll::add(&self.epoll, &socket, data, flags) {
            self.clients.drops.count(DropReason::TooMany);
            log::warn!("a program was turned away: the kernel watches no more: {errno}");
            self.refuse(&socket, &drops::refusal(DropReason::TooMany));
            return;
        }
        let client = Client {
            id,
            command: command(credentials.pid),
            pidfd: sys::peer_pidfd(socket.as_fd()).ok(),
            credentials,
            budget,
        };
        self.clients.insert(socket, client);
    }

    /// One request, so that all programs have their turn, whatever one of them sends.
    pub(super) fn serve(&mut self, id: ClientId) {
        let Some(connected) = self.clients.find(id) else {
            return;
        };
        let received = match socket::receive(&connected.socket, RecvFlags::DONTWAIT) {
            Ok(received) => received,
            Err(Fault::Errno(Errno::AGAIN | Errno::INTR)) => return,
            Err(Fault::Errno(_)) => return self.drop_client(id, None),
            Err(Fault::TooLong) => return self.drop_client(id, Some(DropReason::Malformed)),
            Err(Fault::DescriptorsLost) => {
                return self.drop_client(id, Some(DropReason::Descriptors));
            }
        };
        if received.bytes.is_empty() && received.descriptors.is_empty() {
            return self.drop_client(id, None);
        }
        if let Err(reason) = self.answer(id, received) {
            self.drop_client(id, Some(reason));
        }
    }

    fn answer(&mut self, id: ClientId, received: Received) -> Result<(), DropReason> {
        let Received { bytes, descriptors } = received;
        let envelope = Envelope::parse(&bytes).map_err(|_| DropReason::Malformed)?;
        let request = Request::parse(&envelope).map_err(|_| DropReason::Malformed)?;
        if !descriptors.is_empty() && request != Request::Introduce {
            return Err(DropReason::Descriptors);
        }
        let stage = self.clients.find(id).map(|one| one.stage);
        match (request, stage) {
            (Request::Introduce, Some(Stage::Greeted | Stage::Attached)) => {
                self.introduce(descriptors)
            }
            (Request::Hello(hello), Some(Stage::Fresh)) => self.greet(id, &envelope, &hello),
            (Request::Attach, Some(Stage::Greeted)) => self.attach(id),
            (Request::Status { from }, Some(Stage::Greeted | Stage::Attached)) => {
                self.status(id, from)
            }
            (Request::Sockets { from }, Some(Stage::Greeted | Stage::Attached)) => {
                self.ask_for_sockets(id, from)
            }
            (Request::Settings { from }, Some(Stage::Greeted | Stage::Attached)) => {
                let lines = self.stacks.settings();
                self.reply(id, &Reply::settings(&lines, from), &[])
            }
            _ => Err(DropReason::Malformed),
        }
    }

    /// Who has a connection to the daemon may hand it the end of another one, of which the kernel
    /// says whose it is.
    fn introduce(&mut self, descriptors: Vec<OwnedFd>) -> Result<(), DropReason> {
        let [socket] =
            <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| DropReason::Descriptors)?;
        if !socket::is_of_our_kind(&socket) {
            return Err(DropReason::Descriptors);
        }
        self.admit(socket);
        Ok(())
    }

    fn greet(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
        hello: &Hello,
    ) -> Result<(), DropReason> {
        if !envelope.fits(&self.build) {
            let error = Error::new(
                Errno::PROTO,
                format!(
                    "the program has mTCP {}, the daemon '{}' mTCP {}",
                    hello.build, self.welcome.name, self.welcome.build
                ),
                "use one build for both, and restart what is older",
            );
            return self.turn_away(id, DropReason::NoMatch, &error);
        }
        let Some(connected) = self.clients.find(id) else {
            return Ok(());
        };
        connected.stage = Stage::Greeted;
        // Whoever is elsewhere may ask, but not attach.
        connected.is_here = hello.namespace == self.welcome.namespace;
        let reply = Reply::Welcome(self.welcome.clone());
        self.reply(id, &reply, &[])
    }

    fn attach(&mut self, id: ClientId) -> Result<(), DropReason> {
        let stacks = std::sync::Arc::clone(&self.stacks);
        let Some(connected) = self.clients.find(id) else {
            return Ok(());
        };
        if !connected.is_here {
            let error = drops::refusal(DropReason::NoMatch);
            return self.turn_away(id, DropReason::NoMatch, &error);
        }
        let channels = match stacks.attach(&connected.client) {
            Ok(channels) => channels,
            Err(error) => return self.deny(id, &error),
        };
        connected.stage = Stage::Attached;
        connected.since = Instant::now();
        let count = channels.len() as u32;
        self.reply(id, &Reply::Attached { channels: count }, &[])?;
        for channel in &channels {
            let descriptors: Vec<BorrowedFd<'_>> = channel
                .descriptors
                .iter()
                .take(DESCRIPTORS_MAX)
                .map(|one| one.as_fd())
                .collect();
            let mut words = channel.words;
            words.descriptors = descriptors.len() as u32;
            self.reply(id, &Reply::Channel(words), &descriptors)?;
        }
        Ok(())
    }

    fn status(&mut self, id: ClientId, from: u64) -> Result<(), DropReason> {
        let Some(who) = self.credentials_of(id) else {
            return Ok(());
        };
        let (clients, next) = self.rows(&who, from);
        let overview = Overview {
            uptime: self.start.elapsed().as_secs(),
            attached: self.clients.attached() as u32,
            connected: self.clients.len() as u32,
            drops: self.clients.drops.counts(),
        };
        let reply = Reply::Status {
            overview,
            clients,
            next,
        };
        self.reply(id, &reply, &[])
    }

    fn credentials_of(&mut self, id: ClientId) -> Option<Credentials> {
        let connected = self.clients.find(id)?;
        Some(connected.client.credentials.clone())
    }

    /// No, but it may go on asking.
    pub(super) fn deny(&mut self, id: ClientId, error: &Error) -> Result<(), DropReason> {
        let refused = Refused {
            build: self.build.name().to_owned(),
            errno: error.errno(),
            line: error.to_string(),
        };
        self.reply(id, &Reply::Refused(refused), &[])
    }

    /// No, and it goes.
    fn turn_away(
        &mut self,
        id: ClientId,
        reason: DropReason,
        error: &Error,
    ) -> Result<(), DropReason> {
        self.clients.drops.count(reason);
        log::warn!("a program was turned away: {error}");
        let _ = self.deny(id, error);
        self.drop_client(id, None);
        Ok(())
    }

    pub(super) fn reply(
        &mut self,
        id: ClientId,
        reply: &Reply,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), DropReason> {
        let bytes = reply.emit(&self.build);
        let Some(connected) = self.clients.find(id) else {
            return Ok(());
        };
        match socket::send(&connected.socket, &bytes, descriptors, SendFlags::DONTWAIT) {
            // Who is gone is noticed where it is read from.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(_) => Err(DropReason::NotReading),
        }
    }
}

/// Who connected, as the kernel says.
fn credentials(socket: &OwnedFd) -> Result<Credentials, Errno> {
    let (pid, uid, gid) = sys::peer_credentials(socket.as_fd())?;
    Ok(Credentials {
        pid,
        uid,
        gid,
        groups: sys::peer_groups(socket.as_fd())?,
    })
}

/// The name of a process's program. Whoever has its PID now, it is only for people.
fn command(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
