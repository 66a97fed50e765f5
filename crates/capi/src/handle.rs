//! Contexts as C sees them: a fixed table of slots, whose addresses are the values of `mctx_t`.
//!
//! A slot belongs to the thread that uses it first. Only that thread touches the context, so a call
//! costs one comparison of thread ids and no atomic read-modify-write. When the thread ends, the
//! slot is free for another to use or destroy. A context that another thread destroys meanwhile is
//! *doomed*: its calls fail, and it goes with its thread.

use std::cell::UnsafeCell;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use crate::say::say;
use mtcp::config::Cidr;
use mtcp::{
    Config, Context, EpollEvent, Errno, OptionName, Result, SocketId, SocketOption, Undelivered,
    WakeHandle,
};

/// Contexts per process: as many as `num_cores` may say.
const SLOTS: usize = 1024;

/// How long a context that ends waits for peers that acknowledge nothing of what was written, and
/// how many signals may begin that anew.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);
const SIGNALS: u32 = 20;

/// How long another thread's call has to end when the process does.
const GRACE: u32 = 100;
const GRACE_STEP: Duration = Duration::from_millis(1);

/// Nobody's.
const FREE: u8 = 0;
/// Being filled or emptied.
const BUSY: u8 = 1;
/// In use.
const LIVE: u8 = 2;
/// To be destroyed by the thread that owns it.
const DOOMED: u8 = 3;

/// No call is under way.
const OUTSIDE: u8 = 0;
/// A call is under way.
const INSIDE: u8 = 1;
/// A call has panicked: the context may be broken, and stays closed.
const BROKEN: u8 = 2;

/// `struct mtcp_context`, of which C knows only addresses.
#[repr(align(128))]
pub struct Handle {
    state: AtomicU8,
    /// Whether a call is under way. Only the owner looks, but for the end of the process.
    call: AtomicU8,
    /// `pthread_self` of the thread it belongs to; 0: none yet.
    owner: AtomicUsize,
    /// The logical core.
    core: AtomicUsize,
    /// Ends the context's sleep; for signal handlers.
    waker: AtomicPtr<WakeHandle>,
    /// Who looks at `waker` now.
    readers: AtomicU32,
    inner: UnsafeCell<Option<Box<Inner>>>,
}

// SAFETY: `inner` is touched by the owner while LIVE or DOOMED, and by whoever set BUSY; everything
// else is atomic. `Inner` is Send.
unsafe impl Sync for Handle {}

/// A context and what its calls need.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) context: Context,
    /// Most sockets.
    pub(crate) max_concurrency: u32,
    /// `strict_options` of the configuration.
    pub(crate) strict_options: bool,
    /// The first IPv4 address of ours.
    pub(crate) first_v4: Option<Ipv4Addr>,
    /// What `mtcp_epoll_wait` fills before it copies.
    pub(crate) events: Vec<EpollEvent>,
}

impl Inner {
    pub(crate) fn new(mut context: Context, config: &Config) -> Self {
        // The original has no Nagle at all, and programs rely on it. TCP_NODELAY is a value, which
        // any context takes.
        let _ = context.begin_with(SocketOption::NoDelay(true));
        let v4 = |cidr: &Cidr| match cidr.addr {
            IpAddr::V4(addr) => Some(addr),
            IpAddr::V6(_) => None,
        };
        Self {
            context,
            max_concurrency: config.max_concurrency,
            strict_options: config.strict_options,
            first_v4: config.addresses.iter().find_map(v4),
            events: Vec::new(),
        }
    }

    /// Closes what is open and lets it finish, within bounds: what was written is sent as far as
    /// peers take it.
    fn finish(mut self) {
        for id in (0..self.max_concurrency).map(SocketId) {
            // Most ids are of no socket. All wait together, below, and not one after the other.
            let linger = self.context.option(id, OptionName::Linger);
            if matches!(linger, Ok(SocketOption::Linger(Some(time))) if !time.is_zero()) {
                let _ = self.context.set_option(id, SocketOption::Linger(None));
            }
            let _ = self.context.close(id);
        }
        let core = self.context.core();
        for _ in 0..SIGNALS {
            match self.context.deliver(DELIVERY_TIMEOUT) {
                Err(Errno::EINTR) => {}
                Ok(Undelivered { connections, bytes }) if connections > 0 => {
                    say(&format!(
                        "context {core} ends, and {connections} of its connections with it: their peers have not acknowledged {bytes} bytes \
                         and the end within {} s",
                        DELIVERY_TIMEOUT.as_secs()
                    ));
                    break;
                }
                // Nobody could be told that the link is gone.
                Ok(_) | Err(_) => break,
            }
        }
    }
}

const _: () = {
    const fn require_send<T: Send>() {}
    require_send::<Inner>();
};

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("state", &self.state)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

static TABLE: [Handle; SLOTS] = [const { Handle::new() }; SLOTS];

