//! `io_uring_setup` and `io_uring_register`: what they may say where the stack is to have its part.

use std::ffi::c_int;

use mtcp::{Errno, Result};

use super::abi::{self, Params, Sqe, op, register, setup};
use super::buffers::Groups;
use super::helper;
use super::memory;
use super::notice::Answer;
use super::queue::Submissions;
use crate::log::{Unsupported, unsupported};
use crate::slots::{self, Slot};
use crate::{private, real};

/// What a ring may be.
const KNOWN: u32 = setup::IOPOLL
    | setup::CQSIZE
    | setup::CLAMP
    | setup::ATTACH_WQ
    | setup::R_DISABLED
    | setup::SUBMIT_ALL
    | setup::COOP_TASKRUN
    | setup::TASKRUN_FLAG
    | setup::SQE128
    | setup::CQE32
    | setup::SINGLE_ISSUER
    | setup::DEFER_TASKRUN
    | setup::NO_SQARRAY;
/// What only tells the kernel which thread uses it. The library's makes it.
const OF_THREADS: u32 = setup::SINGLE_ISSUER | setup::DEFER_TASKRUN;

/// A ring of the program.
#[derive(Debug)]
pub(super) struct Ring {
    /// What the program calls it.
    number: c_int,
    /// What stays the same ring, whatever the program does with the number.
    pub(super) copy: c_int,
    pub(super) queue: Submissions,
    /// The kernel asks devices, and does nothing else.
    pub(super) polls: bool,
    pub(super) groups: Groups,
}

impl Ring {
    /// Makes a ring for the program. Returns the name that it has as long as it lives.
    pub(super) fn make(entries: u32, at: u64) -> Result<(u64, u32, Self)> {
        let mut params: Params = memory::get(at)?;
        let asked = params.flags;
        if asked & !KNOWN != 0 {
            unsupported(
                Unsupported::Ring,
                format_args!("io_uring_setup with flags {asked:#x}"),
            );
            return Err(Errno::EINVAL);
        }
        if asked & OF_THREADS == setup::DEFER_TASKRUN {
            return Err(Errno::EINVAL);
        }
        params.flags &= !OF_THREADS;
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
        let number = helper::setup(entries, &mut params).map_err(failed)?;
        let ring = Self::new(number, &params).map_err(failed);
        params.flags |= asked & OF_THREADS;
        let told = ring.and_then(|ring| memory::put(at, &params).map(|()| ring));
        let known = told.and_then(|ring| identity(number).map(|name| (name, ring)));
        match known {
            Ok((name, ring)) => {
                slots::set(number, Slot::Ring);
                Ok((name, number.cast_unsigned(), ring))
            }
            Err(error) => {
                // SAFETY: made above, and unknown to the program.
                unsafe { real::close(number) };
                Err(error)
            }
        }
    }

    fn new(number: c_int, params: &Params) -> std::io::Result<Self> {
        let queue = Submissions::new(number, params)?;
        // SAFETY: no memory is involved.
        let copy = unsafe { real::fcntl64(number, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self {
            number,
            copy: private::own(copy),
            queue,
            polls: params.flags & setup::IOPOLL != 0,
            groups: Groups::default(),
        })
    }

    /// Whether the program still has the ring.
    pub(super) fn is_open(&self, name: u64) -> bool {
        identity(self.number) == Ok(name)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the library's own.
        unsafe { real::close(self.copy) };
        if slots::look(self.number) == Slot::Ring {
            slots::set(self.number, Slot::Kernel);
        }
    }
}

/// What tells a ring from all others: each has an inode of its own.
pub(super) fn identity(fd: c_int) -> Result<u64> {
    // SAFETY: all zeros are a status.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for a status.
    match unsafe { libc::fstat(fd, &raw mut status) } {
        0 => Ok(status.st_ino),
        _ => Err(Errno::EBADF),
    }
}

/// Whether a descriptor is a ring at all.
pub(super) fn is_ring(fd: c_int) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
}

