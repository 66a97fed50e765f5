//! What a program says, carried out: nothing is named to the stack that is not this program's.

use std::net::SocketAddr;

use mtcp_core::{Acks, Command, ConnId, Connect, ListenerId, Opened, OptionsId, Reply, Token};
use rustix::net::sockopt;

use super::channel::{Channel, Taker, streams_config};
use super::kept::KeptListeners;
use super::listeners::{Listener, Listeners};
use super::message::{Answer, Call, Facts};
use super::owners::{ChannelId, Owner, Owners};
use super::pairs::Pairs;
use crate::runner::Runner;
use crate::wall::Wall;
use crate::{Errno, Result};

/// What a program says, carried out.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) runner: &'a mut Runner,
    pub(super) owners: &'a mut Owners,
    pub(super) listeners: &'a mut Listeners,
    pub(super) pairs: &'a mut Pairs,
    pub(super) kept: &'a mut KeptListeners,
    pub(super) facts: &'a Facts,
    pub(super) wall: &'a Wall,
    pub(super) id: ChannelId,
    pub(super) channel: &'a mut Channel,
}

impl Desk<'_> {
    /// False: it is refused. As in one process, that means that the connection is gone, which its
    /// own event says.
    pub(super) fn on_news(&mut self, command: Command) -> bool {
        self.execute(command).is_ok()
    }

    pub(super) fn on_call(&mut self, call: &Call) -> Answer {
        match *call {
            Call::Command(command) => Answer::Reply(self.execute(command).map_err(|error| error.0)),
            Call::Pair(name) => {
                let paired = self.pair(name).map(|()| Reply::Done);
                Answer::Reply(paired.map_err(|error| error.0))
            }
            Call::KernelListener => {
                let noted = self.note_kernel_listener().map(|()| Reply::Done);
                Answer::Reply(noted.map_err(|error| error.0))
            }
            Call::Facts => Answer::Facts(*self.facts),
            Call::Usage => {
                let stack = self.runner.stack();
                let open = self.channel.connections();
                Answer::Usage {
                    open: u32::try_from(open).unwrap_or(u32::MAX),
                    undelivered: self.channel.undelivered(|conn| stack.undelivered_of(conn)),
                }
            }
        }
    }

    /// Carries out a command that names nothing but what is this program's.
    fn execute(&mut self, command: Command) -> Result<Reply> {
        match command {
            Command::Listen { .. } => self.listen(command),
            Command::Connect { .. } => self.connect(command),
            Command::Unlisten(listener)
            | Command::Leave(listener)
            | Command::Suspend(listener)
            | Command::Resume { listener, .. }
            | Command::SetListenerOptions { listener, .. } => self.of_listener(listener, command),
            Command::AbortAll => {
                let names: Vec<_> = self.channel.names().collect();
                for name in names {
                    // One that has gone to another program is that's.
                    let _ = self.execute(Command::Abort(name));
                }
                Ok(Reply::Done)
            }
            Command::Accept { conn, token } => {
                if token == Token::NONE {
                    return Err(Errno::EINVAL);
                }
                self.conn(conn)?;
                let accepted = self.channel.accept(conn, token);
                let (conn, listener) = accepted.ok_or(Errno::EBADF)?;
                let done = self.carry_out(Command::Accept { conn, token });
                if done.is_err() {
                    self.note_accepting(listener);
                }
                done
            }
            Command::Close(name) => {
                let conn = self.remove(name)?;
                self.end(conn, Command::Close(conn))
            }
            Command::Abort(name) => {
                let conn = self.remove(name)?;
                self.end(conn, Command::Abort(conn))
            }
            Command::Send(name) => self.of(name, Command::Send),
            Command::SendMore(name) => self.of(name, Command::SendMore),
            Command::SendUrgent(name, end) => self.of(name, |conn| Command::SendUrgent(conn, end)),
            Command::QuickAck(name) => self.of(name, Command::QuickAck),
            Command::Push(name) => self.of(name, Command::Push),
            Command::Received(name) => self.of(name, Command::Received),
            Command::Shutdown(name) => self.of(name, Command::Shutdown),
            Command::ShutdownRead(name) => self.of(name, Command::ShutdownRead),
            Command::Info(name) => {
                // As in one process, the answer tells what came of what was said before. Should the
                // link be gone, the turn finds that, too.
                let _ = self.runner.transmit(Acks::Due);
                self.of(name, Command::Info)
            }
            Command::SetOptions {
                conn: name,
                options,
            } => self.of(name, |conn| Command::SetOptions { conn, options }),
        }
    }

    /// Carries out a command on a listener of the program.
    fn of_listener(&mut self, id: ListenerId, command: Command) -> Result<Reply> {
        self.check_listener(id)?;
        match command {
            Command::Leave(_) if self.keep(id) => {
                self.channel.remove_listener();
                Ok(Reply::Done)
            }
            Command::Unlisten(_) | Command::Leave(_) => {
                self.listeners.remove(id);
                self.channel.remove_listener();
                self.carry_out(Command::Unlisten(id))
            }
            Command::Resume { listener, token } => {
                let ours = self.listeners.rename(listener, token);
                let token = ours.ok_or(Errno::EBADF)?;
                self.carry_out(Command::Resume { listener, token })
            }
            _ => self.carry_out(command),
        }
    }

    /// The program is done with a listener that other processes may have.
    fn keep(&mut self, id: ListenerId) -> bool {
        let streams = streams_config(&*self.channel.policy);
        let listener = self.listeners.named(id);
        let kept =
            listener.is_some_and(|one| self.kept.keep(self.runner, self.listeners, &one, &streams));
        if kept {
            self.listeners.disown(id);
        }
        kept
    }

    /// Carries out a command on the connection that the program calls `name`.
    #[inline]
    fn of(&mut self, name: ConnId, command: impl FnOnce(ConnId) -> Command) -> Result<Reply> {
        let conn = self.conn(name)?;
        self.carry_out(command(conn))
    }

    /// The stack's name of what the program calls `name`. What waits at a listener may have gone to
    /// another program meanwhile.
    #[inline]
    fn conn(&self, name: ConnId) -> Result<ConnId> {
        let (conn, waits) = self.channel.look(name).ok_or(Errno::EBADF)?;
        match waits && self.has_gone(conn, name) {
            true => Err(Errno::EBADF),
            false => Ok(conn),
        }
    }

    #[cold]
    fn has_gone(&self, conn: ConnId, name: ConnId) -> bool {
        let stream = self.runner.stack().stream_of(conn);
        stream != Some((self.channel.home, name.slot))
    }

    /// The program is done with a connection.
    fn remove(&mut self, name: ConnId) -> Result<ConnId> {
        if self.conn(name).is_err() {
            // Of what has gone, it gives the slot back.
            if let Some(listener) = self.channel.forget(name) {
                self.note_accepting(listener);
            }
            self.runner.close_abandoned(self.channel.home, name.slot);
            return Err(Errno::EBADF);
        }
        let conn = self.channel.remove(name).ok_or(Errno::EBADF)?;
        self.owners.clear(conn);
        Ok(conn)
    }

    /// The program has come to accept from a listener, and found nobody where somebody waited.
    fn note_accepting(&mut self, listener: Token) {
        if let Some(listener) = self.listeners.get(listener) {
            self.runner.note_accepting(listener.id);
        }
    }

    /// Other processes have a connection, too. One that waits at a listener may go to another
    /// program, whose it is then alone.
    fn pair(&mut self, name: ConnId) -> Result<()> {
        let end = self.channel.end.take_passed().ok_or(Errno::EINVAL)?;
        let accepted = self.channel.look(name).filter(|(_, waits)| !waits);
        let (conn, _) = accepted.ok_or(Errno::EBADF)?;
        self.pairs.add(conn, self.channel.program.uid, end)
    }

    /// What stands in the kernel for what the program listens at next.
    fn note_kernel_listener(&mut self) -> Result<()> {
        let socket = self.channel.end.take_passed().ok_or(Errno::EINVAL)?;
        // A socket of another kind has no cookie among those that listen.
        let cookie = sockopt::socket_cookie(&socket).map_err(|_| Errno::ENOTSOCK)?;
        self.channel.cookie = Some(cookie);
        Ok(())
    }

    /// Ends a connection that the program is done with, unless other processes have it.
    fn end(&mut self, conn: ConnId, command: Command) -> Result<Reply> {
        if self.pairs.begin(self.runner, conn) {
            return Ok(Reply::Done);
        }
        self.carry_out(command)
    }

    fn carry_out(&mut self, command: Command) -> Result<Reply> {
        Ok(self.runner.execute(command)?)
    }

    fn check_listener(&self, id: ListenerId) -> Result<()> {
        let is_own = self.listeners.is_of(self.id, id);
        is_own.then_some(()).ok_or(Errno::EBADF)
    }

    fn listen(&mut self, command: Command) -> Result<Reply> {
        let Command::Listen {
            token,
            local,
            only_v6,
            backlog,
            mut options,
        } = command
        else {
            return Err(Errno::EINVAL);
        };
        let cookie = self.channel.cookie.take();
        // As on Linux: who has a socket that listens accepts from it, whoever has made it.
        let has_socket = cookie.is_some_and(|cookie| self.listeners.has_socket(local, cookie));
        if !has_socket {
            self.channel.policy.listen(local)?;
        }
        let addresses: Vec<_> = self.facts.addresses().collect();
        if let Some(why) = self.wall.keeps_closed(local, only_v6, &addresses) {
            self.channel.policy.tell(&why);
            return Err(Errno::EACCES);
        }
        if !self.channel.may_listen() {
            return Err(Errno::ENOBUFS);
        }
        // And who shares a port otherwise is of one user.
        let uid = self.channel.program.uid;
        options.reuse_port &= has_socket || self.listeners.may_share(local.port(), uid);
        let ours = self.listeners.free_token();
        self.runner.serve(self.channel.home);
        let reply = self.carry_out(Command::Listen {
            token: ours,
            local,
            only_v6,
            backlog,
            options,
        })?;
        if let Reply::Listening(id, got) = reply {
            let listener = Listener {
                channel: self.id,
                id,
                token,
                local: SocketAddr::new(local.ip(), got.port()),
                uid,
                cookie,
            };
            self.listeners.set(listener);
            self.channel.add_listener();
        }
        Ok(reply)
    }

    fn connect(&mut self, command: Command) -> Result<Reply> {
        let Command::Connect {
            token,
            local,
            remote,
            options,
        } = command
        else {
            return Err(Errno::EINVAL);
        };
        self.channel.policy.connect(local, remote)?;
        if !self.channel.has_room() {
            return Err(Errno::ENOBUFS);
        }
        if self.runner.is_away() {
            return Err(Errno::ENETDOWN);
        }
        self.runner.serve(self.channel.home);
        let opened = self.runner.connect(&Connect {
            token,
            local,
            remote,
            options: &options,
            known: OptionsId::NONE,
        })?;
        let (_, slot) = self
            .runner
            .stack()
            .stream_of(opened.conn)
            .ok_or(Errno::EBADF)?;
        let name = self.channel.add(opened.conn, slot, Taker::Program(token));
        let owner = Owner {
            channel: self.id,
            slot,
        };
        self.owners.set(opened.conn, owner);
        Ok(Opened {
            conn: name,
            ..opened
        }
        .into())
    }
}
