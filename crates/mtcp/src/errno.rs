//! Error numbers, as POSIX programs know them.

use std::fmt;

/// Why a call failed: an error number of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// What calls on a [`crate::Context`] return.
pub type Result<T> = std::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident = $text:literal;)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Self = Self(libc::$name);)*

            /// The symbol, `"E?"` for a number that the runtime never returns.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* _ => "E?" }
            }

            /// One line for people.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* _ => "unknown error" }
            }
        }
    };
}

errnos! {
    EPERM = "not permitted: the context is shutting down";
    EINTR = "interrupted";
    EBADF = "not an open socket of this context";
    EAGAIN = "would block";
    ENOMEM = "out of memory";
    EACCES = "communication prohibited";
    EFAULT = "bad address";
    EEXIST = "already registered";
    EINVAL = "invalid argument";
    ENFILE = "no socket id is free";
    EPIPE = "send side closed";
    EDEADLK = "would wait for itself";
    ENOENT = "not registered";
    EDOM = "out of range";
    ENOSYS = "not implemented";
    ENOTSOCK = "not a socket";
    EDESTADDRREQ = "destination address required";
    ENOPROTOOPT = "no such option, or protocol not available";
    EPROTONOSUPPORT = "protocol not supported";
    EOPNOTSUPP = "not supported on this socket";
    EAFNOSUPPORT = "address family not supported";
    EADDRINUSE = "address in use";
    EADDRNOTAVAIL = "address or port not available";
    ENETDOWN = "the link is down";
    ENETUNREACH = "network unreachable";
    ECONNABORTED = "connection aborted";
    ECONNRESET = "connection reset by peer";
    ENOBUFS = "no buffer space";
    EISCONN = "already connected";
    ENOTCONN = "not connected";
    ETIMEDOUT = "connection timed out";
    ECONNREFUSED = "connection refused";
    EHOSTUNREACH = "no route to host";
    EALREADY = "connecting already";
    EINPROGRESS = "connecting";
}

impl Errno {
    /// Whether the call would have blocked: try again after `epoll_wait`.
    pub fn is_would_block(self) -> bool {
        self == Self::EAGAIN
    }
}

impl From<mtcp_core::Error> for Errno {
    fn from(error: mtcp_core::Error) -> Self {
        Self(error.errno())
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_stack_has_a_name_here() {
        for &error in mtcp_core::Error::ALL {
            assert_ne!(Errno::from(error).name(), "E?", "{error}");
        }
    }

    #[test]
    fn prints_text_and_symbol() {
        assert_eq!(Errno::EAGAIN.to_string(), "would block (EAGAIN)");
        assert_eq!(format!("{:?}", Errno::EBADF), "EBADF(9)");
    }
}
