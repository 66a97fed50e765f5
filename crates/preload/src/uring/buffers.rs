//! Buffers that a program provides for whatever is received next (IOSQE_BUFFER_SELECT). They are
//! kept here and not by the kernel, also for sockets of the kernel: of one group only one side may
//! choose.

use std::collections::{BTreeMap, VecDeque};

use mtcp::{Errno, Result};

use super::abi::Sqe;
use super::memory;

/// Buffers that a group has at most.
const BUFFERS_MAX: u64 = 1 << 16;
/// Bytes of `struct io_uring_buf`.
const ENTRY: u64 = 16;
const PAGE: u64 = 4096;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) id: u16,
}

#[derive(Debug)]
enum Group {
    /// IORING_REGISTER_PBUF_RING: a ring in memory of the program, who moves its tail.
    Ring { at: u64, count: u16, head: u16 },
    /// IORING_OP_PROVIDE_BUFFERS.
    List(VecDeque<Buffer>),
}

/// The groups of a ring.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<u16, Group>);

impl Groups {
    /// IORING_REGISTER_PBUF_RING: `struct io_uring_buf_reg` is at `at`.
    pub(super) fn register(&mut self, at: u64) -> Result<()> {
        let [ring, what, reserved @ ..] = memory::get::<[u64; 5]>(at)?;
        let (count, group, flags) = (what as u32, (what >> 32) as u16, what >> 48);
        if flags != 0 || reserved != [0; 3] || !count.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let count = u16::try_from(count).map_err(|_| Errno::EINVAL)?;
        if ring == 0 {
            return Err(Errno::EFAULT);
        }
        if ring % PAGE != 0 {
            return Err(Errno::EINVAL);
        }
        memory::check(&memory::part(ring, ENTRY * u64::from(count)), false)?;
        match self.0.get(&group) {
            Some(Group::List(list)) if list.is_empty() => {}
            Some(_) => return Err(Errno(libc::EEXIST)),
            None => {}
        }
        let made = Group::Ring {
            at: ring,
            count,
            head: 0,
        };
        self.0.insert(group, made);
        Ok(())
    }

    /// IORING_UNREGISTER_PBUF_RING.
    pub(super) fn unregister(&mut self, at: u64) -> Result<()> {
        let [_, what, ..] = memory::get::<[u64; 5]>(at)?;
        let group = (what >> 32) as u16;
        match self.0.get(&group) {
            Some(Group::Ring { .. }) => {
                self.0.remove(&group);
                Ok(())
            }
            Some(Group::List(_)) => Err(Errno::EINVAL),
            None => Err(Errno::ENOENT),
        }
    }

    /// IORING_OP_PROVIDE_BUFFERS.
    pub(super) fn provide(&mut self, entry: &Sqe) -> Result<()> {
        let count = u64::try_from(entry.fd).map_err(|_| Errno(libc::E2BIG))?;
        let (first, len) = (entry.off, u64::from(entry.len));
        if count == 0 || count > BUFFERS_MAX || first >= BUFFERS_MAX {
            return Err(Errno(libc::E2BIG));
        }
        if first + count > BUFFERS_MAX || len == 0 {
            return Err(Errno::EINVAL);
        }
        let end = entry.addr.checked_add(count * len);
        end.ok_or(Errno(libc::EOVERFLOW))?;
        let group = self.0.entry(entry.buf);
        let Group::List(list) = group.or_insert_with(|| Group::List(VecDeque::new())) else {
            return Err(Errno::EINVAL);
        };
        if list.len() as u64 + count > BUFFERS_MAX {
            return Err(Errno(libc::ENOMEM));
        }
        list.extend((0..count).map(|n| Buffer {
            at: entry.addr + n * len,
            len: entry.len,
            id: (first + n) as u16,
        }));
        Ok(())
    }

    /// IORING_OP_REMOVE_BUFFERS. Returns how many there were.
    pub(super) fn remove(&mut self, entry: &Sqe) -> Result<i32> {
        let most = usize::try_from(entry.fd).map_err(|_| Errno::EINVAL)?;
        match self.0.get_mut(&entry.buf) {
            Some(Group::List(list)) => {
                let n = most.min(list.len());
                list.drain(..n);
                i32::try_from(n).map_err(|_| Errno::EINVAL)
            }
            Some(Group::Ring { .. }) => Err(Errno::EINVAL),
            None => Err(Errno::ENOENT),
        }
    }

