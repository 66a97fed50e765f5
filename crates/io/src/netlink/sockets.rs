//! Which sockets of the kernel listen (sock_diag(7)).

use std::io;

use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use rustix::net::netlink;

use super::request;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const QUESTION_LEN: usize = 56;
/// Where `idiag_cookie` is in `struct inet_diag_msg`.
const COOKIE_AT: usize = 44;
/// TCP_LISTEN of the kernel.
const LISTEN: u32 = 10;

/// A question for all listeners of a family, or one of them.
#[derive(Clone, Copy, Debug)]
enum Message {
    Question { family: u8 },
    Answer { cookie: u64 },
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        QUESTION_LEN
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.fill(0);
        let Self::Question { family } = *self else {
            return;
        };
        let [a, b, c, d] = (1_u32 << LISTEN).to_ne_bytes();
        let begin = [family, libc::IPPROTO_TCP as u8, 0, 0, a, b, c, d];
        for (to, byte) in buffer.iter_mut().zip(begin) {
            *to = byte;
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let cookie = payload
            .get(COOKIE_AT..)
            .and_then(|rest| rest.first_chunk::<8>());
        let cookie = cookie.ok_or_else(|| DecodeError::from("inet_diag_msg is too short"))?;
        // Two words, the lower one first.
        let [low, high] = [[0, 1, 2, 3], [4, 5, 6, 7]].map(|word| word.map(|at: usize| cookie[at]));
        let [low, high] = [low, high].map(|word| u64::from(u32::from_ne_bytes(word)));
        Ok(Self::Answer {
            cookie: high << 32 | low,
        })
    }
}

/// The cookies (SO_COOKIE) of all sockets that listen for TCP: a process has a descriptor of each.
///
/// # Errors
/// As the kernel says.
pub fn listening() -> io::Result<Vec<u64>> {
    let mut all = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        for answer in request::dump(Some(netlink::SOCK_DIAG), Message::Question { family })? {
            if let Message::Answer { cookie } = answer {
                all.push(cookie);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::sockopt::socket_cookie;

    use super::*;

    #[test]
    fn a_listener_is_there_as_long_as_a_descriptor_is() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                continue;
            };
            let cookie = socket_cookie(&listener).unwrap();
            let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let other = socket_cookie(&connection).unwrap();
            let copy = listener.try_clone().unwrap();
            drop(listener);
            let all = listening().unwrap();
            assert!(all.contains(&cookie), "{host}");
            assert!(!all.contains(&other), "{host}: a connection");
            drop(copy);
            assert!(!listening().unwrap().contains(&cookie), "{host}");
        }
    }
}
