//! What a program that compares mTCP with the kernel's sockets needs, and no safe crate has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// TCP_DEFER_ACCEPT of tcp(7): `listener` announces a connection when its first bytes are there, or
/// after `seconds`.
///
/// # Errors
/// What setsockopt(2) says: no TCP socket, or a negative time.
pub fn defer_accept(listener: impl AsFd, seconds: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    let value: *const i32 = &raw const seconds;
    let fd = listener.as_fd().as_raw_fd();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    // SAFETY: `value` points to an `i32` that outlives the call, and `length` is its size; the
    // descriptor is borrowed, so it is open.
    let result = unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// tcp(7): the listener wakes up only when data arrives.
    #[test]
    fn a_connection_is_announced_with_its_first_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        defer_accept(&listener, 30).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(
            listener.accept().map(|_| ()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        client.write_all(b"x").unwrap();
        let accepted = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            listener.accept().ok()
        });
        assert!(accepted.is_some());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(defer_accept(&file, 1).is_err());
    }
}
