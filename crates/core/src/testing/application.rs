//! The application's side of [`Harness`].

use super::harness::{Harness, LISTENER};
use super::seg::pattern;
use crate::Status;
use crate::command::{Command, Options, Reply};
use crate::error::Error;
use crate::event::{Event, Ready};
use crate::id::{ConnId, ListenerId};
use crate::info::{State, TcpInfo};

impl Harness {
    /// A command that must succeed.
    #[track_caller]
    pub fn execute(&mut self, command: Command) -> Reply {
        let reply = self.stack.execute(self.now, command);
        self.stack.show();
        match reply {
            Ok(reply) => reply,
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// A command that must fail.
    #[track_caller]
    pub fn refuse(&mut self, command: Command) -> Error {
        match self.stack.execute(self.now, command) {
            Ok(reply) => panic!("{command:?} succeeded: {reply:?}"),
            Err(error) => error,
        }
    }

    /// The connection of the test.
    #[track_caller]
    pub fn id(&self) -> ConnId {
        self.conn.expect("a connection")
    }

    /// Its slot.
    #[track_caller]
    pub fn slot(&self) -> u32 {
        self.id().slot
    }

    /// Listens.
    #[track_caller]
    pub fn listen(&mut self, backlog: u32, options: Options) {
        let reply = self.execute(Command::Listen {
            token: LISTENER,
            local: self.local,
            only_v6: false,
            backlog,
            options,
        });
        match reply {
            Reply::Listening(listener, local) => {
                assert_eq!(local, self.local);
                self.listener = Some(listener);
            }
            other => panic!("Listen replied {other:?}"),
        }
    }

    /// The listener.
    #[track_caller]
    pub fn listener(&self) -> ListenerId {
        self.listener.expect("a listener")
    }

    /// Writes bytes that say where they are, and rings the doorbell.
    #[track_caller]
    pub fn write(&mut self, len: usize) {
        self.write_without_transmit(len);
        self.transmit();
    }

    /// The same, and the stack does not get to transmit.
    #[track_caller]
    pub fn write_without_transmit(&mut self, len: usize) {
        let id = self.id();
        let bytes = pattern(0, len);
        assert_eq!(self.app.write(id.slot, &bytes), len, "send stream full");
        self.execute(Command::Send(id));
    }

    /// Reads everything there is, and rings the doorbell if it is due.
    #[track_caller]
    pub fn read(&mut self) -> Vec<u8> {
        let id = self.id();
        let mut bytes = vec![0; self.app.readable(id.slot) as usize];
        let n = self.app.read(id.slot, &mut bytes);
        assert_eq!(n, bytes.len());
        if self.app.window_update_due(id.slot) {
            self.execute(Command::Received(id));
        }
        self.transmit();
        bytes
    }

    /// Everything there is to read are the bytes that the peer sent from relative sequence number
    /// `seq` on.
    #[track_caller]
    pub fn expect_read(&mut self, seq: u32, len: usize) {
        let bytes = self.read();
        assert_eq!(bytes.len(), len, "bytes to read");
        assert!(bytes == pattern(seq, len), "other bytes than were sent");
    }

    /// Shuts the send side down.
    #[track_caller]
    pub fn shutdown(&mut self) {
        self.execute(Command::Shutdown(self.id()));
        self.transmit();
    }

    /// Releases the streams and closes.
    #[track_caller]
    pub fn close(&mut self) {
        let id = self.id();
        self.app.release(id.slot);
        self.execute(Command::Close(id));
        self.transmit();
    }

    /// Releases the streams and aborts.
    #[track_caller]
    pub fn abort(&mut self) {
        let id = self.id();
        self.app.release(id.slot);
        self.execute(Command::Abort(id));
        self.transmit();
    }

    /// TCP_INFO.
    #[track_caller]
    pub fn info(&mut self) -> TcpInfo {
        match self.execute(Command::Info(self.id())) {
            Reply::Info(info) => info,
            other => panic!("Info replied {other:?}"),
        }
    }

    /// The state is this one.
    #[track_caller]
    pub fn expect_state(&mut self, state: State) {
        assert_eq!(self.info().state, state);
    }

    /// The connection is gone, and with it everything it had.
    #[track_caller]
    pub fn expect_gone(&mut self) {
        let id = self.id();
        assert_eq!(self.refuse(Command::Info(id)), Error::BadId);
        let usage = self.stack.usage();
        assert_eq!(
            (usage.connections, usage.flows, usage.timers, usage.queued),
            (0, 0, 0, 0),
            "{usage:?}"
        );
        assert_eq!((usage.range_sets, usage.recv_bytes), (0, 0), "{usage:?}");
    }

    /// Status of the streams.
    #[track_caller]
    pub fn status(&self) -> Status {
        self.app.status(self.slot())
    }

    /// All events since the last look.
    pub fn events(&mut self) -> Vec<Event> {
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
        self.stack.show();
        std::mem::take(&mut self.events)
    }

    /// What became true of the connection since the last look, and why it failed.
    pub fn ready(&mut self) -> (Ready, Option<Error>) {
        let conn = self.conn;
        let mut sum = (Ready::empty(), None);
        for event in self.events() {
            if let Event::Ready {
                conn: of,
                ready,
                error,
                ..
            } = event
                && Some(of) == conn
            {
                sum = (sum.0 | ready, sum.1.or(error));
            }
        }
        sum
    }
}
