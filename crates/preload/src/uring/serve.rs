//! The thread that serves the rings: what it hears.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::Duration;

use libc::{POLLIN, pollfd};
use mtcp::{Errno, Result};

use super::abi::{self, Sqe, op, register, sqe};
use super::armed::SWEEP;
use super::helper::Helper;
use super::job::{Cancel, Job, Member};
use super::notice::{Answer, Listener, Notice};
use super::register::{self as registering, Ring};
use super::watch::Watch;
use super::{memory, work};
use crate::inside::{self, Side};
use crate::kernel;
use crate::log::{self, Unsupported, unsupported};
use crate::slots::{self, Slot};

/// Calls that are answered before sockets have their turn.
const CALLS_MAX: usize = 32;

/// All of it.
#[derive(Debug)]
pub(super) struct Server {
    listener: Listener,
    pub(super) helper: Helper,
    pub(super) rings: BTreeMap<u64, Ring>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) watch: Watch,
    /// The name of the next job.
    next: u64,
}

impl Server {
    pub(super) fn new(listener: Listener, helper: Helper) -> Self {
        Self {
            listener,
            helper,
            rings: BTreeMap::new(),
            jobs: BTreeMap::new(),
            watch: Watch::default(),
            next: 1,
        }
    }

    /// What the thread does, as long as the process lives.
    pub(super) fn run(mut self) {
        inside::go(Side::Library);
        loop {
            let fds = [self.listener.descriptor(), self.helper.descriptor()];
            let Ok(ready) = self.watch.wait(fds) else {
                log::line(format_args!(
                    "io_uring is served no more: the program has closed the library's descriptors"
                ));
                return;
            };
            self.hear_helper();
            for socket in ready {
                for job in self.watch.jobs(socket) {
                    self.advance(job);
                }
            }
            self.helper.submit();
            self.hear_calls();
        }
    }

    fn hear_calls(&mut self) {
        for _ in 0..CALLS_MAX {
            let mut fds = [pollfd {
                fd: self.listener.descriptor(),
                events: POLLIN,
                revents: 0,
            }];
            let asked = kernel::ppoll(&mut fds, Some(Duration::ZERO), std::ptr::null());
            if asked != Ok(1) {
                return;
            }
            let Some(notice) = self.listener.receive() else {
                continue;
            };
            let answer = self.hear(&notice);
            // Who waits for completions in this call finds those that are there already.
            self.helper.submit();
            self.listener.answer(&notice, answer);
        }
    }

    fn hear(&mut self, notice: &Notice) -> Answer {
        let [first, second, third, fourth, ..] = notice.arguments;
        let (fd, second_word) = (first as c_int, second as u32);
        match notice.number {
            libc::SYS_io_uring_setup if notice.is_own() => self.set_up(first as u32, second),
            libc::SYS_io_uring_setup => Answer::Error(Errno(libc::ENOSYS)),
            // Connections of children are the kernel's.
            _ if !notice.is_own() => Answer::GoOn,
            libc::SYS_io_uring_register if second_word == SWEEP && fd < 0 => {
                self.sweep();
                Answer::Value(0)
            }
            libc::SYS_io_uring_register if second_word == register::SYNC_CANCEL => {
                self.cancel_now(fd, third)
            }
            libc::SYS_io_uring_register if is_of_buffers(second_word) => {
                self.buffers(fd, second_word, third)
            }
            libc::SYS_io_uring_register => registering::answer(second_word, third, fourth as u32),
            _ => self.enter(fd, second_word, fourth as u32),
        }
    }

    fn set_up(&mut self, entries: u32, params: u64) -> Answer {
        self.sweep();
        match Ring::make(entries, params) {
            Ok((name, number, ring)) => {
                self.rings.insert(name, ring);
                Answer::Value(number)
            }
            Err(error) => Answer::Error(error),
        }
    }

    fn enter(&mut self, fd: c_int, submit: u32, flags: u32) -> Answer {
        if flags & abi::ENTER_REGISTERED_RING != 0 {
            // None is registered.
            return Answer::Error(Errno::EINVAL);
        }
        let name = registering::identity(fd).unwrap_or(0);
        match self.rings.get(&name) {
            Some(ring) if ring.polls => Answer::GoOn,
            Some(_) => {
                self.take(name, submit);
                Answer::GoOn
            }
            None if registering::is_ring(fd) => {
                unsupported(Unsupported::Ring, format_args!("a ring of another process"));
                Answer::Error(Errno::EOPNOTSUPP)
            }
            None => Answer::GoOn,
        }
    }

    /// Takes what is the stack's out of what the program is about to submit.
    fn take(&mut self, name: u64, most: u32) {
        let Some(ring) = self.rings.get(&name) else {
            return;
        };
        let entries: Vec<(u32, Sqe)> = ring
            .queue
            .pending(most)
            .map(|number| (number, ring.queue.load(number)))
            .collect();
        for linked in entries.chunk_by(|(_, entry), _| Member::links(entry)) {
            for (_, entry) in linked {
                if let (op::ASYNC_CANCEL, Some(Cancel::Any)) = (entry.opcode, Cancel::by(entry)) {
                    // The kernel's, too.
                    self.cancel_all(name, &Cancel::Any);
                }
            }
            if linked.iter().any(|(_, entry)| self.concerns(name, entry)) {
                self.begin(name, linked);
            }
        }
    }

