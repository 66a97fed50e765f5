//! The memory of a ring, which program and kernel share. What is read there is wrong until checked:
//! all bounds are the kernel's answer to `io_uring_setup`, none is read from the ring.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::abi::{self, Params, Sqe, op, setup, sqe};

/// Memory of a ring, mapped.
#[derive(Debug)]
pub(super) struct Mapping {
    at: *mut c_void,
    len: usize,
}

// SAFETY: the memory is no thread's.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn new(fd: c_int, len: usize, offset: i64) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, which nothing else uses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                rights,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A child has rings of its own.
        // SAFETY: mapped above.
        unsafe { libc::madvise(at, len, libc::MADV_DONTFORK) };
        Ok(Self { at, len })
    }

    fn place<T>(&self, offset: usize) -> Option<*mut T> {
        let end = offset.checked_add(size_of::<T>())?;
        // SAFETY: within the mapping.
        let at = (end <= self.len).then(|| unsafe { self.at.byte_add(offset) })?;
        let at = at.cast::<T>();
        at.is_aligned().then_some(at)
    }

    /// The word there.
    pub(super) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.place::<AtomicU32>(offset)?;
        // SAFETY: mapped as long as this lives; others use it by atomic operations, too.
        Some(unsafe { &*at })
    }

    /// The value there, which others may change meanwhile.
    pub(super) fn load<T: Copy + Default>(&self, offset: usize) -> T {
        // SAFETY: mapped and aligned; structures of numbers.
        self.place::<T>(offset)
            .map_or_else(T::default, |at| unsafe { at.read_volatile() })
    }

    pub(super) fn store<T: Copy>(&self, offset: usize, value: T) {
        if let Some(at) = self.place::<T>(offset) {
            // SAFETY: mapped and aligned.
            unsafe { at.write_volatile(value) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

/// The submission queue of a ring.
#[derive(Debug)]
pub(super) struct Submissions {
    rings: Mapping,
    entries: Mapping,
    head: usize,
    tail: usize,
    /// Where the entries' numbers are, if not in order.
    array: Option<usize>,
    /// A power of two.
    count: u32,
    /// Bytes of an entry.
    stride: usize,
}

impl Submissions {
    pub(super) fn new(fd: c_int, params: &Params) -> io::Result<Self> {
        let count = params.sq_entries;
        if !count.is_power_of_two() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let stride = if params.flags & setup::SQE128 != 0 {
            128
        } else {
            size_of::<Sqe>()
        };
        let ordered = params.flags & setup::NO_SQARRAY != 0;
        let array = (!ordered).then_some(params.sq_off.array as usize);
        let words = [params.sq_off.head, params.sq_off.tail].map(|at| at as usize + 4);
        let end = array.map(|at| at + 4 * count as usize);
        let len = words.into_iter().chain(end).max().unwrap_or(0);
        Ok(Self {
            rings: Mapping::new(fd, len, abi::OFF_RINGS)?,
            entries: Mapping::new(fd, stride * count as usize, abi::OFF_SQES)?,
            head: params.sq_off.head as usize,
            tail: params.sq_off.tail as usize,
            array,
            count,
            stride,
        })
    }

    fn counter(&self, at: usize) -> u32 {
        let word = self.rings.word(at);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The numbers of the entries that the kernel would take next, at most so many. It passes over
    /// those whose number is wrong.
    pub(super) fn pending(&self, most: u32) -> impl Iterator<Item = u32> {
        let (head, tail) = (self.counter(self.head), self.counter(self.tail));
        let n = tail.wrapping_sub(head).min(self.count).min(most);
        (0..n)
            .map(move |i| head.wrapping_add(i) & (self.count - 1))
            .map(|at| match self.array {
                Some(array) => self.counter(array + 4 * at as usize),
                None => at,
            })
            .filter(|number| *number < self.count)
    }

    /// A copy of an entry.
    pub(super) fn load(&self, number: u32) -> Sqe {
        self.entries.load(number as usize * self.stride)
    }

    /// Has the kernel do nothing for an entry, and say nothing of it.
    pub(super) fn blank(&self, number: u32, user_data: u64) {
        let nothing = Sqe {
            opcode: op::NOP,
            flags: sqe::CQE_SKIP_SUCCESS,
            fd: -1,
            user_data,
            ..Sqe::default()
        };
        self.entries.store(number as usize * self.stride, nothing);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};

    use super::super::abi::SqOffsets;
    use super::*;

    const COUNT: u32 = 8;
    const HEAD: usize = 0;
    const TAIL: usize = 4;
    const ARRAY: usize = 64;

    /// A file that stands for a ring.
    fn ring(flags: u32) -> (File, Submissions) {
        // SAFETY: makes a descriptor with this name.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"ring".as_ptr(), 0)) };
        file.set_len(abi::OFF_SQES as u64 + 4096).unwrap();
        let params = Params {
            sq_entries: COUNT,
            flags,
            sq_off: SqOffsets {
                head: HEAD as u32,
                tail: TAIL as u32,
                array: ARRAY as u32,
                ..SqOffsets::default()
            },
            ..Params::default()
        };
        let queue = Submissions::new(file.as_raw_fd(), &params).unwrap();
        (file, queue)
    }

    fn set(queue: &Submissions, head: u32, tail: u32) {
        queue.rings.store(HEAD, head);
        queue.rings.store(TAIL, tail);
    }

    fn numbers(queue: &Submissions, most: u32) -> Vec<u32> {
        queue.pending(most).collect()
    }

    #[test]
    fn entries_are_found_where_counters_wrap() {
        let (_file, queue) = ring(setup::NO_SQARRAY);
        set(&queue, u32::MAX - 1, 2);
        assert_eq!(numbers(&queue, 100), [6, 7, 0, 1]);
        assert_eq!(numbers(&queue, 3), [6, 7, 0]);
        set(&queue, 5, 5);
        assert!(numbers(&queue, 100).is_empty());
    }

    #[test]
    fn what_a_hostile_program_writes_leads_nowhere_else() {
        let (_file, queue) = ring(0);
        // More than there can be; a tail behind the head; entries that are none.
        for (head, tail) in [(0, u32::MAX), (7, 6), (0, 1 << 31)] {
            set(&queue, head, tail);
            assert!(numbers(&queue, u32::MAX).len() <= COUNT as usize);
        }
        set(&queue, 0, 4);
        for (at, number) in [u32::MAX, 8, 7, 1 << 31].into_iter().enumerate() {
            queue.rings.store(ARRAY + 4 * at, number);
        }
        assert_eq!(numbers(&queue, 4), [7]);
        assert_eq!(queue.load(u32::MAX), Sqe::default());
        queue.blank(u32::MAX, 0);
    }

    #[test]
    fn an_entry_that_is_taken_is_nothing_to_the_kernel() {
        for (flags, stride) in [(0, 64), (setup::SQE128, 128)] {
            let (_file, queue) = ring(flags);
            let entry = Sqe {
                opcode: op::RECV,
                flags: sqe::IO_LINK,
                user_data: 9,
                ..Sqe::default()
            };
            queue.entries.store(3 * stride, entry);
            assert_eq!(queue.load(3), entry);
            queue.blank(3, 9);
            let left = queue.load(3);
            assert_eq!((left.opcode, left.user_data), (op::NOP, 9));
            assert_eq!(left.flags, sqe::CQE_SKIP_SUCCESS);
        }
    }
}
