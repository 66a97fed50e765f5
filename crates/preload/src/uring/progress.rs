//! How jobs go on, and end.

use mtcp::{Errno, Result};

use super::abi::{self, Cqe, Sqe, op, sqe};
use super::job::{Cancel, Data, Job, Member};
use super::register as registering;
use super::serve::Server;
use super::work::{self, Step};
use crate::log::{self, Unsupported, unsupported};
use crate::socket::Body;

/// How often to look whether the stack runs by now: seconds and nanoseconds.
static RETRY: [u64; 2] = [0, 50_000_000];

/// What a completion of the helper is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// The kernel has done the entry.
    Done,
    /// The kernel has something for its descriptor.
    Ready,
    /// It is to be tried again.
    Retry,
    /// Its IORING_OP_LINK_TIMEOUT.
    Timer,
    /// Something that nobody waits for.
    Nothing,
}

impl Token {
    const ALL: [Self; 5] = [
        Self::Done,
        Self::Ready,
        Self::Retry,
        Self::Timer,
        Self::Nothing,
    ];

    fn of(self, job: u64, epoch: u8) -> u64 {
        job << 11 | u64::from(epoch) << 3 | self as u64
    }

    fn read(token: u64) -> Option<(Self, u64, u8)> {
        let what = Self::ALL.get((token & 7) as usize)?;
        Some((*what, token >> 11, (token >> 3) as u8))
    }
}

impl Server {
    /// Tells the program that an entry is done, or goes on.
    fn tell(&mut self, ring: u64, user_data: u64, res: i32, flags: u32) {
        let Some(ring) = self.rings.get(&ring) else {
            return;
        };
        let cqe = Cqe {
            user_data,
            res,
            flags,
        };
        self.helper.post(ring.copy, &cqe, Token::Nothing.of(0, 0));
    }

    /// Takes what the helper has completed.
    pub(super) fn hear_helper(&mut self) {
        let mut came = Vec::new();
        self.helper.reap(&mut came);
        for cqe in came {
            let Some((what, id, epoch)) = Token::read(cqe.user_data) else {
                continue;
            };
            if what == Token::Nothing && id == 0 {
                let error = Errno(-cqe.res);
                log::line(format_args!(
                    "a completion of io_uring is lost: {}",
                    error.text()
                ));
            }
            let job = self.jobs.get_mut(&id);
            if let Some(job) = job.filter(|job| job.epoch == epoch) {
                Self::note(job, what);
                self.on(what, id, cqe.res);
            }
        }
    }

    fn note(job: &mut Job, what: Token) {
        match what {
            Token::Done => job.with_kernel = false,
            Token::Ready => job.polled = false,
            Token::Retry | Token::Timer | Token::Nothing => {}
        }
    }

    fn on(&mut self, what: Token, id: u64, res: i32) {
        match what {
            Token::Done => {
                if self.complete(id, res) {
                    self.advance(id);
                }
            }
            Token::Ready | Token::Retry => self.advance(id),
            Token::Timer if res == -libc::ETIME => self.time_out(id),
            Token::Timer | Token::Nothing => {}
        }
    }

    /// IORING_OP_LINK_TIMEOUT: the entry before it has taken too long.
    fn time_out(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let ring = job.ring;
        if let Some(timer) = job.timer.take() {
            self.tell(ring, timer.entry.user_data, -libc::ETIME, 0);
            self.cancel(id);
        }
    }