/// What becomes of `io_uring_register(fd, opcode, arg, count)`, as far as it is not about what
/// waits.
pub(super) fn answer(opcode: u32, arg: u64, count: u32) -> Answer {
    let refused = match opcode {
        // As before Linux 5.10, 5.18, 6.13 and 6.8.
        register::RESTRICTIONS
        | register::RING_FDS
        | register::RESIZE_RINGS
        | register::PBUF_STATUS => true,
        _ if opcode & register::USE_REGISTERED_RING != 0 => true,
        _ => names_a_socket(opcode, arg, count).unwrap_or(false),
    };
    if refused {
        unsupported(
            Unsupported::Ring,
            format_args!("io_uring_register with opcode {opcode}"),
        );
        return Answer::Error(Errno::EINVAL);
    }
    Answer::GoOn
}

/// Whether files that are to be registered are sockets that the stack has or may get: the kernel
/// would take them for its own.
fn names_a_socket(opcode: u32, arg: u64, count: u32) -> Result<bool> {
    let (list, count) = match opcode {
        register::FILES => (arg, count.into()),
        register::FILES_UPDATE => {
            let [_, list] = memory::get::<[u64; 2]>(arg)?;
            (list, count.into())
        }
        register::FILES2 => {
            let [head, _, list, _] = memory::get::<[u64; 4]>(arg)?;
            // Without a list they are all empty.
            (list, if list == 0 { 0 } else { head & 0xffff_ffff })
        }
        register::FILES_UPDATE2 => {
            let [_, list, _, tail] = memory::get::<[u64; 4]>(arg)?;
            (list, tail & 0xffff_ffff)
        }
        _ => return Ok(false),
    };
    holds_a_socket(list, count)
}

fn holds_a_socket(list: u64, count: u64) -> Result<bool> {
    let fds = memory::descriptors(list, count)?;
    Ok(fds.into_iter().any(slots::is_socket))
}

/// Whether an entry of the queue would have the kernel take a socket for its own.
pub(super) fn hides_a_socket(entry: &Sqe) -> bool {
    entry.opcode == op::FILES_UPDATE
        && holds_a_socket(entry.addr, entry.len.into()).unwrap_or(false)
}

/// Whether an entry, `ours` or linked with one of ours, asks for more than is there.
pub(super) fn is_refused(entry: &Sqe, ours: bool) -> bool {
    use abi::sqe;
    let selects = entry.flags & sqe::BUFFER_SELECT != 0;
    let many = entry.ioprio & abi::RECV_MULTISHOT != 0;
    let moves = matches!(
        entry.opcode,
        op::RECV | op::RECVMSG | op::SEND | op::SENDMSG | op::SEND_ZC | op::SENDMSG_ZC
    );
    let bundles = moves && entry.ioprio & abi::BUNDLE != 0;
    let direct = matches!(entry.opcode, op::ACCEPT | op::SOCKET | op::CLOSE);
    let known = ours || is_plain(entry.opcode);
    !known
        || entry.flags & (sqe::FIXED_FILE | sqe::IO_DRAIN) != 0
        || selects && !matches!(entry.opcode, op::RECV | op::READ)
        || moves && many && !(selects && entry.opcode == op::RECV)
        || bundles
        || direct && entry.file_index != 0
        || has_no_call(entry.opcode)
}

/// Operations that are not there for sockets of the stack.
fn has_no_call(opcode: u8) -> bool {
    matches!(
        opcode,
        op::FILES_UPDATE
            | op::SPLICE
            | op::TEE
            | op::URING_CMD
            | op::READ_MULTISHOT
            | op::RECV_ZC
            | op::EPOLL_WAIT
            | op::READV_FIXED
            | op::WRITEV_FIXED
    )
}

/// Operations that may be linked with those of the stack.
fn is_plain(opcode: u8) -> bool {
    matches!(
        opcode,
        op::NOP
            | op::PROVIDE_BUFFERS
            | op::REMOVE_BUFFERS
            | op::TIMEOUT
            | op::READV
            | op::WRITEV
            | op::READ_FIXED
            | op::WRITE_FIXED
            | op::READ
            | op::WRITE
            | op::FSYNC
            | op::SEND
            | op::RECV
            | op::POLL_ADD
            | op::CLOSE
            | op::SHUTDOWN
    )
}
