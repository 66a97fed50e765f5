//! Epoll instances of the program: a kernel instance for descriptors of the kernel, and one of the
//! stack beside it for our sockets.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_event};
use mtcp::slab::Slab;
use mtcp::{Context, Ctl, EpollEvent, Errno, Events, Interest, Result, SocketId};

use crate::socket::Body;
use crate::sockets::Sockets;
use crate::{private, real};

/// Comes back from the kernel when a thread in its `epoll_wait` must look at the stack too.
const WAKE_UP: u64 = 0x6d74_6370_6b69_636b;
const EPOLLEXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE.cast_unsigned();
/// What may stand beside EPOLLEXCLUSIVE.
const WITH_EXCLUSIVE: u32 = EPOLLEXCLUSIVE
    | (libc::EPOLLIN
        | libc::EPOLLOUT
        | libc::EPOLLERR
        | libc::EPOLLHUP
        | libc::EPOLLWAKEUP
        | libc::EPOLLET)
        .cast_unsigned();
/// Reports of the stack per wait.
pub(crate) const REPORTS: usize = 32;

/// A socket of the engine.
#[derive(Clone, Copy, Debug)]
struct Name {
    index: u32,
    /// The descriptor that named it first.
    number: c_int,
}

/// Interest in a socket that the kernel watches, and that may become ours.
#[derive(Clone, Copy, Debug)]
struct Parked {
    socket: u32,
    interest: Interest,
}

/// One epoll instance.
#[derive(Debug)]
pub(crate) struct EpollSet {
    /// Descriptors that name it.
    pub(crate) names: Vec<c_int>,
    /// Its side in the stack, made with the first socket of ours.
    pub(crate) ours: Option<SocketId>,
    /// One more for each further descriptor of a socket that is watched too.
    copies: HashMap<(c_int, u32), SocketId>,
    parked: HashMap<c_int, Parked>,
    /// Descriptors of connections of ours that are watched with EPOLLEXCLUSIVE.
    exclusive: HashSet<c_int>,
    /// Instances in this one.
    nested: HashMap<c_int, (u32, Interest)>,
    /// The kernel's descriptors go first in the next wait.
    pub(crate) kernel_first: bool,
    /// Threads that wait in the kernel only.
    in_kernel: u32,
    /// A descriptor that ends their wait.
    wake_up: Option<c_int>,
}

/// What an instance of the kernel's is to watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    epoll: c_int,
    fd: c_int,
    event: epoll_event,
}

impl Watcher {
    /// Has the kernel do so from now on; without memory it does not.
    pub(crate) fn watch(mut self) {
        let event = &raw mut self.event;
        // SAFETY: an event.
        unsafe { real::epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.fd, event) };
    }
}

fn interest(event: &epoll_event) -> Interest {
    Interest {
        events: Events::from_bits_truncate(event.events),
        data: event.u64,
    }
}

impl EpollSet {
    pub(crate) fn new(name: c_int) -> Self {
        Self {
            names: vec![name],
            ours: None,
            copies: HashMap::new(),
            parked: HashMap::new(),
            exclusive: HashSet::new(),
            nested: HashMap::new(),
            kernel_first: false,
            in_kernel: 0,
            wake_up: None,
        }
    }

    /// The instance of the stack that watches a socket for its descriptor `fd`. A set watches the
    /// same socket once per descriptor (epoll(7)), an instance only once.
    fn instance(
        &mut self,
        context: &mut Context,
        (fd, socket): (c_int, &Name),
    ) -> Result<SocketId> {
        let known = if fd == socket.number {
            self.ours
        } else {
            self.copies.get(&(fd, socket.index)).copied()
        };
        if let Some(id) = known {
            return Ok(id);
        }
        let id = context.epoll_create()?;
        if fd == socket.number {
            self.ours = Some(id);
        } else {
            self.copies.insert((fd, socket.index), id);
        }
        Ok(id)
    }

    /// All instances of the stack that are part of this one.
    fn all_ours(&self) -> impl Iterator<Item = SocketId> {
        self.ours.into_iter().chain(self.copies.values().copied())
    }

    /// Has no instance watch for a further descriptor any more.
    fn forget_copies(&mut self, context: &mut Context, gone: impl Fn(c_int, u32) -> bool) {
        self.copies.retain(|(fd, socket), id| {
            let over = gone(*fd, *socket);
            if over {
                // It is an instance.
                let _ = context.close(*id);
            }
            !over
        });
    }

