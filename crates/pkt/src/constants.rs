//! Numbers of Linux (x86-64, arm64) with their names.

macro_rules! constants {
    ($($name:ident = $value:literal;)*) => {
        $(#[allow(missing_docs, non_upper_case_globals)] pub const $name: i32 = $value;)*

        const ALL: &[(&str, i32)] = &[$((stringify!($name), $name),)*];
    };
}

constants! {
    AF_INET = 2;
    AF_INET6 = 10;
    PF_INET = 2;
    PF_INET6 = 10;
    SOCK_STREAM = 1;
    SOCK_DGRAM = 2;
    SOCK_NONBLOCK = 0o4000;
    SOCK_CLOEXEC = 0o2000000;
    IPPROTO_IP = 0;
    IPPROTO_ICMP = 1;
    IPPROTO_TCP = 6;
    IPPROTO_UDP = 17;
    IPPROTO_IPV6 = 41;
    SHUT_RD = 0;
    SHUT_WR = 1;
    SHUT_RDWR = 2;

    SOL_IP = 0;
    SOL_SOCKET = 1;
    SOL_TCP = 6;
    SOL_IPV6 = 41;
    SO_REUSEADDR = 2;
    SO_TYPE = 3;
    SO_ERROR = 4;
    SO_SNDBUF = 7;
    SO_RCVBUF = 8;
    SO_KEEPALIVE = 9;
    SO_OOBINLINE = 10;
    SO_PRIORITY = 12;
    SO_LINGER = 13;
    SO_REUSEPORT = 15;
    SO_RCVLOWAT = 18;
    SO_SNDLOWAT = 19;
    SO_RCVTIMEO = 20;
    SO_SNDTIMEO = 21;
    SO_TIMESTAMP = 29;
    SO_ACCEPTCONN = 30;
    SO_SNDBUFFORCE = 32;
    SO_RCVBUFFORCE = 33;
    SO_MARK = 36;
    SO_TIMESTAMPING = 37;
    SO_PROTOCOL = 38;
    SO_DOMAIN = 39;
    SO_BUSY_POLL = 46;
    SO_MAX_PACING_RATE = 47;
    SO_ZEROCOPY = 60;
    IP_TOS = 1;
    IP_TTL = 2;
    IP_RECVERR = 11;
    IP_MTU_DISCOVER = 10;
    IP_MTU = 14;
    IP_BIND_ADDRESS_NO_PORT = 24;
    IPV6_UNICAST_HOPS = 16;
    IPV6_MTU = 24;
    IPV6_RECVERR = 25;
    IPV6_V6ONLY = 26;
    IPV6_TCLASS = 67;
    TCP_NODELAY = 1;
    TCP_MAXSEG = 2;
    TCP_CORK = 3;
    TCP_KEEPIDLE = 4;
    TCP_KEEPINTVL = 5;
    TCP_KEEPCNT = 6;
    TCP_SYNCNT = 7;
    TCP_LINGER2 = 8;
    TCP_DEFER_ACCEPT = 9;
    TCP_WINDOW_CLAMP = 10;
    TCP_INFO = 11;
    TCP_QUICKACK = 12;
    TCP_CONGESTION = 13;
    TCP_MD5SIG = 14;
    TCP_THIN_LINEAR_TIMEOUTS = 16;
    TCP_THIN_DUPACK = 17;
    TCP_USER_TIMEOUT = 18;
    TCP_FASTOPEN = 23;
    TCP_TIMESTAMP = 24;
    TCP_NOTSENT_LOWAT = 25;
    TCP_CC_INFO = 26;
    TCP_SAVE_SYN = 27;
    TCP_SAVED_SYN = 28;
    TCP_FASTOPEN_CONNECT = 30;
    TCP_FASTOPEN_KEY = 33;
    TCP_FASTOPEN_NO_COOKIE = 34;
    TCP_INQ = 36;
    TCP_CM_INQ = 36;
    TCP_TX_DELAY = 37;

    MSG_OOB = 0x1;
    MSG_PEEK = 0x2;
    MSG_DONTROUTE = 0x4;
    MSG_CTRUNC = 0x8;
    MSG_TRUNC = 0x20;
    MSG_DONTWAIT = 0x40;
    MSG_EOR = 0x80;
    MSG_WAITALL = 0x100;
    MSG_ERRQUEUE = 0x2000;
    MSG_NOSIGNAL = 0x4000;
    MSG_MORE = 0x8000;
    MSG_ZEROCOPY = 0x4000000;
    MSG_FASTOPEN = 0x20000000;

    F_GETFD = 1;
    F_SETFD = 2;
    F_GETFL = 3;
    F_SETFL = 4;
    O_RDONLY = 0;
    O_WRONLY = 1;
    O_RDWR = 2;
    O_NONBLOCK = 0o4000;
    SPLICE_F_MOVE = 1;
    SPLICE_F_NONBLOCK = 2;
    SPLICE_F_MORE = 4;
    O_CLOEXEC = 0o2000000;
    FIONREAD = 0x541b;
    SIOCINQ = 0x541b;
    SIOCOUTQ = 0x5411;
    SIOCOUTQNSD = 0x894b;
    SIOCATMARK = 0x8905;
    FIONBIO = 0x5421;

    POLLIN = 0x1;
    POLLPRI = 0x2;
    POLLOUT = 0x4;
    POLLERR = 0x8;
    POLLHUP = 0x10;
    POLLNVAL = 0x20;
    POLLRDNORM = 0x40;
    POLLRDBAND = 0x80;
    POLLWRNORM = 0x100;
    POLLWRBAND = 0x200;
    POLLRDHUP = 0x2000;
    EPOLL_CTL_ADD = 1;
    EPOLL_CTL_DEL = 2;
    EPOLL_CTL_MOD = 3;
    EPOLL_CLOEXEC = 0o2000000;
    EPOLLIN = 0x1;
    EPOLLPRI = 0x2;
    EPOLLOUT = 0x4;
    EPOLLERR = 0x8;
    EPOLLHUP = 0x10;
    EPOLLRDNORM = 0x40;
    EPOLLRDBAND = 0x80;
    EPOLLWRNORM = 0x100;
    EPOLLWRBAND = 0x200;
    EPOLLMSG = 0x400;
    EPOLLRDHUP = 0x2000;
    EPOLLEXCLUSIVE = 0x10000000;
    EPOLLONESHOT = 0x40000000;
    EPOLLET = -0x80000000;

    TCP_ESTABLISHED = 1;
    TCP_SYN_SENT = 2;
    TCP_SYN_RECV = 3;
    TCP_FIN_WAIT1 = 4;
    TCP_FIN_WAIT2 = 5;
    TCP_TIME_WAIT = 6;
    TCP_CLOSE = 7;
    TCP_CLOSE_WAIT = 8;
    TCP_LAST_ACK = 9;
    TCP_LISTEN = 10;
    TCP_CLOSING = 11;
    TCP_CA_Open = 0;
    TCP_CA_Disorder = 1;
    TCP_CA_CWR = 2;
    TCP_CA_Recovery = 3;
    TCP_CA_Loss = 4;
    TCPI_OPT_TIMESTAMPS = 1;
    TCPI_OPT_SACK = 2;
    TCPI_OPT_WSCALE = 4;
    TCPI_OPT_ECN = 8;
    TCPI_OPT_ECN_SEEN = 16;
    TCPI_OPT_SYN_DATA = 32;

    EPERM = 1;
    ENOENT = 2;
    EINTR = 4;
    EBADF = 9;
    EAGAIN = 11;
    EWOULDBLOCK = 11;
    ENOMEM = 12;
    EACCES = 13;
    EFAULT = 14;
    EEXIST = 17;
    EINVAL = 22;
    ENFILE = 23;
    EMFILE = 24;
    ENOTTY = 25;
    EPIPE = 32;
    EDOM = 33;
    ENOSYS = 38;
    EPROTO = 71;
    ENOTSOCK = 88;
    EDESTADDRREQ = 89;
    EMSGSIZE = 90;
    EPROTOTYPE = 91;
    ENOPROTOOPT = 92;
    EPROTONOSUPPORT = 93;
    ESOCKTNOSUPPORT = 94;
    EOPNOTSUPP = 95;
    EAFNOSUPPORT = 97;
    EADDRINUSE = 98;
    EADDRNOTAVAIL = 99;
    ENETDOWN = 100;
    ENETUNREACH = 101;
    ECONNABORTED = 103;
    ECONNRESET = 104;
    ENOBUFS = 105;
    EISCONN = 106;
    ENOTCONN = 107;
    ETIMEDOUT = 110;
    ECONNREFUSED = 111;
    EHOSTDOWN = 112;
    EHOSTUNREACH = 113;
    EALREADY = 114;
    EINPROGRESS = 115;
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
