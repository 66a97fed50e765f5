//! What a program submitted and the stack does: one entry, or several that are linked.

use std::collections::VecDeque;

use libc::{epoll_event, iovec, msghdr};
use mtcp::{Errno, Result};

use super::abi::{self, Sqe, op, sqe};
use super::memory;

/// What an entry points to that the program may change once it is submitted
/// (IORING_FEAT_SUBMIT_STABLE).
#[derive(Clone, Debug)]
pub(super) enum Data {
    Nothing,
    Buffers(Vec<iovec>),
    Message(Vec<iovec>),
    Address(Vec<u8>),
    Time(Box<[u64; 2]>),
    Event(epoll_event),
}

impl Data {
    /// Reads it.
    ///
    /// # Errors
    /// `EFAULT`, `EINVAL`.
    pub(super) fn read(entry: &Sqe) -> Result<Self> {
        const LONGEST: u64 = size_of::<libc::sockaddr_storage>() as u64;
        Ok(match entry.opcode {
            op::READV | op::WRITEV => Self::Buffers(memory::vector(entry.addr, entry.len.into())?),
            op::SENDMSG | op::RECVMSG | op::SENDMSG_ZC => {
                let message: msghdr = memory::get(entry.addr)?;
                let count = message.msg_iovlen as u64;
                let parts = memory::vector(message.msg_iov as u64, count);
                Self::Message(parts.map_err(|error| match error {
                    Errno::EINVAL => Errno(libc::EMSGSIZE),
                    error => error,
                })?)
            }
            op::CONNECT | op::BIND if entry.off > LONGEST => return Err(Errno::EINVAL),
            op::CONNECT | op::BIND => Self::Address(memory::bytes(entry.addr, entry.off as usize)?),
            op::TIMEOUT | op::LINK_TIMEOUT => Self::Time(Box::new(memory::get(entry.addr)?)),
            op::EPOLL_CTL if entry.len.cast_signed() != libc::EPOLL_CTL_DEL => {
                Self::Event(memory::get(entry.addr)?)
            }
            _ => Self::Nothing,
        })
    }
}

/// An entry with what it points to, or why that is not there.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) entry: Sqe,
    pub(super) data: Result<Data>,
}

impl Member {
    pub(super) fn new(entry: Sqe) -> Self {
        let data = Data::read(&entry);
        Self { entry, data }
    }

    /// Whether the next entry is linked with this one.
    pub(super) fn links(entry: &Sqe) -> bool {
        entry.flags & (sqe::IO_LINK | sqe::IO_HARDLINK) != 0
    }

    /// Whether a result is a failure to those that are linked (io_uring_enter(2)): of reads and
    /// writes, also what is short.
    fn fails(&self, res: i32) -> bool {
        let Ok(moved) = u64::try_from(res) else {
            let ends = self.entry.opcode == op::TIMEOUT
                && self.entry.op_flags & abi::TIMEOUT_ETIME_SUCCESS != 0;
            return !(ends && res == -libc::ETIME);
        };
        let all = || match &self.data {
            Ok(Data::Buffers(parts) | Data::Message(parts)) => {
                parts.iter().map(|part| part.iov_len as u64).sum()
            }
            _ => u64::from(self.entry.len),
        };
        let whole = self.entry.op_flags & libc::MSG_WAITALL.cast_unsigned() != 0;
        match self.entry.opcode {
            op::READ | op::WRITE | op::READV | op::WRITEV | op::READ_FIXED | op::WRITE_FIXED => {
                moved < all()
            }
            op::SEND | op::RECV | op::SENDMSG | op::RECVMSG | op::SEND_ZC | op::SENDMSG_ZC => {
                whole && moved < all()
            }
            _ => false,
        }
    }

    /// Whether what follows is not to be done after this result.
    pub(super) fn breaks(&self, res: i32) -> bool {
        self.fails(res) && self.entry.flags & sqe::IO_HARDLINK == 0
    }

    /// Whether its completion is to be told.
    pub(super) fn tells(&self, res: i32) -> bool {
        self.entry.flags & sqe::CQE_SKIP_SUCCESS == 0 || self.fails(res)
    }
}

/// Entries that are linked, of which the first is being done.
#[derive(Debug)]
pub(super) struct Job {
    /// The ring that it came by.
    pub(super) ring: u64,
    pub(super) now: Member,
    pub(super) rest: VecDeque<Member>,
    /// The IORING_OP_LINK_TIMEOUT that runs.
    pub(super) timer: Option<Member>,
    /// Bytes moved so far, where all are wanted.
    pub(super) moved: u64,
    /// The socket that it is about: its index and serial number in the engine.
    pub(super) socket: Option<(u32, u32)>,
    /// The kernel does it ...
    pub(super) with_kernel: bool,
    /// ... or waits until it has something for its descriptor.
    pub(super) polled: bool,
    /// Tells what the helper says of this entry from what it says of those before.
    pub(super) epoch: u8,
}

impl Job {
    /// `None`: of no entries.
    pub(super) fn new(ring: u64, entries: impl IntoIterator<Item = Sqe>) -> Option<Self> {
        let mut members: VecDeque<Member> = entries.into_iter().map(Member::new).collect();
        Some(Self {
            ring,
            now: members.pop_front()?,
            rest: members,
            timer: None,
            moved: 0,
            socket: None,
            with_kernel: false,
            polled: false,
            epoch: 0,
        })
    }

    /// The IORING_OP_LINK_TIMEOUT of the entry that is being done, if it has one.
    pub(super) fn next_timer(&mut self) -> Option<Member> {
        let next = self.rest.front()?;
        let linked = Member::links(&self.now.entry) && next.entry.opcode == op::LINK_TIMEOUT;
        if linked { self.rest.pop_front() } else { None }
    }