    /// What epoll_ctl(2) says of EPOLLEXCLUSIVE.
    fn check_exclusive(&self, ctl: Ctl, fd: c_int, events: u32) -> Result<()> {
        let exclusive = events & EPOLLEXCLUSIVE != 0;
        let refused = match ctl {
            Ctl::Mod => exclusive || self.exclusive.contains(&fd),
            Ctl::Add => exclusive && events & !WITH_EXCLUSIVE != 0,
            Ctl::Del => false,
        };
        if refused { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn note_exclusive(&mut self, ctl: Ctl, fd: c_int, events: u32) {
        if ctl == Ctl::Add && events & EPOLLEXCLUSIVE != 0 {
            self.exclusive.insert(fd);
        } else if ctl != Ctl::Mod && !self.exclusive.is_empty() {
            self.exclusive.remove(&fd);
        }
    }

    /// The kernel need not watch `fd` any more.
    fn leave_kernel(&self, fd: c_int) {
        if let Some(epoll) = self.names.first() {
            // SAFETY: no event is needed to delete.
            unsafe { real::epoll_ctl(*epoll, EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        }
    }

    /// Ends the waits of those in the kernel.
    fn wake_in_kernel(&mut self) {
        let Some(&epoll) = self.names.first() else {
            return;
        };
        if self.in_kernel == 0 || self.wake_up.is_some() {
            return;
        }
        // SAFETY: makes a descriptor that is readable at once; no memory is involved.
        let fd = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let fd = private::own(fd);
        let mut event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: WAKE_UP,
        };
        // SAFETY: an event.
        if unsafe { real::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &raw mut event) } == 0 {
            self.wake_up = Some(fd);
        } else if fd >= 0 {
            // SAFETY: made above.
            unsafe { real::close(fd) };
        }
    }

    /// A thread is about to wait in the kernel only, until the stack has to do with the instance,
    /// which it has already if `is_ours`.
    pub(crate) fn enter_kernel(&mut self, is_ours: bool) {
        self.in_kernel += 1;
        if is_ours {
            self.wake_in_kernel();
        }
    }

    /// It does not any more.
    pub(crate) fn come_back(&mut self) {
        self.in_kernel = self.in_kernel.saturating_sub(1);
    }

    /// Takes the wake-up out of what the kernel reported. Returns how many reports are left.
    pub(crate) fn sift(&mut self, events: &mut [epoll_event]) -> usize {
        let woken = events.iter().position(|event| event.u64 == WAKE_UP);
        let (Some(at), Some(fd)) = (woken, self.wake_up) else {
            return events.len();
        };
        events.copy_within(at + 1.., at);
        if self.in_kernel == 0 {
            self.wake_up = None;
            // SAFETY: a descriptor of ours; the instance forgets it.
            unsafe { real::close(fd) };
        }
        events.len() - 1
    }
}

/// All instances of the program, by index: slots say which index a descriptor has.
#[derive(Debug)]
pub(crate) struct Epolls {
    sets: Slab<EpollSet>,
}

/// What epoll_ctl(2) is about: an instance with its index, and a socket with its.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) epoll: c_int,
    pub(crate) index: u32,
    pub(crate) fd: c_int,
    pub(crate) socket: u32,
}

impl Epolls {
    pub(crate) const fn new() -> Self {
        Self { sets: Slab::new() }
    }

    /// Notes a new instance. Returns its index.
    pub(crate) fn insert(&mut self, name: c_int) -> u32 {
        self.sets.insert(EpollSet::new(name))
    }

