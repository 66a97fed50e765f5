//! Fixed-size requests and responses without HTTP: what the short-transaction benchmark measures.

use crate::sockets::{Errno, Handle, More, Ready, Sockets};

use super::server::{Now, Protocol, Step};

/// Sizes of a transaction, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// From the client.
    pub(crate) request: usize,
    /// From the server.
    pub(crate) response: usize,
}

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(request, response)| Some((request.parse().ok()?, response.parse().ok()?)));
        match parsed {
            Some((request, response))
                if (1..=MAX_SIZE).contains(&request) && (1..=MAX_SIZE).contains(&response) =>
            {
                Ok(Self { request, response })
            }
            _ => Err(format!(
                "'{text}' is not REQUEST/RESPONSE in bytes, 1 to {MAX_SIZE} each, like 64/64"
            )),
        }
    }
}

/// Largest message.
const MAX_SIZE: usize = 1 << 20;

/// The protocol: answers every `request` bytes with `response` bytes, then closes unless
/// `keep_alive`.
#[derive(Debug)]
pub(crate) struct Raw {
    sizes: Sizes,
    keep_alive: bool,
    timeout: u64,
    input: Vec<u8>,
    response: Vec<u8>,
    stopping: bool,
    /// Responses begun.
    pub(crate) served: u64,
}

impl Raw {
    /// `timeout` in ms: how long a peer may be silent.
    pub(crate) fn new(sizes: Sizes, keep_alive: bool, timeout: u64) -> Self {
        Self {
            sizes,
            keep_alive,
            timeout,
            input: vec![0; sizes.request.max(16_384)],
            response: vec![b'x'; sizes.response],
            stopping: false,
            served: 0,
        }
    }

    fn wait(&self, conn: &Conn, now: Now) -> Step {
        let interest = if conn.unsent > 0 {
            Ready::OUT
        } else {
            Ready::IN
        };
        Step::Wait {
            interest,
            deadline: now.millis + self.timeout,
        }
    }

    /// Sends what is left of the response; `None`: all of it, and the connection goes on.
    fn send<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        now: Now,
    ) -> Option<Step> {
        let last = !self.keep_alive || self.stopping;
        let rest = self
            .response
            .get(self.response.len() - conn.unsent..)
            .unwrap_or_default();
        match sockets.write(socket, rest, if last { More::Close } else { More::Follows }) {
            Ok(sent) => conn.unsent -= sent.min(conn.unsent),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Some(Step::Abort),
        }
        match (conn.unsent, last) {
            (0, true) => Some(Step::Close),
            (0, false) => None,
            _ => Some(self.wait(conn, now)),
        }
    }
}

/// A connection: bytes of the request so far, and of the response still to send.
#[derive(Debug, Default)]
pub(crate) struct Conn {
    received: usize,
    unsent: usize,
}

impl Protocol for Raw {
    type Conn = Conn;

    fn accepted<S: Sockets>(&mut self, _: &S, _: Handle, now: Now) -> (Conn, u64) {
        (Conn::default(), now.millis + self.timeout)
    }

    fn ready<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        _ready: Ready,
        now: Now,
    ) -> Step {
        if conn.unsent == 0 {
            match sockets.read(socket, &mut self.input) {
                Ok(0) => return Step::Close,
                Ok(read) => conn.received += read,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Step::Abort,
            }
        }
        loop {
            if conn.unsent == 0 {
                if conn.received < self.sizes.request {
                    return self.wait(conn, now);
                }
                conn.received -= self.sizes.request;
                conn.unsent = self.sizes.response;
                self.served += 1;
            }
            if let Some(step) = self.send(sockets, socket, conn, now) {
                return step;
            }
        }
    }

    fn expired<S: Sockets>(
        &mut self,
        _sockets: &mut S,
        _socket: Handle,
        _conn: &mut Conn,
        _now: Now,
    ) -> Step {
        Step::Abort
    }

    fn stop(&mut self, conn: &mut Conn) -> bool {
        self.stopping = true;
        conn.received == 0 && conn.unsent == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_numbers() {
        assert_eq!(
            "64/128".parse(),
            Ok(Sizes {
                request: 64,
                response: 128
            })
        );
        for bad in ["64", "64/", "/64", "0/1", "1/0", "a/b", "1/99999999"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
    }
}