impl Handle {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(FREE),
            call: AtomicU8::new(OUTSIDE),
            owner: AtomicUsize::new(0),
            core: AtomicUsize::new(0),
            waker: AtomicPtr::new(ptr::null_mut()),
            readers: AtomicU32::new(0),
            inner: UnsafeCell::new(None),
        }
    }

    /// The slot with this address.
    #[inline]
    fn find(mctx: *mut Self) -> Result<&'static Self> {
        let offset = mctx.addr().wrapping_sub(TABLE.as_ptr().addr());
        match TABLE.get(offset / size_of::<Self>()) {
            Some(slot) if offset.is_multiple_of(size_of::<Self>()) => Ok(slot),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Makes the calling thread the owner, unless it is another's.
    #[cold]
    fn bind(&self, me: usize) -> Result<()> {
        if self.state.load(Ordering::Acquire) != LIVE {
            return Err(Errno::EINVAL);
        }
        // Fails in a thread that is ending already: nobody would release what it takes.
        EXIT.try_with(|_| ()).map_err(|_| Errno::EPERM)?;
        self.owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Errno::EPERM)?;
        // It may have been destroyed before it was ours.
        if self.state.load(Ordering::Acquire) == LIVE {
            return Ok(());
        }
        self.owner.store(0, Ordering::Release);
        Err(Errno::EINVAL)
    }

    /// Destroys the context. Only for the owner, outside of calls.
    fn empty(&self) {
        self.state.store(BUSY, Ordering::Release);
        self.retire_waker();
        // SAFETY: this thread owns the slot and is in no call on it, and it is BUSY for all others.
        let inner = unsafe { (*self.inner.get()).take() };
        if let Some(inner) = inner {
            inner.finish();
        }
        self.call.store(OUTSIDE, Ordering::Relaxed);
        self.owner.store(0, Ordering::Release);
        self.state.store(FREE, Ordering::Release);
    }

    fn retire_waker(&self) {
        let waker = self.waker.swap(ptr::null_mut(), Ordering::SeqCst);
        // Readers are signal handlers of other threads: they end by themselves.
        while self.readers.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        if !waker.is_null() {
            // SAFETY: it came from `Box::into_raw` in `insert`, and nobody can see it any more.
            drop(unsafe { Box::from_raw(waker) });
        }
    }

    /// Ends the context's current or next blocking call with EINTR. For any thread, and for signal
    /// handlers.
    fn interrupt(&self) {
        if self.state.load(Ordering::Relaxed) == FREE {
            return;
        }
        self.readers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: `retire_waker` frees it only after it took the pointer away and saw no reader.
        if let Some(waker) = unsafe { self.waker.load(Ordering::SeqCst).as_ref() } {
            waker.interrupt();
        }
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn me() -> usize {
    // SAFETY: no conditions. Unique among the threads that live, and never 0 with glibc or musl,
    // where it is an address.
    unsafe { libc::pthread_self() as usize }
}

/// Runs `call` on the context that C calls `mctx`.
///
/// # Errors
/// `EINVAL`: no context; `EPERM`: another thread's, or doomed; `EDEADLK`: a call on it is under way
/// in this thread, below a signal handler; `ENOTRECOVERABLE`: one has panicked.
#[inline]
pub(crate) fn with<T>(mctx: *mut Handle, call: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
    let slot = Handle::find(mctx)?;
    let me = me();
    if slot.owner.load(Ordering::Relaxed) != me {
        slot.bind(me)?;
    }
    match slot.call.load(Ordering::Relaxed) {
        OUTSIDE => {}
        INSIDE => return Err(Errno::EDEADLK),
        _ => return Err(Errno(libc::ENOTRECOVERABLE)),
    }
    let mut inside = Inside::enter(slot);
    // Said before looking: see `seize`.
    compiler_fence(Ordering::SeqCst);
    if slot.state.load(Ordering::Acquire) != LIVE {
        inside.finished = true;
        return Err(Errno::EPERM);
    }
    // SAFETY: the slot is this thread's, and `call` says that no other call of this thread uses it.
    let inner = unsafe { (*slot.inner.get()).as_deref_mut() };
    let result = inner.ok_or(Errno::EINVAL).and_then(call);
    inside.finished = true;
    result
}

/// A call that is under way.
struct Inside<'a> {
    slot: &'a Handle,
    /// It did not panic.
    finished: bool,
}

impl<'a> Inside<'a> {
    #[inline]
    fn enter(slot: &'a Handle) -> Self {
        slot.call.store(INSIDE, Ordering::Relaxed);
        Self {
            slot,
            finished: false,
        }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        let next = if self.finished { OUTSIDE } else { BROKEN };
        self.slot.call.store(next, Ordering::Relaxed);
    }
}

