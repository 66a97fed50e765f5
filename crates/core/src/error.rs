//! Why a call or a connection failed: one `Copy` enum with an errno.

use std::fmt;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $errno:literal, $text:literal;)*) => {
        /// Why a command was refused or a connection ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum Error { $($(#[$doc])* $name,)* }

        impl Error {
            /// Every error, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The errno of Linux on x86-64 and arm64.
            pub const fn errno(self) -> i32 {
                match self { $(Self::$name => $errno,)* }
            }

            /// One line for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The error with this errno, if the stack has it. Several share none.
            pub fn from_errno(errno: i32) -> Option<Self> {
                Self::ALL.iter().copied().find(|error| error.errno() == errno)
            }
        }
    };
}

errors! {
    /// The id is stale or was never given out.
    BadId = 9, "no such connection or listener";
    /// No control block, half-open record or buffer is free.
    NoMemory = 12, "out of connection memory";
    /// An argument makes no sense.
    Invalid = 22, "invalid argument";
    /// The send side was shut down, or the peer is gone.
    BrokenPipe = 32, "send side closed";
    /// The local address and port are taken.
    AddressInUse = 98, "address in use";
    /// The local address is not one of ours, or the port, or every ephemeral port, is in use
    /// towards the destination.
    AddressNotAvailable = 99, "address or port not available";
    /// No route to the destination network.
    NetworkUnreachable = 101, "network unreachable";
    /// The connection was aborted locally.
    Aborted = 103, "connection aborted";
    /// The peer sent RST.
    Reset = 104, "connection reset by peer";
    /// The link has no room to steer the segments of one more connection to us.
    NoBuffers = 105, "no room to steer its segments";
    /// The connection exists already.
    IsConnected = 106, "already connected";
    /// The connection is not (or no longer) synchronised.
    NotConnected = 107, "not connected";
    /// The peer did not answer in time.
    TimedOut = 110, "connection timed out";
    /// The peer answered a SYN with RST.
    Refused = 111, "connection refused";
    /// A router or the neighbour resolution says that the host cannot be reached.
    HostUnreachable = 113, "no route to host";
    /// ICMP says that the protocol is not available there.
    ProtocolUnreachable = 92, "protocol not available";
    /// ICMPv6 says that the way there is administratively closed.
    Prohibited = 13, "communication prohibited";
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}