    pub(crate) fn get(&self, index: u32) -> Option<&EpollSet> {
        self.sets.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut EpollSet> {
        self.sets.get_mut(index)
    }

    /// Ends the waits of all threads that wait in the kernel only.
    pub(crate) fn wake_all_in_kernel(&mut self) {
        self.sets.values_mut().for_each(EpollSet::wake_in_kernel);
    }

    /// Whether a wait on the instance is for something that only a stack can bring.
    pub(crate) fn needs_stack(&self, index: u32, sockets: &Sockets) -> bool {
        let Some(set) = self.sets.get(index) else {
            return false;
        };
        let listens = |parked: &Parked| {
            let socket = sockets.get(parked.socket);
            socket.is_some_and(|socket| matches!(socket.body, Body::Listener { .. }))
        };
        set.parked.values().any(listens)
            || set
                .nested
                .values()
                .any(|(child, _)| *child != index && self.needs_stack(*child, sockets))
    }

    /// The stack's instances that a wait on this one is about: its own, and those in it.
    pub(crate) fn instances(&self, index: u32) -> impl Iterator<Item = SocketId> {
        self.sets.get(index).into_iter().flat_map(|set| {
            let nested = set
                .nested
                .values()
                .filter_map(|(child, _)| self.sets.get(*child));
            set.all_ours().chain(nested.flat_map(EpollSet::all_ours))
        })
    }

    /// Whether the last turn was just now and left something to be reported for an instance: a turn
    /// for each of many small waits would carry little.
    pub(crate) fn has_rest(&self, context: &mut Context, index: u32) -> bool {
        let mut ours = self
            .sets
            .get(index)
            .into_iter()
            .flat_map(EpollSet::all_ours);
        context.is_fresh() && ours.any(|id| context.epoll_pending(id) == Ok(true))
    }

    /// What the stack has to report for an instance.
    pub(crate) fn harvest(
        &self,
        context: &mut Context,
        index: u32,
        events: &mut [epoll_event],
    ) -> usize {
        let Some(set) = self.sets.get(index) else {
            return 0;
        };
        let mut n = 0;
        for id in set.all_ours() {
            n += take(context, id, events.get_mut(n..).unwrap_or_default());
        }
        n + self.harvest_nested(context, index, events.get_mut(n..).unwrap_or_default())
    }

    /// Instances in this one that have something.
    fn harvest_nested(
        &self,
        context: &mut Context,
        index: u32,
        events: &mut [epoll_event],
    ) -> usize {
        let Some(set) = self.sets.get(index) else {
            return 0;
        };
        let children = set
            .nested
            .values()
            .filter(|(_, interest)| interest.events.contains(Events::IN));
        let ready = children.filter(|(child, _)| self.is_ready(context, *child));
        let mut n = 0;
        for (to, (_, interest)) in events.iter_mut().zip(ready) {
            to.events = Events::IN.bits();
            to.u64 = interest.data;
            n += 1;
        }
        n
    }

    /// Whether a wait on an instance would report something of ours.
    pub(crate) fn is_ready(&self, context: &mut Context, index: u32) -> bool {
        self.instances(index)
            .any(|id| context.epoll_ready(id).unwrap_or(false))
    }

    /// `epoll_ctl` in the stack for the socket `id` of ours. `number` is its first descriptor.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub(crate) fn watch(
        &mut self,
        context: &mut Context,
        op: c_int,
        watched: Watched,
        (body, number): (Body, c_int),
        event: Option<&epoll_event>,
    ) -> Result<()> {
        let ctl = ctl(op)?;
        let (Body::Stream(id) | Body::Listener { ours: Some(id), .. }) = body else {
            return Ok(());
        };
        let interest = match (ctl, event) {
            (Ctl::Del, _) => Interest::default(),
            (_, Some(event)) => interest(event),
            (_, None) => return Err(Errno::EFAULT),
        };
        let Watched { fd, socket, .. } = watched;
        let name = Name {
            index: socket,
            number,
        };
        let set = self.sets.get_mut(watched.index).ok_or(Errno::EBADF)?;
        let events = event.map_or(0, |event| event.events);
        if let Body::Stream(_) = body {
            set.check_exclusive(ctl, fd, events)?;
        }
        let instance = set.instance(context, (fd, &name))?;
        let done = context.epoll_ctl(instance, ctl, id, interest);
        if done.is_ok() {
            set.note_exclusive(ctl, fd, events);
        }
        if ctl == Ctl::Del || done == Err(Errno::ENOENT) {
            set.forget_copies(context, |copy, of| (copy, of) == (fd, socket));
        }
        set.wake_in_kernel();
        done
    }

    /// The kernel's part, for sockets that are, or also are, the kernel's.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub(crate) fn watch_kernel(
        &mut self,
        op: c_int,
        watched: Watched,
        event: Option<&epoll_event>,
    ) -> Result<()> {
        let Watched { fd, socket, .. } = watched;
        let mut copy = event.copied();
        let pointer = copy
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: an event or NULL.
        if unsafe { real::epoll_ctl(watched.epoll, op, fd, pointer) } < 0 {
            return Err(Errno(mtcp::posix::call::errno()));
        }
        if let Some(set) = self.sets.get_mut(watched.index) {
            match event {
                Some(event) if op != EPOLL_CTL_DEL => {
                    let interest = interest(event);
                    set.parked.insert(fd, Parked { socket, interest });
                }
                _ => {
                    set.parked.remove(&fd);
                }
            }
        }
        Ok(())
    }

    /// An instance inside another: the kernel watches its side, we remember for ours.
    pub(crate) fn nest(
        &mut self,
        index: u32,
        op: c_int,
        (fd, child): (c_int, u32),
        event: Option<&epoll_event>,
    ) {
        let Some(set) = self.sets.get_mut(index) else {
            return;
        };
        match event {
            Some(event) if op != EPOLL_CTL_DEL => {
                set.nested.insert(fd, (child, interest(event)));
            }
            _ => {
                set.nested.remove(&fd);
            }
        }
    }