    /// Goes on to the next entry. Returns whether there is one.
    pub(super) fn next(&mut self) -> bool {
        let Some(next) = self.rest.pop_front() else {
            return false;
        };
        self.now = next;
        (self.moved, self.socket, self.with_kernel) = (0, None, false);
        self.epoch = self.epoch.wrapping_add(1);
        true
    }

    /// Whether an entry that cancels means this one.
    pub(super) fn is_meant(&self, by: &Cancel) -> bool {
        let entry = &self.now.entry;
        match by {
            Cancel::UserData(data) => entry.user_data == *data,
            Cancel::Poll(data) => entry.opcode == op::POLL_ADD && entry.user_data == *data,
            Cancel::Fd(fd) => entry.fd == *fd,
            Cancel::Any => true,
        }
    }
}

/// What is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    UserData(u64),
    Poll(u64),
    Fd(i32),
    Any,
}

impl Cancel {
    /// What an entry, or a call, says. `None`: something that only the kernel has.
    pub(super) fn of(flags: u32, user_data: u64, fd: i32) -> Option<Self> {
        if flags & (abi::CANCEL_FD_FIXED | abi::CANCEL_OP) != 0 {
            None
        } else if flags & abi::CANCEL_ANY != 0 {
            Some(Self::Any)
        } else if flags & abi::CANCEL_FD != 0 {
            Some(Self::Fd(fd))
        } else {
            Some(Self::UserData(user_data))
        }
    }

    /// What an entry of the queue is to cancel.
    pub(super) fn by(entry: &Sqe) -> Option<Self> {
        match entry.opcode {
            op::ASYNC_CANCEL => Self::of(entry.op_flags, entry.addr, entry.fd),
            op::POLL_REMOVE => Some(Self::Poll(entry.addr)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(opcode: u8, flags: u8, len: u32) -> Member {
        Member {
            entry: Sqe {
                opcode,
                flags,
                len,
                ..Sqe::default()
            },
            data: Ok(Data::Nothing),
        }
    }

    #[test]
    fn links_break_as_those_of_the_kernel() {
        let linked = sqe::IO_LINK;
        assert!(member(op::RECV, linked, 9).breaks(-1));
        assert!(!member(op::RECV, sqe::IO_HARDLINK, 9).breaks(-1));
        assert!(!member(op::RECV, linked, 9).breaks(3));
        assert!(member(op::READ, linked, 9).breaks(3));
        assert!(!member(op::WRITE, linked, 9).breaks(9));
        let mut all = member(op::SEND, linked, 9);
        all.entry.op_flags = libc::MSG_WAITALL.cast_unsigned();
        assert!(all.breaks(8) && !all.breaks(9));
        let mut timeout = member(op::TIMEOUT, linked, 1);
        assert!(timeout.breaks(-libc::ETIME));
        timeout.entry.op_flags = abi::TIMEOUT_ETIME_SUCCESS;
        assert!(!timeout.breaks(-libc::ETIME));
    }

    #[test]
    fn success_is_not_told_where_the_program_does_not_want_it() {
        let quiet = member(op::SEND, sqe::CQE_SKIP_SUCCESS, 9);
        assert!(!quiet.tells(9) && quiet.tells(-1));
        assert!(member(op::SEND, 0, 9).tells(9));
    }

    #[test]
    fn a_timer_belongs_to_the_entry_before_it() {
        let entry = |opcode, flags| Sqe {
            opcode,
            flags,
            ..Sqe::default()
        };
        let entries = [
            entry(op::RECV, sqe::IO_LINK),
            entry(op::LINK_TIMEOUT, sqe::IO_LINK),
            entry(op::NOP, 0),
        ];
        let mut job = Job::new(1, entries).unwrap();
        let timer = job.next_timer().unwrap();
        // It points nowhere.
        assert_eq!(timer.data.map(|_| ()), Err(Errno::EFAULT));
        assert!(job.next_timer().is_none() && job.next() && !job.next());
        assert!(Job::new(1, []).is_none());
    }

    #[test]
    fn who_cancels_says_whom() {
        let mut job = Job::new(
            1,
            [Sqe {
                fd: 7,
                user_data: 5,
                ..Sqe::default()
            }],
        )
        .unwrap();
        for (cancel, meant) in [
            (Cancel::of(0, 5, -1), true),
            (Cancel::of(0, 6, 7), false),
            (Cancel::of(abi::CANCEL_FD, 0, 7), true),
            (Cancel::of(abi::CANCEL_ANY, 0, 0), true),
            (Some(Cancel::Poll(5)), false),
        ] {
            assert_eq!(job.is_meant(&cancel.unwrap()), meant, "{cancel:?}");
        }
        job.now.entry.opcode = op::POLL_ADD;
        assert!(job.is_meant(&Cancel::Poll(5)));
        assert_eq!(Cancel::of(abi::CANCEL_FD_FIXED, 5, 0), None);
    }

    #[test]
    fn what_is_not_there_is_an_error_of_its_entry() {
        for opcode in [
            op::READV,
            op::SENDMSG,
            op::CONNECT,
            op::TIMEOUT,
            op::EPOLL_CTL,
        ] {
            let entry = Sqe {
                opcode,
                len: 3,
                off: 16,
                addr: 1 << 63,
                ..Sqe::default()
            };
            let read = Data::read(&entry).map(|_| ());
            assert_eq!(read, Err(Errno::EFAULT), "{opcode}");
        }
        let long = Sqe {
            opcode: op::CONNECT,
            off: 1 << 40,
            ..Sqe::default()
        };
        assert_eq!(Data::read(&long).map(|_| ()), Err(Errno::EINVAL));
    }
}
