//! News that needs no answer.

use mtcp_core::{Command, ConnId, Token};

/// A command whose answer nobody waits for, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl From<Doorbell> for Command {
    fn from(bell: Doorbell) -> Self {
        match bell {
            Doorbell::Accept(conn, token) => Self::Accept { conn, token },
            Doorbell::Send(conn) => Self::Send(conn),
            Doorbell::SendMore(conn) => Self::SendMore(conn),
            Doorbell::Received(conn) => Self::Received(conn),
            Doorbell::Shutdown(conn) => Self::Shutdown(conn),
            Doorbell::ShutdownRead(conn) => Self::ShutdownRead(conn),
            Doorbell::Close(conn) => Self::Close(conn),
            Doorbell::Abort(conn) => Self::Abort(conn),
        }
    }
}

const _: () = assert!(size_of::<Doorbell>() == 16);
