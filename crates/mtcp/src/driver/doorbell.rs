//! News that needs no answer.

use mtcp_core::{Command, ConnId, Token};

/// A command whose answer nobody waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doorbell {
    Accept(ConnId, Token),
    Send(ConnId),
    SendMore(ConnId),
    Received(ConnId),
    Shutdown(ConnId),
    ShutdownRead(ConnId),
    Close(ConnId),
    Abort(ConnId),
}

/// A [`Doorbell`] on its way, as two numbers that travel in registers. One that is put together in
/// memory, piece by piece, and then copied waits until everything written before has left the
/// processor's store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Which of them, and above it the token.
    what: u64,
    conn: u64,
}

const ACCEPT: u32 = 0;
const SEND: u32 = 1;
const SEND_MORE: u32 = 2;
const RECEIVED: u32 = 3;
const SHUTDOWN: u32 = 4;
const SHUTDOWN_READ: u32 = 5;
const CLOSE: u32 = 6;
const ABORT: u32 = 7;

const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl From<Doorbell> for Staged {
    #[inline(always)]
    fn from(doorbell: Doorbell) -> Self {
        let (what, conn, token) = match doorbell {
            Doorbell::Accept(conn, Token(token)) => (ACCEPT, conn, token),
            Doorbell::Send(conn) => (SEND, conn, 0),
            Doorbell::SendMore(conn) => (SEND_MORE, conn, 0),
            Doorbell::Received(conn) => (RECEIVED, conn, 0),
            Doorbell::Shutdown(conn) => (SHUTDOWN, conn, 0),
            Doorbell::ShutdownRead(conn) => (SHUTDOWN_READ, conn, 0),
            Doorbell::Close(conn) => (CLOSE, conn, 0),
            Doorbell::Abort(conn) => (ABORT, conn, 0),
        };
        Self {
            what: join(what, token),
            conn: join(conn.slot, conn.generation),
        }
    }
}

impl Staged {
    /// Whether something leaves at once, most likely.
    pub(crate) const fn sends(self) -> bool {
        self.what as u32 == SEND
    }
}

impl Staged {
    /// As it travels.
    pub(crate) const fn unit(self) -> [u64; 2] {
        [self.what, self.conn]
    }

    /// One that means nothing.
    #[cfg(test)]
    pub(crate) fn nonsense() -> Self {
        Self {
            what: u64::MAX,
            conn: 0,
        }
    }

    /// One that came from another process. `None`: it is none.
    pub(crate) fn from_unit([what, conn]: [u64; 2]) -> Option<Self> {
        (what as u32 <= ABORT).then_some(Self { what, conn })
    }
}

impl From<Staged> for Command {
    #[inline]
    fn from(Staged { what, conn }: Staged) -> Self {
        let token = Token((what >> 32) as u32);
        let conn = ConnId {
            slot: conn as u32,
            generation: (conn >> 32) as u32,
        };
        match what as u32 {
            ACCEPT => Self::Accept { conn, token },
            SEND => Self::Send(conn),
            SEND_MORE => Self::SendMore(conn),
            RECEIVED => Self::Received(conn),
            SHUTDOWN => Self::Shutdown(conn),
            SHUTDOWN_READ => Self::ShutdownRead(conn),
            CLOSE => Self::Close(conn),
            _ => Self::Abort(conn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_staged_becomes_the_command_of_the_same_name() {
        let conn = ConnId {
            slot: 7,
            generation: u32::MAX,
        };
        let token = Token(0xfedc_ba98);
        let command = |doorbell| Command::from(Staged::from(doorbell));
        assert_eq!(
            command(Doorbell::Accept(conn, token)),
            Command::Accept { conn, token }
        );
        for (doorbell, expected) in [
            (Doorbell::Send(conn), Command::Send(conn)),
            (Doorbell::SendMore(conn), Command::SendMore(conn)),
            (Doorbell::Received(conn), Command::Received(conn)),
            (Doorbell::Shutdown(conn), Command::Shutdown(conn)),
            (Doorbell::ShutdownRead(conn), Command::ShutdownRead(conn)),
            (Doorbell::Close(conn), Command::Close(conn)),
            (Doorbell::Abort(conn), Command::Abort(conn)),
        ] {
            assert_eq!(command(doorbell), expected);
            assert_eq!(
                Staged::from(doorbell).sends(),
                expected == Command::Send(conn)
            );
        }
    }
}
