//! Errors of set-up, with what to do about them.

use std::error::Error;
use std::io;

/// `cause` on `interface` while doing `what`, with a remedy where one is known.
pub(super) fn explain(interface: &str, what: &str, cause: &(dyn Error + 'static)) -> io::Error {
    let errno = errno(cause).or_else(|| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        (kind == Some(io::ErrorKind::OutOfMemory)).then_some(libc::ENOMEM)
    });
    let kind = errno.map_or(io::ErrorKind::Other, |errno| {
        io::Error::from_raw_os_error(errno).kind()
    });
    let reason = match errno {
        Some(errno) => io::Error::from_raw_os_error(errno).to_string(),
        None => cause.to_string(),
    };
    let remedy = errno
        .and_then(|errno| remedy(interface, what, errno))
        .unwrap_or_default();
    io::Error::new(
        kind,
        format!("XDP on {interface}: cannot {what}: {reason}{remedy}"),
    )
}

/// The number of the system error at the bottom of `error`.
pub(super) fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if let Some(errno) = io.and_then(io::Error::raw_os_error) {
            return Some(errno);
        }
        // `source` of an `io::Error` skips what it wraps.
        next = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

pub(super) const QUEUES: &str = "count its queues";
pub(super) const LOAD: &str = "load the steering program";
pub(super) const ATTACH: &str = "attach the steering program";
pub(super) const SOCKET: &str = "make an AF_XDP socket";
pub(super) const REGISTER: &str = "register frame memory";
pub(super) const BIND: &str = "bind to a queue";
pub(super) const MAP: &str = "map what traffic control writes into";
pub(super) const LISTEN: &str = "listen to what is said of neighbours";
pub(super) const JOIN: &str = "listen to neighbour solicitations";

fn remedy(interface: &str, what: &str, errno: i32) -> Option<String> {
    let text = match (what, errno) {
        (_, libc::EPERM | libc::EACCES) => {
            "; it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, outside of user namespaces: run as root, or \
             `setcap cap_net_admin,cap_net_raw,cap_bpf+ep PROGRAM` (before Linux 5.11 also `ulimit -l unlimited`)"
                .to_owned()
        }
        (ATTACH, libc::EBUSY | libc::EEXIST) => format!(
            "; another XDP program is attached to it: end its owner, or `ip link set dev {interface} xdp off` \
             (`bpftool net` lists them)"
        ),
        (ATTACH, libc::EOPNOTSUPP) => "; the driver has no native XDP: use generic mode".to_owned(),
        (ATTACH, libc::ERANGE) => "; the MTU is too large for XDP in this driver: lower it (3500 fits most)".to_owned(),
        (ATTACH, libc::ENOSPC) => {
            "; it has fewer receive queues than its peer has transmit queues: make them equal with `ethtool -L`".to_owned()
        }
        (BIND, libc::EBUSY) => "; another AF_XDP socket is bound to the queue: end its owner".to_owned(),
        (BIND, libc::ENETDOWN) => format!("; the interface is down: `ip link set {interface} up`"),
        (BIND, libc::EOPNOTSUPP | libc::EINVAL) => {
            "; the driver has no zero copy in this configuration: use copy mode".to_owned()
        }
        (REGISTER, libc::ENOBUFS) => "; the limit on locked memory is too low: `ulimit -l unlimited`, or CAP_IPC_LOCK".to_owned(),
        (_, libc::EMFILE) => "; raise the limit of open files: `ulimit -n 1024`".to_owned(),
        (_, libc::ENFILE) => "; the host has too many open files: `sysctl fs.file-max`".to_owned(),
        (_, libc::ENOMEM) => {
            "; raise the limit of address space (`ulimit -v unlimited`) or of the cgroup's memory".to_owned()
        }
        (SOCKET, libc::EAFNOSUPPORT) => "; this kernel is built without CONFIG_XDP_SOCKETS".to_owned(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_chain_is_what_counts() {
        let inner = io::Error::from_raw_os_error(libc::EBUSY);
        let outer = io::Error::other(inner);
        assert_eq!(errno(&outer), Some(libc::EBUSY));
        let error = explain("eth7", ATTACH, &outer);
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("ip link set dev eth7 xdp off"));
    }

    #[test]
    fn what_runs_out_is_named_with_its_limit_whatever_was_done() {
        for step in [QUEUES, LOAD, ATTACH, SOCKET, REGISTER, BIND, MAP] {
            for (errno, limit) in [(libc::EMFILE, "ulimit -n"), (libc::ENOMEM, "ulimit -v")] {
                let text = explain("eth7", step, &io::Error::from_raw_os_error(errno)).to_string();
                assert!(text.contains(limit), "{text}");
            }
        }
    }

    #[test]
    fn an_error_without_a_number_keeps_its_words() {
        let error = explain("eth7", LOAD, &io::Error::other("no such map"));
        assert_eq!(
            error.to_string(),
            "XDP on eth7: cannot load the steering program: no such map"
        );
    }
}