    /// Goes on with a job as far as that goes now.
    pub(super) fn advance(&mut self, id: u64) {
        while let Some(step) = self.step(id) {
            let goes_on = match step {
                Step::Done(res) => self.complete(id, res),
                Step::Filled(res, flags) => self.complete_with(id, res, flags),
                Step::Again(res, flags) => self.report(id, res, flags),
                Step::Later(res) => self.report(id, res, 0) && self.wait(id),
                Step::Wait => self.wait(id),
                Step::WaitInKernel => self.wait_in_kernel(id),
                Step::Kernel(entry) => self.hand_over(id, entry),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// `None`: there is nothing to be done now.
    fn step(&mut self, id: u64) -> Option<Step> {
        let job = self.jobs.get(&id).filter(|job| !job.with_kernel)?;
        let (ring, entry, waited) = (job.ring, job.now.entry, job.socket.is_some());
        if let Some(cancel) = Cancel::by(&entry) {
            return Some(Step::Done(self.cancel_by(id, &cancel)));
        }
        let ours = waited || self.concerns(ring, &entry);
        if registering::is_refused(&entry, ours) {
            unsupported(
                Unsupported::Ring,
                format_args!(
                    "operation {} of io_uring with flags {:#x}",
                    entry.opcode, entry.flags
                ),
            );
            return Some(Step::Done(-libc::EINVAL));
        }
        let job = self.jobs.get_mut(&id)?;
        let Some(groups) = self.rings.get_mut(&ring).map(|ring| &mut ring.groups) else {
            return Some(Step::Done(-libc::ECANCELED));
        };
        Some(match entry.opcode {
            op::PROVIDE_BUFFERS => done(groups.provide(&entry).map(|()| 0)),
            op::REMOVE_BUFFERS => done(groups.remove(&entry)),
            _ if entry.flags & sqe::BUFFER_SELECT != 0 => work::select(job, groups),
            _ if ours => work::step(job),
            _ => by_kernel(&job.now),
        })
    }

    /// One of several completions.
    fn report(&mut self, id: u64, res: i32, flags: u32) -> bool {
        if let Some(job) = self.jobs.get(&id) {
            self.tell(job.ring, job.now.entry.user_data, res, flags | abi::F_MORE);
        }
        true
    }

    /// The job waits for its socket.
    fn wait(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        let fd = job.now.entry.fd;
        let Some(socket) = job.socket.or_else(|| work::subject(fd)) else {
            return self.complete(id, -libc::EBADF);
        };
        job.socket = Some(socket);
        let watched = self.watch.add(socket.0, id);
        if !watched {
            let at = RETRY.as_ptr() as u64;
            self.helper
                .push(timeout(at, 0, Token::Retry.of(id, job.epoch)));
        }
        if matches!(work::body(fd), Some(Body::Listener { .. })) {
            return self.wait_in_kernel(id);
        }
        self.start_timer(id);
        false
    }

    /// The job waits until the kernel has something for its descriptor.
    fn wait_in_kernel(&mut self, id: u64) -> bool {
        if let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.polled) {
            job.polled = true;
            let user_data = Token::Ready.of(id, job.epoch);
            self.helper.push(Sqe {
                user_data,
                ..work::wait_in_kernel(job.now.entry.fd)
            });
        }
        self.start_timer(id);
        false
    }

    /// The kernel does the entry.
    fn hand_over(&mut self, id: u64, entry: Sqe) -> bool {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.with_kernel = true;
            self.helper.push(Sqe {
                flags: entry.flags & sqe::ASYNC,
                user_data: Token::Done.of(id, job.epoch),
                personality: 0,
                ..entry
            });
        }
        self.start_timer(id);
        false
    }

    fn start_timer(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.timer.is_none()) else {
            return;
        };
        let Some(timer) = job.next_timer() else {
            return;
        };
        if let Ok(Data::Time(time)) = &timer.data {
            let token = Token::Timer.of(id, job.epoch);
            let at = time.as_ptr() as u64;
            self.helper.push(timeout(at, timer.entry.op_flags, token));
        }
        job.timer = Some(timer);
    }

    /// Has the kernel forget what it does or waits for, for a job.
    fn withdraw(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let of = |what: Token, is_there: bool| is_there.then_some(what.of(id, job.epoch));
        let tokens = [
            of(Token::Done, job.with_kernel),
            of(Token::Ready, job.polled),
            of(Token::Timer, job.timer.is_some()),
        ];
        job.polled = false;
        let socket = job.socket.take();
        for token in tokens.into_iter().flatten() {
            self.forget(token);
        }
        if let Some((index, _)) = socket {
            self.watch.remove(index, id);
        }
    }

    fn forget(&mut self, token: u64) {
        self.helper.push(Sqe {
            opcode: op::ASYNC_CANCEL,
            flags: sqe::CQE_SKIP_SUCCESS,
            fd: -1,
            addr: token,
            user_data: Token::Nothing.of(u64::MAX >> 11, 0),
            ..Sqe::default()
        });
    }

    /// An entry is done. Returns whether there is another one of the job.
    fn complete(&mut self, id: u64, res: i32) -> bool {
        self.complete_with(id, res, 0)
    }

    /// The same, with flags of the completion.
    fn complete_with(&mut self, id: u64, res: i32, flags: u32) -> bool {
        self.withdraw(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        let (ring, done) = (job.ring, job.now.entry);
        let (tells, breaks) = (job.now.tells(res), job.now.breaks(res));
        let timer = job.timer.take().or_else(|| job.next_timer());
        let goes_on = !breaks && job.next();
        if tells {
            self.tell_done(ring, &done, res, flags);
        }
        if let Some(timer) = timer {
            self.tell(ring, timer.entry.user_data, -libc::ECANCELED, 0);
        }
        if goes_on {
            return true;
        }
        let rest = self.jobs.remove(&id).map(|job| job.rest);
        for member in rest.into_iter().flatten() {
            self.tell(ring, member.entry.user_data, -libc::ECANCELED, 0);
        }
        false
    }

    fn tell_done(&mut self, ring: u64, entry: &Sqe, res: i32, flags: u32) {
        let copies = matches!(entry.opcode, op::SEND_ZC | op::SENDMSG_ZC) && res >= 0;
        let more = if copies { abi::F_MORE } else { 0 };
        self.tell(ring, entry.user_data, res, flags | more);
        if copies {
            // The buffers are the program's again: what was sent is a copy.
            self.tell(ring, entry.user_data, 0, abi::F_NOTIF);
        }
    }

    /// Ends the entry that a job is at.
    fn cancel(&mut self, id: u64) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if job.with_kernel {
            // Which says when.
            let token = Token::Done.of(id, job.epoch);
            self.forget(token);
        } else if self.complete(id, -libc::ECANCELED) {
            self.advance(id);
        }
    }