    /// A socket became ours: the stack watches it from now on as `id` for whoever had the kernel do
    /// so, `alone` if the kernel shall not any more. `number` is its first descriptor.
    pub(crate) fn rewatch(
        &mut self,
        context: &mut Context,
        socket: u32,
        (id, number): (SocketId, c_int),
        alone: bool,
    ) {
        let name = Name {
            index: socket,
            number,
        };
        for set in self.sets.values_mut() {
            let mine: Vec<(c_int, Interest)> = set
                .parked
                .iter()
                .filter(|(_, parked)| parked.socket == socket)
                .map(|(fd, parked)| (*fd, parked.interest))
                .collect();
            for (fd, interest) in mine {
                // Without memory it is not watched.
                let _ = set
                    .instance(context, (fd, &name))
                    .and_then(|instance| context.epoll_ctl(instance, Ctl::Add, id, interest));
                if alone {
                    set.parked.remove(&fd);
                    set.leave_kernel(fd);
                }
                set.wake_in_kernel();
            }
        }
    }

    /// A socket of ours becomes the kernel's: who watches it, by which of its descriptors, and for
    /// what.
    pub(crate) fn watchers(
        &self,
        context: &mut Context,
        (index, number): (u32, c_int),
        id: SocketId,
        fds: &[c_int],
    ) -> Vec<Watcher> {
        let mut all = Vec::new();
        for (_, set) in self.sets.iter() {
            let Some(&epoll) = set.names.first() else {
                continue;
            };
            for &fd in fds {
                let instance = match fd == number {
                    true => set.ours,
                    false => set.copies.get(&(fd, index)).copied(),
                };
                let interest = instance.and_then(|ep| context.epoll_interest(ep, id));
                all.extend(interest.map(|interest| Watcher {
                    epoll,
                    fd,
                    event: epoll_event {
                        events: interest.events.bits(),
                        u64: interest.data,
                    },
                }));
            }
        }
        all
    }

    /// A socket is gone, or the kernel's for good.
    pub(crate) fn forget(&mut self, mut context: Option<&mut Context>, socket: u32) {
        for set in self.sets.values_mut() {
            if !set.parked.is_empty() {
                set.parked.retain(|_, parked| parked.socket != socket);
            }
            if !set.copies.is_empty()
                && let Some(context) = &mut context
            {
                set.forget_copies(context, |_, of| of == socket);
            }
        }
    }

    /// One descriptor less names the instance.
    pub(crate) fn release(&mut self, context: Option<&mut Context>, index: u32, name: c_int) {
        let Some(set) = self.sets.get_mut(index) else {
            return;
        };
        set.names.retain(|other| *other != name);
        if !set.names.is_empty() {
            return;
        }
        let gone = self.sets.remove(index);
        for set in self.sets.values_mut() {
            set.nested.retain(|_, (child, _)| *child != index);
        }
        if let (Some(gone), Some(context)) = (gone, context) {
            for id in gone.all_ours() {
                // It is an instance.
                let _ = context.close(id);
            }
        }
    }

    /// What was in the stack is not there any more.
    pub(crate) fn forget_instances(&mut self) {
        for set in self.sets.values_mut() {
            set.ours = None;
            set.copies.clear();
        }
    }

    /// In the child of a `fork`, which has one thread.
    pub(crate) fn inherit(&mut self) {
        self.forget_instances();
        for set in self.sets.values_mut() {
            set.in_kernel = 0;
        }
    }
}

/// What an instance of the stack has to report.
fn take(context: &mut Context, id: SocketId, events: &mut [epoll_event]) -> usize {
    let mut reports = [EpollEvent::default(); REPORTS];
    let room = events.len().min(REPORTS);
    let reports = reports.get_mut(..room).unwrap_or_default();
    let n = context.epoll_take(id, reports).unwrap_or(0);
    for (to, from) in events.iter_mut().zip(reports.iter().take(n)) {
        to.events = from.events.bits();
        to.u64 = from.data;
    }
    n
}

fn ctl(op: c_int) -> Result<Ctl> {
    match op {
        EPOLL_CTL_ADD => Ok(Ctl::Add),
        EPOLL_CTL_MOD => Ok(Ctl::Mod),
        EPOLL_CTL_DEL => Ok(Ctl::Del),
        _ => Err(Errno::EINVAL),
    }
}