    /// The next buffer of a group, which `take` takes.
    ///
    /// # Errors
    /// `ENOBUFS`: there is none.
    pub(super) fn next(&self, group: u16) -> Result<Buffer> {
        let none = Errno(libc::ENOBUFS);
        match self.0.get(&group).ok_or(none)? {
            Group::List(list) => list.front().copied().ok_or(none),
            Group::Ring { at, count, head } => {
                // Where the first has bits to spare, the tail is.
                let [_, first] = memory::get::<[u64; 2]>(*at)?;
                if (first >> 48) as u16 == *head {
                    return Err(none);
                }
                let place = u64::from(head & (count - 1));
                let [at, rest] = memory::get::<[u64; 2]>(at + ENTRY * place)?;
                Ok(Buffer {
                    at,
                    len: rest as u32,
                    id: (rest >> 32) as u16,
                })
            }
        }
    }

    /// The program has the next buffer of a group again, with what it holds.
    pub(super) fn take(&mut self, group: u16) {
        match self.0.get_mut(&group) {
            Some(Group::List(list)) => {
                list.pop_front();
            }
            Some(Group::Ring { head, .. }) => *head = head.wrapping_add(1),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provided(count: i32, first: u64, len: u32) -> Sqe {
        Sqe {
            fd: count,
            addr: 4096,
            len,
            off: first,
            buf: 7,
            ..Sqe::default()
        }
    }

    #[test]
    fn buffers_that_were_provided_are_taken_in_order() {
        let mut groups = Groups::default();
        assert_eq!(groups.next(7), Err(Errno(libc::ENOBUFS)));
        groups.provide(&provided(2, 5, 100)).unwrap();
        for (at, id) in [(4096, 5), (4196, 6)] {
            assert_eq!(groups.next(7), Ok(Buffer { at, len: 100, id }));
            groups.take(7);
        }
        assert_eq!(groups.next(7), Err(Errno(libc::ENOBUFS)));
        groups.take(7);
        groups.provide(&provided(2, 0, 100)).unwrap();
        assert_eq!(groups.remove(&provided(9, 0, 0)), Ok(2));
        for bad in [
            provided(-1, 0, 1),
            provided(0, 0, 1),
            provided(1, BUFFERS_MAX, 1),
            provided(2, BUFFERS_MAX - 1, 1),
            provided(1, 0, 0),
        ] {
            assert!(groups.provide(&bad).is_err(), "{bad:?}");
        }
    }

    #[repr(align(4096))]
    struct Page([[u64; 2]; 256]);

    #[test]
    fn a_ring_of_buffers_is_read_where_it_is() {
        let mut page = Box::new(Page([[0; 2]; 256]));
        let at = page.0.as_ptr() as u64;
        let mut groups = Groups::default();
        let with = |ring: u64, count: u64| [ring, count | 3 << 32, 0, 0, 0];
        let mut register = |words: [u64; 5]| groups.register(words.as_ptr() as u64);
        assert_eq!(register(with(0, 4)), Err(Errno::EFAULT));
        assert_eq!(register(with(at + 8, 4)), Err(Errno::EINVAL));
        assert_eq!(register(with(at, 3)), Err(Errno::EINVAL));
        assert_eq!(register(with(1 << 63, 4)), Err(Errno::EFAULT));
        assert_eq!(register(with(at, 4)), Ok(()));
        assert_eq!(register(with(at, 4)), Err(Errno(libc::EEXIST)));
        assert_eq!(groups.next(3), Err(Errno(libc::ENOBUFS)));
        let tail = |page: &mut Page, tail: u64| page.0[0][1] = 10 | 1 << 32 | tail << 48;
        tail(&mut page, 5);
        page.0[0][0] = 100;
        for place in [0, 1, 2, 3, 0u64] {
            if place > 0 {
                page.0[place as usize] = [100 + place, 20 | 9 << 32];
            }
            assert_eq!(groups.next(3).map(|buffer| buffer.at), Ok(100 + place));
            groups.take(3);
        }
        assert_eq!(groups.next(3), Err(Errno(libc::ENOBUFS)));
        let words = with(at, 4);
        assert_eq!(groups.unregister(words.as_ptr() as u64), Ok(()));
        assert_eq!(groups.unregister(words.as_ptr() as u64), Err(Errno::ENOENT));
    }
}