    fn meant(&self, ring: u64, cancel: &Cancel) -> Vec<u64> {
        let meant = |(id, job): (&u64, &Job)| {
            let is = job.ring == ring && job.is_meant(cancel);
            is.then_some(*id)
        };
        self.jobs.iter().filter_map(meant).collect()
    }

    /// Returns how many.
    pub(super) fn cancel_all(&mut self, ring: u64, cancel: &Cancel) -> usize {
        let meant = self.meant(ring, cancel);
        meant.iter().for_each(|id| self.cancel(*id));
        meant.len()
    }

    /// Returns whether there was one.
    pub(super) fn cancel_first(&mut self, ring: u64, cancel: &Cancel) -> bool {
        let first = self.meant(ring, cancel).first().copied();
        first.inspect(|id| self.cancel(*id)).is_some()
    }

    /// What an entry that cancels others does. Returns its result.
    fn cancel_by(&mut self, id: u64, cancel: &Cancel) -> i32 {
        let Some(job) = self.jobs.get(&id) else {
            return -libc::ENOENT;
        };
        let (ring, entry) = (job.ring, job.now.entry);
        let changes = entry.len & (abi::POLL_UPDATE_EVENTS | abi::POLL_UPDATE_USER_DATA);
        let mut meant = self.meant(ring, cancel);
        // It does not mean itself.
        meant.retain(|other| *other != id);
        let Some(first) = meant.first().copied() else {
            return -libc::ENOENT;
        };
        if entry.opcode == op::POLL_REMOVE && changes != 0 {
            self.change_poll(first, &entry);
            return 0;
        }
        if entry.opcode == op::ASYNC_CANCEL && entry.op_flags & abi::CANCEL_ALL != 0 {
            meant.iter().for_each(|id| self.cancel(*id));
            return i32::try_from(meant.len()).unwrap_or(i32::MAX);
        }
        self.cancel(first);
        0
    }

    /// IORING_POLL_UPDATE_EVENTS and IORING_POLL_UPDATE_USER_DATA.
    fn change_poll(&mut self, id: u64, by: &Sqe) {
        if let Some(job) = self.jobs.get_mut(&id) {
            if by.len & abi::POLL_UPDATE_EVENTS != 0 {
                job.now.entry.op_flags = by.op_flags;
            }
            if by.len & abi::POLL_UPDATE_USER_DATA != 0 {
                job.now.entry.user_data = by.off;
            }
        }
        self.advance(id);
    }

    /// The ring of a job is gone.
    pub(super) fn drop_job(&mut self, id: u64) {
        self.withdraw(id);
        self.jobs.remove(&id);
    }
}

fn done(result: Result<i32>) -> Step {
    Step::Done(result.unwrap_or_else(|error| -error.0))
}

fn timeout(at: u64, flags: u32, token: u64) -> Sqe {
    Sqe {
        opcode: op::TIMEOUT,
        fd: -1,
        addr: at,
        len: 1,
        op_flags: flags,
        user_data: token,
        ..Sqe::default()
    }
}

/// An entry that is linked with one of the stack's: the kernel does it by the library's ring.
fn by_kernel(member: &Member) -> Step {
    let entry = member.entry;
    match (entry.opcode, &member.data) {
        (_, Err(error)) => Step::Done(-error.0),
        (op::NOP, _) => Step::Done(0),
        (op::TIMEOUT, Ok(Data::Time(time))) => Step::Kernel(Sqe {
            addr: time.as_ptr() as u64,
            ..entry
        }),
        (op::READV | op::WRITEV, Ok(Data::Buffers(parts))) => Step::Kernel(Sqe {
            addr: parts.as_ptr() as u64,
            ..entry
        }),
        (op::READ_FIXED, _) => Step::Kernel(Sqe {
            opcode: op::READ,
            buf: 0,
            ..entry
        }),
        (op::WRITE_FIXED, _) => Step::Kernel(Sqe {
            opcode: op::WRITE,
            buf: 0,
            ..entry
        }),
        (
            op::READ
            | op::WRITE
            | op::FSYNC
            | op::SEND
            | op::RECV
            | op::POLL_ADD
            | op::CLOSE
            | op::SHUTDOWN,
            _,
        ) => Step::Kernel(entry),
        _ => Step::Done(-libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_is_about() {
        for what in Token::ALL {
            assert_eq!(Token::read(what.of(77, 255)), Some((what, 77, 255)));
        }
        assert_eq!(Token::read(7), None);
    }
}