/// Puts a context into a free slot.
///
/// # Errors
/// `ENFILE`: none is free.
pub(crate) fn insert(inner: Inner) -> Result<*mut Handle> {
    let free = |slot: &&Handle| {
        slot.state
            .compare_exchange(FREE, BUSY, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let slot = TABLE.iter().find(free).ok_or(Errno::ENFILE)?;
    slot.core.store(inner.context.core(), Ordering::Relaxed);
    let waker = Box::new(inner.context.wake_handle());
    slot.waker.store(Box::into_raw(waker), Ordering::SeqCst);
    // SAFETY: BUSY: nobody else touches it.
    unsafe { *slot.inner.get() = Some(Box::new(inner)) };
    slot.state.store(LIVE, Ordering::Release);
    at_exit();
    Ok(ptr::from_ref(slot).cast_mut())
}

/// Which process has contexts. A child that was forked has copies that are not to be used.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Has the end of the program finish what it leaves.
fn at_exit() {
    static ONCE: Once = Once::new();
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // Fails without memory only.
    // SAFETY: the function may run at the end of the program.
    ONCE.call_once(|| unsafe {
        libc::atexit(finish_all);
    });
}

/// The program ends without `mtcp_destroy`: what was written goes out all the same, as from the
/// kernel.
extern "C" fn finish_all() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    for slot in TABLE.iter().filter(|slot| slot.seize()) {
        slot.empty();
    }
}

/// Destroys a context: now if this thread may, else when its thread ends.
///
/// # Errors
/// As [`with`].
pub(crate) fn remove(mctx: *mut Handle) -> Result<()> {
    let slot = Handle::find(mctx)?;
    match with(mctx, |_| Ok(())) {
        Ok(()) | Err(Errno(libc::ENOTRECOVERABLE)) => slot.empty(),
        Err(Errno::EPERM) => slot.doom()?,
        Err(errno) => return Err(errno),
    }
    Ok(())
}

impl Handle {
    /// Tells the owner that the end has come.
    fn doom(&self) -> Result<()> {
        self.state
            .compare_exchange(LIVE, DOOMED, Ordering::SeqCst, Ordering::Relaxed)
            .map_err(|_| Errno::EPERM)?;
        self.interrupt();
        self.empty_if_orphan();
        Ok(())
    }

    /// Makes the calling thread the owner, whosever it was, unless that one's call does not end
    /// soon. For the end of the process, when other threads may still run: their calls fail from
    /// now on.
    ///
    /// A call says that it is under way and then looks whether the context lives; here it is the
    /// other way round. The fence that has to be between the two is [`fence_all`], so that calls,
    /// which are many, need none.
    fn seize(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        if state != LIVE && state != DOOMED {
            return false;
        }
        let owner = self.owner.load(Ordering::SeqCst);
        self.state.store(DOOMED, Ordering::SeqCst);
        if owner != 0 && owner != me() {
            if !fence_all() {
                return false;
            }
            self.interrupt();
            for _ in 0..GRACE {
                if self.call.load(Ordering::SeqCst) != INSIDE {
                    break;
                }
                thread::sleep(GRACE_STEP);
            }
        }
        self.call.load(Ordering::SeqCst) != INSIDE
            && self
                .owner
                .compare_exchange(owner, me(), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }

    /// Destroys a doomed context whose thread has ended. The one that dooms it and the thread that
    /// ends both try, each after it has said what it does; so at least one sees both, and one of
    /// them gets it.
    fn empty_if_orphan(&self) {
        let doomed = self.state.load(Ordering::SeqCst) == DOOMED;
        if doomed
            && self
                .owner
                .compare_exchange(0, me(), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        {
            self.empty();
        }
    }
}

/// A memory fence in every thread of the process. False: the kernel does not let us.
fn fence_all() -> bool {
    const MEMBARRIER_CMD_GLOBAL: libc::c_long = 1;
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// Destroys all contexts, those of other threads when their threads end.
pub(crate) fn remove_all() {
    for slot in &TABLE {
        if slot.state.load(Ordering::Acquire) == LIVE {
            // One in use right now goes with its thread.
            let _ = remove(ptr::from_ref(slot).cast_mut());
        }
    }
}

/// Whether a logical core has its context.
pub(crate) fn is_taken(core: usize) -> bool {
    TABLE.iter().any(|slot| {
        slot.state.load(Ordering::Acquire) != FREE && slot.core.load(Ordering::Relaxed) == core
    })
}

/// Ends blocking calls of all contexts with EINTR. For signal handlers.
pub(crate) fn interrupt_all() {
    TABLE.iter().for_each(Handle::interrupt);
}

thread_local! {
    static EXIT: Exit = const { Exit };
}

/// Gives up what a thread owned when it ends.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        let me = me();
        for slot in TABLE
            .iter()
            .filter(|slot| slot.owner.load(Ordering::Relaxed) == me)
        {
            // Not if the end of the process has taken it meanwhile.
            let given = slot
                .owner
                .compare_exchange(me, 0, Ordering::SeqCst, Ordering::Relaxed);
            if given.is_ok() {
                slot.empty_if_orphan();
            }
        }
    }
}
