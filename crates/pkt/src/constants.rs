//! Numbers of Linux (x86-64, arm64) with their names.

macro_rules! constants {
    (libc: $($name:ident)*; others: $($other:ident = $value:literal)*) => {
        $(
            #[allow(missing_docs)]
            pub const $name: i32 = libc::$name as i32;
        )*
        $(
            #[allow(missing_docs, non_upper_case_globals)]
            pub const $other: i32 = $value;
        )*

        const ALL: &[(&str, i32)] =
            &[$((stringify!($name), $name),)* $((stringify!($other), $other),)*];
    };
}

constants! {
    libc:
    AF_INET AF_INET6 PF_INET PF_INET6 SOCK_STREAM SOCK_DGRAM SOCK_NONBLOCK SOCK_CLOEXEC
    IPPROTO_IP IPPROTO_ICMP IPPROTO_TCP IPPROTO_UDP IPPROTO_IPV6 SHUT_RD SHUT_WR SHUT_RDWR

    SOL_IP SOL_SOCKET SOL_TCP SOL_IPV6 SO_REUSEADDR SO_TYPE SO_ERROR SO_SNDBUF SO_RCVBUF
    SO_KEEPALIVE SO_OOBINLINE SO_PRIORITY SO_LINGER SO_REUSEPORT SO_RCVLOWAT SO_SNDLOWAT
    SO_RCVTIMEO SO_SNDTIMEO SO_TIMESTAMP SO_ACCEPTCONN SO_SNDBUFFORCE SO_RCVBUFFORCE SO_MARK
    SO_TIMESTAMPING SO_PROTOCOL SO_DOMAIN SO_BUSY_POLL SO_MAX_PACING_RATE SO_ZEROCOPY IP_TOS
    IP_TTL IP_RECVERR IP_MTU_DISCOVER IP_MTU IP_BIND_ADDRESS_NO_PORT IPV6_UNICAST_HOPS IPV6_MTU
    IPV6_RECVERR IPV6_V6ONLY IPV6_TCLASS TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE
    TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2 TCP_DEFER_ACCEPT TCP_WINDOW_CLAMP TCP_INFO
    TCP_QUICKACK TCP_CONGESTION TCP_MD5SIG TCP_THIN_LINEAR_TIMEOUTS TCP_THIN_DUPACK
    TCP_USER_TIMEOUT TCP_FASTOPEN TCP_TIMESTAMP TCP_NOTSENT_LOWAT TCP_CC_INFO TCP_SAVE_SYN
    TCP_SAVED_SYN TCP_FASTOPEN_CONNECT TCP_FASTOPEN_KEY TCP_FASTOPEN_NO_COOKIE TCP_INQ
    TCP_CM_INQ

    MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL
    MSG_ERRQUEUE MSG_NOSIGNAL MSG_MORE MSG_ZEROCOPY MSG_FASTOPEN

    F_GETFD F_SETFD F_GETFL F_SETFL O_RDONLY O_WRONLY O_RDWR O_NONBLOCK SPLICE_F_MOVE
    SPLICE_F_NONBLOCK SPLICE_F_MORE O_CLOEXEC FIONREAD FIONBIO

    POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDNORM POLLRDBAND POLLWRNORM POLLWRBAND
    POLLRDHUP EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD EPOLL_CLOEXEC EPOLLIN EPOLLPRI EPOLLOUT
    EPOLLERR EPOLLHUP EPOLLRDNORM EPOLLRDBAND EPOLLWRNORM EPOLLWRBAND EPOLLMSG EPOLLRDHUP
    EPOLLEXCLUSIVE EPOLLONESHOT EPOLLET

    EPERM ENOENT EINTR EBADF EAGAIN EWOULDBLOCK ENOMEM EACCES EFAULT EEXIST EINVAL ENFILE EMFILE
    ENOTTY EPIPE EDOM ENOSYS EPROTO ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT
    EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN
    ENETUNREACH ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ETIMEDOUT ECONNREFUSED
    EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS;

    // What libc does not have.
    others:
    TCP_TX_DELAY = 37
    SIOCINQ = 0x541b
    SIOCOUTQ = 0x5411
    SIOCOUTQNSD = 0x894b
    SIOCATMARK = 0x8905
    TCP_ESTABLISHED = 1
    TCP_SYN_SENT = 2
    TCP_SYN_RECV = 3
    TCP_FIN_WAIT1 = 4
    TCP_FIN_WAIT2 = 5
    TCP_TIME_WAIT = 6
    TCP_CLOSE = 7
    TCP_CLOSE_WAIT = 8
    TCP_LAST_ACK = 9
    TCP_LISTEN = 10
    TCP_CLOSING = 11
    TCP_CA_Open = 0
    TCP_CA_Disorder = 1
    TCP_CA_CWR = 2
    TCP_CA_Recovery = 3
    TCP_CA_Loss = 4
    TCPI_OPT_TIMESTAMPS = 1
    TCPI_OPT_SACK = 2
    TCPI_OPT_WSCALE = 4
    TCPI_OPT_ECN = 8
    TCPI_OPT_ECN_SEEN = 16
    TCPI_OPT_SYN_DATA = 32
}

/// The number with this name.
pub fn by_name(name: &str) -> Option<i32> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

/// The symbol of an error number; `E?` if it has none here.
pub fn errno_name(errno: i32) -> &'static str {
    let errors = ALL.iter().filter(|(name, _)| name.starts_with('E'));
    let mut errors = errors.filter(|(name, _)| !name.starts_with("EPOLL"));
    errors
        .find(|(_, value)| *value == errno)
        .map_or("E?", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(by_name("SO_REUSEADDR"), Some(2));
        assert_eq!(by_name("SO_NOTHING"), None);
        assert_eq!(errno_name(EAGAIN), "EAGAIN");
        assert_eq!(errno_name(9999), "E?");
        for error in mtcp_core::Error::ALL {
            assert_ne!(errno_name(error.errno()), "E?", "{error}");
        }
    }
}