    fn begin(&mut self, name: u64, linked: &[(u32, Sqe)]) {
        if let Some(ring) = self.rings.get(&name) {
            for (number, entry) in linked {
                ring.queue.blank(*number, entry.user_data);
            }
        }
        let id = self.next;
        self.next += 1;
        if let Some(job) = Job::new(name, linked.iter().map(|(_, entry)| *entry)) {
            self.jobs.insert(id, job);
            self.advance(id);
        }
    }

    /// Whether the kernel cannot do an entry as it is.
    pub(super) fn concerns(&self, ring: u64, entry: &Sqe) -> bool {
        if let Some(cancel) = Cancel::by(entry) {
            let meant = |job: &&Job| job.ring == ring && job.is_meant(&cancel);
            return cancel != Cancel::Any && self.jobs.values().any(|job| meant(&job));
        }
        if entry.opcode == op::SOCKET {
            return is_tcp(entry);
        }
        if entry.flags & sqe::BUFFER_SELECT != 0 {
            return true;
        }
        if entry.flags & sqe::FIXED_FILE != 0 {
            // No socket of the stack is among them.
            return false;
        }
        match entry.opcode {
            op::CONNECT | op::BIND | op::LISTEN | op::SHUTDOWN => slots::is_socket(entry.fd),
            op::CLOSE if entry.file_index == 0 => {
                matches!(
                    slots::look(entry.fd),
                    Slot::Socket(_) | Slot::Epoll(_) | Slot::Private
                )
            }
            op::EPOLL_CTL => {
                let child = slots::look(entry.off as c_int);
                matches!(slots::look(entry.fd), Slot::Epoll(_))
                    && matches!(child, Slot::Socket(_) | Slot::Epoll(_))
            }
            op::PROVIDE_BUFFERS | op::REMOVE_BUFFERS => true,
            op::FILES_UPDATE => registering::hides_a_socket(entry),
            op::SPLICE | op::TEE => {
                work::is_served(entry.fd) || work::is_served(entry.file_index.cast_signed())
            }
            op::READV
            | op::WRITEV
            | op::READ_FIXED
            | op::WRITE_FIXED
            | op::READ
            | op::WRITE
            | op::SENDMSG
            | op::RECVMSG
            | op::ACCEPT
            | op::SEND
            | op::RECV
            | op::SEND_ZC
            | op::SENDMSG_ZC
            | op::POLL_ADD
            | op::URING_CMD
            | op::READ_MULTISHOT
            | op::RECV_ZC
            | op::EPOLL_WAIT
            | op::READV_FIXED
            | op::WRITEV_FIXED => work::is_served(entry.fd),
            _ => false,
        }
    }

    /// IORING_REGISTER_PBUF_RING and its counterpart.
    fn buffers(&mut self, fd: c_int, opcode: u32, at: u64) -> Answer {
        let name = registering::identity(fd).unwrap_or(0);
        let Some(ring) = self.rings.get_mut(&name) else {
            return Answer::GoOn;
        };
        let done = if opcode == register::PBUF_RING {
            ring.groups.register(at)
        } else {
            ring.groups.unregister(at)
        };
        done.map_or_else(Answer::Error, |()| Answer::Value(0))
    }

    /// IORING_REGISTER_SYNC_CANCEL: `{ addr, fd, flags, … }`.
    fn cancel_now(&mut self, fd: c_int, at: u64) -> Answer {
        let asked: Result<[u64; 2]> = memory::get(at);
        let (Ok([user_data, rest]), Ok(name)) = (asked, registering::identity(fd)) else {
            return Answer::GoOn;
        };
        let flags = (rest >> 32) as u32;
        let Some(cancel) = Cancel::of(flags, user_data, rest as c_int) else {
            return Answer::GoOn;
        };
        if flags & (abi::CANCEL_ALL | abi::CANCEL_ANY) != 0 {
            self.cancel_all(name, &cancel);
            return Answer::GoOn;
        }
        match self.cancel_first(name, &cancel) {
            true => Answer::Value(0),
            false => Answer::GoOn,
        }
    }

    /// Forgets the rings that the program has closed, and what came by them.
    fn sweep(&mut self) {
        let closed = |(name, ring): (&u64, &Ring)| (!ring.is_open(*name)).then_some(*name);
        let closed: Vec<u64> = self.rings.iter().filter_map(closed).collect();
        for name in closed {
            self.rings.remove(&name);
            let of = |(id, job): (&u64, &Job)| (job.ring == name).then_some(*id);
            let jobs: Vec<u64> = self.jobs.iter().filter_map(of).collect();
            for id in jobs {
                self.drop_job(id);
            }
        }
    }
}

fn is_of_buffers(opcode: u32) -> bool {
    matches!(opcode, register::PBUF_RING | register::UNREGISTER_PBUF_RING)
}

/// Whether a socket is made that the stack may get.
fn is_tcp(entry: &Sqe) -> bool {
    const TYPE: u64 = 0xf;
    let protocol = entry.len.cast_signed();
    [libc::AF_INET, libc::AF_INET6].contains(&entry.fd)
        && entry.off & TYPE == libc::SOCK_STREAM as u64
        && [0, libc::IPPROTO_TCP, libc::IPPROTO_MPTCP].contains(&protocol)
}
