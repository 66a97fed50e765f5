//! Memory shared with another process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

const WORD: usize = size_of::<u64>();
/// It takes memory page by page, as it is touched, and no room is set aside for the rest.
const SHARED: MapFlags = MapFlags::SHARED.union(MapFlags::NORESERVE);

/// A memfd mapped here and in another process, which may write any byte at any time.
///
/// So there are no slices of it: copy out first, then look. Size checks hold, for a file whose size
/// cannot shrink is the only kind that is mapped from a peer.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    bytes: usize,
    fd: OwnedFd,
    /// The only process that has it mapped here.
    owner: Option<u32>,
}

// SAFETY: plain memory without a thread, accessed by atomics here and by raw pointer elsewhere.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates a memfd of `bytes` zeroes and maps it. `name` is shown in `/proc`. Call
    /// [`Self::seal`] before sending it.
    ///
    /// # Errors
    /// No descriptor, no room, or `bytes` is 0.
    pub fn create(name: &str, bytes: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Never to be executed; kernels before Linux 6.3 do not know the flag.
        let fd = memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create(name, flags))?;
        ftruncate(&fd, bytes as u64)?;
        Self::map(fd, bytes)
    }

    /// Forbids any later change of the size and of the seals (`F_SEAL_SHRINK`, `F_SEAL_GROW`,
    /// `F_SEAL_SEAL`).
    ///
    /// # Errors
    /// The file is sealed against that already.
    pub fn seal(&self) -> io::Result<()> {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        Ok(fcntl_add_seals(&self.fd, seals)?)
    }

    /// Maps a memfd received from a peer. Its size is what the kernel says, and must be sealed
    /// against shrinking (else the peer could take mapped pages away and kill us with SIGBUS).
    ///
    /// # Errors
    /// `InvalidInput`: not a memfd, not sealed, empty, or larger than `max_bytes`. Otherwise the
    /// kernel's.
    pub fn from_fd(fd: OwnedFd, max_bytes: usize) -> io::Result<Self> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let seals = fcntl_get_seals(&fd).map_err(|_| refused("shared memory: not a memfd"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refused("shared memory: not sealed against shrinking"));
        }
        let bytes = usize::try_from(fstat(&fd)?.st_size).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > max_bytes {
            return Err(refused(&format!(
                "shared memory: {bytes} bytes, not 1 to {max_bytes}"
            )));
        }
        Self::map(fd, bytes)
    }

    fn map(fd: OwnedFd, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses touches nothing that exists.
        let base = unsafe { mmap(null_mut(), bytes, access, SHARED, &fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            bytes,
            fd,
            owner: None,
        })
    }

    /// Keeps it from processes that are forked: to them it is not there, and must not be touched.
    /// Returns whether the kernel does so.
    pub fn keep_from_children(&mut self) -> bool {
        let base = self.base.as_ptr().cast();
        // SAFETY: the whole mapping, which is this process's. It changes no contents.
        let kept = unsafe { madvise(base, self.bytes, Advice::LinuxDontFork) }.is_ok();
        if kept {
            self.owner = Some(std::process::id());
        }
        kept
    }

    /// The memfd, to be sent to the peer.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Size, bytes; never 0.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The first byte, aligned to a page, valid for reads and writes of [`Self::len`] bytes as long
    /// as this lives. The peer may write at any time: access by atomics or volatile.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Copies bytes out. False, and nothing copied, when they are not all inside. What the peer
    /// writes meanwhile may be mixed.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, into.len()) else {
            return false;
        };
        let (head, rest) = into.split_at_mut(into.len().min(from.align_offset(WORD)));
        let mut from = from;
        from = load_bytes(from, head);
        let mut words = rest.chunks_exact_mut(WORD);
        for word in &mut words {
            // SAFETY: inside the mapping, aligned, accessed atomically.
            let value = unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            from = from.wrapping_add(WORD);
        }
        load_bytes(from, words.into_remainder());
        true
    }

    /// Copies bytes in. False, and nothing copied, when they would not all be inside.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(into) = self.range(offset, bytes.len()) else {
            return false;
        };
        let (head, rest) = bytes.split_at(bytes.len().min(into.align_offset(WORD)));
        let mut into = into;
        into = store_bytes(into, head);
        let (words, tail) = rest.as_chunks::<WORD>();
        for word in words {
            // SAFETY: inside the mapping, aligned, accessed atomically.
            unsafe { AtomicU64::from_ptr(into.cast()) }
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            into = into.wrapping_add(WORD);
        }
        store_bytes(into, tail);
        true
    }

    fn range(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        (end <= self.bytes).then(|| self.as_ptr().wrapping_add(offset))
    }
}

/// `from` and as many bytes as `into` has must be inside a shared mapping. Returns the byte after.
fn load_bytes(from: *mut u8, into: &mut [u8]) -> *mut u8 {
    let mut from = from;
    for byte in into {
        // SAFETY: inside the mapping (the callers checked the range), accessed atomically.
        *byte = unsafe { AtomicU8::from_ptr(from) }.load(Ordering::Relaxed);
        from = from.wrapping_add(1);
    }
    from
}

/// As [`load_bytes`], the other way.
fn store_bytes(into: *mut u8, bytes: &[u8]) -> *mut u8 {
    let mut into = into;
    for &byte in bytes {
        // SAFETY: inside the mapping (the callers checked the range), accessed atomically.
        unsafe { AtomicU8::from_ptr(into) }.store(byte, Ordering::Relaxed);
        into = into.wrapping_add(1);
    }
    into
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In another process other memory may lie there.
        if self.owner.is_some_and(|owner| owner != std::process::id()) {
            return;
        }
        // SAFETY: mapped by `map` with this length, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
