//! Descriptors on their way from a thread that has its own to those of the process, one at a time,
//! each with the number that it has there.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem;

use crate::real;

/// The number that says that no more come.
const END: c_int = -1;

/// One end.
#[derive(Debug)]
pub(crate) struct Carrier(c_int);

/// A descriptor that has come, and the number it is to have.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// `None`: the process has no room for it.
    fd: Option<c_int>,
    number: c_int,
}

/// Room for a message with one descriptor.
#[repr(C, align(8))]
struct Control([u8; ROOM]);

/// Bytes of a control message with one descriptor.
// SAFETY: arithmetic.
const ROOM: usize = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as c_uint) } as usize;

impl Carrier {
    /// Both ends, whose numbers `own` makes the library's.
    ///
    /// # Errors
    /// No descriptors.
    pub(crate) fn pair(own: fn(c_int) -> c_int) -> io::Result<(Self, Self)> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let [near, far] = fds.map(own);
        Ok((Self(near), Self(far)))
    }

    /// Its number, for a thread that has a table of its own.
    pub(crate) fn number(&self) -> c_int {
        self.0
    }

    /// Has the other end fail.
    pub(crate) fn stop(&self) {
        // SAFETY: no memory is involved.
        unsafe { real::shutdown(self.0, libc::SHUT_RDWR) };
    }

    /// The next that comes. `None`: no more do.
    ///
    /// # Errors
    /// What recvmsg(2) says.
    pub(crate) fn receive(&self) -> io::Result<Option<Parcel>> {
        let mut number = END;
        let mut room = Control([0; ROOM]);
        let (mut vector, mut message) = headers(&mut number, &mut room);
        message.msg_iov = &raw mut vector;
        // SAFETY: a message with room for a number and a descriptor.
        let n = unsafe { real::recvmsg(self.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        if number == END {
            return Ok(None);
        }
        // SAFETY: the kernel filled the message.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let fd = header.map(|header| {
            // SAFETY: with a header there is a descriptor.
            unsafe { libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() }
        });
        Ok(Some(Parcel { fd, number }))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // SAFETY: a descriptor of the library's own.
        unsafe { real::close(self.0) };
    }
}

impl Parcel {
    /// Gives it its number, which is reserved for it. Returns that.
    ///
    /// # Errors
    /// The process has as many descriptors as it may.
    pub(crate) fn settle(self) -> io::Result<c_int> {
        let Some(fd) = self.fd else {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        };
        // SAFETY: no memory is involved.
        let settled = unsafe { real::dup3(fd, self.number, libc::O_CLOEXEC) };
        let error = io::Error::last_os_error();
        // SAFETY: it has come just now, and has another number.
        unsafe { real::close(fd) };
        if settled < 0 { Err(error) } else { Ok(settled) }
    }
}

/// Sends the descriptor of this thread that has this number.
///
/// # Errors
/// What sendmsg(2) says.
pub(crate) fn send(far: c_int, number: c_int) -> io::Result<()> {
    put(far, number, Some(number))
}

/// Says that no more come.
///
/// # Errors
/// What sendmsg(2) says.
pub(crate) fn end(far: c_int) -> io::Result<()> {
    put(far, END, None)
}

fn put(far: c_int, mut number: c_int, fd: Option<c_int>) -> io::Result<()> {
    let mut room = Control([0; ROOM]);
    let (mut vector, mut message) = headers(&mut number, &mut room);
    message.msg_iov = &raw mut vector;
    // SAFETY: the room is large enough for one descriptor.
    unsafe {
        match fd {
            Some(fd) => {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as _;
                libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
            }
            None => (message.msg_control, message.msg_controllen) = (std::ptr::null_mut(), 0),
        }
        if real::sendmsg(far, &raw const message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A message of a number, with room for a descriptor. It still has to be told where its vector is.
fn headers(number: &mut c_int, room: &mut Control) -> (libc::iovec, libc::msghdr) {
    let vector = libc::iovec {
        iov_base: std::ptr::from_mut(number).cast::<c_void>(),
        iov_len: size_of::<c_int>(),
    };
    // SAFETY: all zeros are a message without anything.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iovlen = 1;
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = room.0.len();
    (vector, message)
}
