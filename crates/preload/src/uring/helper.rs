//! A ring of the library's own. By it the kernel puts completions into rings of the program, waits
//! for what is the kernel's, and does what is linked with what the stack does.

use std::ffi::{c_int, c_long};
use std::io;
use std::sync::atomic::Ordering;

use mtcp::filter::MARK;

use super::abi::{self, Cqe, Params, Sqe, op, setup, sqe};
use super::queue::Mapping;
use crate::{private, real};

const ENTRIES: u32 = 256;
const COMPLETIONS: u32 = 4096;

/// One of io_uring's calls, past the filter.
pub(super) fn call(number: c_long, first: u32, rest: [u64; 3]) -> io::Result<u32> {
    let first = u64::from(MARK) << 32 | u64::from(first);
    let [a, b, c] = rest;
    // SAFETY: the kernel looks at what the arguments name.
    let result = unsafe { libc::syscall(number, first, a, b, c, 0, 0) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Makes a ring. Returns its descriptor.
pub(super) fn setup(entries: u32, params: &mut Params) -> io::Result<c_int> {
    let at = std::ptr::from_mut(params) as u64;
    let fd = call(libc::SYS_io_uring_setup, entries, [at, 0, 0])?;
    c_int::try_from(fd).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The ring.
#[derive(Debug)]
pub(super) struct Helper {
    fd: c_int,
    params: Params,
    rings: Mapping,
    entries: Mapping,
    tail: u32,
}

impl Helper {
    /// # Errors
    /// The kernel has no io_uring, or one that cannot do what is needed (before Linux 6.3).
    pub(super) fn new() -> io::Result<Self> {
        let mut params = Params {
            cq_entries: COMPLETIONS,
            flags: setup::CQSIZE,
            ..Params::default()
        };
        let fd = private::own(setup(ENTRIES, &mut params)?);
        let helper = Self::map(fd, params).and_then(|mut helper| {
            helper.try_out()?;
            Ok(helper)
        });
        if helper.is_err() {
            // SAFETY: made above.
            unsafe { real::close(fd) };
        }
        helper
    }

    fn map(fd: c_int, params: Params) -> io::Result<Self> {
        let cqes = params.cq_off.cqes as usize + size_of::<Cqe>() * params.cq_entries as usize;
        let array = params.sq_off.array as usize + 4 * params.sq_entries as usize;
        let entries = size_of::<Sqe>() * params.sq_entries as usize;
        Ok(Self {
            fd,
            params,
            rings: Mapping::new(fd, cqes.max(array), abi::OFF_RINGS)?,
            entries: Mapping::new(fd, entries, abi::OFF_SQES)?,
            tail: 0,
        })
    }

    /// Sends itself a completion with flags.
    fn try_out(&mut self) -> io::Result<()> {
        let sent = Cqe {
            user_data: 1,
            res: 2,
            flags: abi::F_MORE,
        };
        self.post(self.fd, &sent, 0);
        self.submit();
        let mut came = Vec::new();
        self.reap(&mut came);
        match came[..] {
            [got] if got == sent => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What is readable when there are completions.
    pub(super) fn descriptor(&self) -> c_int {
        self.fd
    }

    fn word(&self, at: u32) -> u32 {
        let word = self.rings.word(at as usize);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn set_word(&self, at: u32, value: u32) {
        if let Some(word) = self.rings.word(at as usize) {
            word.store(value, Ordering::Release);
        }
    }

    /// Adds an entry, for the next `submit`.
    pub(super) fn push(&mut self, entry: Sqe) {
        let count = self.params.sq_entries;
        if self.tail.wrapping_sub(self.word(self.params.sq_off.head)) >= count {
            self.submit();
        }
        let at = self.tail & (count - 1);
        self.entries.store(at as usize * size_of::<Sqe>(), entry);
        self.set_word(self.params.sq_off.array + 4 * at, at);
        self.tail = self.tail.wrapping_add(1);
        self.set_word(self.params.sq_off.tail, self.tail);
    }

    /// Has the kernel put a completion into the ring `to`. Only failures come back, as `token`.
    pub(super) fn post(&mut self, to: c_int, cqe: &Cqe, token: u64) {
        self.push(Sqe {
            opcode: op::MSG_RING,
            flags: sqe::CQE_SKIP_SUCCESS,
            fd: to,
            off: cqe.user_data,
            len: cqe.res.cast_unsigned(),
            op_flags: abi::MSG_FLAGS_PASS,
            file_index: cqe.flags,
            user_data: token,
            ..Sqe::default()
        });
    }

    /// Hands over what was added.
    pub(super) fn submit(&mut self) {
        loop {
            let left = self.tail.wrapping_sub(self.word(self.params.sq_off.head));
            if left == 0 {
                return;
            }
            let done = self.enter(left, 0);
            if !matches!(done, Ok(1..)) && !is_passing(&done) {
                // It has no memory now. They go with the next.
                return;
            }
        }
    }

    fn enter(&self, submit: u32, flags: u32) -> io::Result<u32> {
        let number = libc::SYS_io_uring_enter;
        call(
            number,
            self.fd.cast_unsigned(),
            [submit.into(), 0, flags.into()],
        )
    }

    /// Takes what has completed.
    pub(super) fn reap(&mut self, into: &mut Vec<Cqe>) {
        let off = self.params.cq_off;
        if self.word(self.params.sq_off.flags) & abi::CQ_OVERFLOW != 0 {
            let _ = self.enter(0, abi::ENTER_GETEVENTS);
        }
        let mut head = self.word(off.head);
        while head != self.word(off.tail) {
            let at = (head & (self.params.cq_entries - 1)) as usize;
            into.push(self.rings.load(off.cqes as usize + at * size_of::<Cqe>()));
            head = head.wrapping_add(1);
        }
        self.set_word(off.head, head);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // SAFETY: the library's own.
        unsafe { real::close(self.fd) };
    }
}

/// Whether a call is to be made once more.
fn is_passing(result: &io::Result<u32>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_come_with_their_flags_and_order() {
        let made = crate::inside::run(Helper::new);
        let Ok(mut helper) = made else {
            eprintln!("skipped: no io_uring here: {made:?}");
            return;
        };
        let mut came = Vec::new();
        for round in 0..20u64 {
            // More than there are entries at a time.
            for n in 0..300 {
                let sent = Cqe {
                    user_data: round * 300 + n,
                    res: -7,
                    flags: abi::F_NOTIF,
                };
                helper.post(helper.fd, &sent, 0);
            }
            helper.submit();
            helper.reap(&mut came);
        }
        assert_eq!(came.len(), 6000);
        let ordered = came.iter().zip(0..).all(|(cqe, n)| cqe.user_data == n);
        assert!(
            ordered
                && came
                    .iter()
                    .all(|cqe| (cqe.res, cqe.flags) == (-7, abi::F_NOTIF))
        );
    }
}
