//! One step of an entry: what a program would do by a call that does not wait.

use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_WAITALL, POLLIN, iovec, pollfd, sockaddr_storage};
use mtcp::posix::address;
use mtcp::posix::call::{errno, set_errno};
use mtcp::{Errno, Events, Result};

use super::abi::{self, Sqe, op};
use super::buffers::Groups;
use super::job::{Data, Job};
use super::memory;
use crate::engine::{self, Engine};
use crate::hooks::{descriptor, epoll, listen, socket, stream};
use crate::inside::{self, Side};
use crate::log::{Unsupported, unsupported};
use crate::slots::{self, Slot};
use crate::socket::Body;
use crate::{kernel, real};

/// Where an entry is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done(i32),
    /// The same, with flags of the completion.
    Filled(i32, u32),
    /// It goes on, with the next step at once ...
    Again(i32, u32),
    /// ... or when something is new.
    Later(i32),
    /// Until the socket has something new.
    Wait,
    /// Until the kernel's socket has.
    WaitInKernel,
    /// The kernel does it, by an entry like this one.
    Kernel(Sqe),
}

impl Step {
    fn of(result: Result<c_int>) -> Self {
        match result {
            Ok(-1) => Self::Done(-errno()),
            Ok(value) => Self::Done(value),
            Err(error) => Self::Done(-error.0),
        }
    }
}

/// Runs a call of the program's.
fn as_program<T>(call: impl FnOnce() -> T) -> T {
    let before = inside::go(Side::Program);
    let result = call();
    inside::go(before);
    result
}

fn count(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// What the socket of the entry's descriptor has become.
pub(super) fn body(fd: c_int) -> Option<Body> {
    if !slots::is_socket(fd) {
        return None;
    }
    engine::lock()
        .ok()?
        .sockets
        .find(fd)
        .map(|found| found.body)
}

/// Whether the stack has to do with a descriptor.
pub(super) fn is_served(fd: c_int) -> bool {
    match slots::look(fd) {
        Slot::Socket(_) => matches!(body(fd), Some(Body::Stream(_) | Body::Listener { .. })),
        Slot::Epoll(index) => {
            let engine = engine::lock();
            engine.is_ok_and(|engine| engine.epolls.instances(index).next().is_some())
        }
        Slot::Kernel | Slot::Private | Slot::Ring => false,
    }
}

/// The socket that the entry is about, for which it waits.
pub(super) fn subject(fd: c_int) -> Option<(u32, u32)> {
    let engine = engine::lock().ok()?;
    engine
        .sockets
        .find(fd)
        .map(|found| (found.index, found.serial))
}

/// Does what can be done of the entry now.
pub(super) fn step(job: &mut Job) -> Step {
    let data = match &job.now.data {
        Ok(data) => data,
        Err(error) => return Step::Done(-error.0),
    };
    let entry = job.now.entry;
    if job.socket.is_some() && subject(entry.fd) != job.socket {
        // The program has closed it meanwhile.
        return Step::Done(-libc::ECANCELED);
    }
    match (entry.opcode, data) {
        (
            op::RECV
            | op::READ
            | op::READ_FIXED
            | op::SEND
            | op::WRITE
            | op::WRITE_FIXED
            | op::SEND_ZC,
            _,
        ) => whole(&mut job.moved, &entry),
        (op::READV | op::WRITEV, Data::Buffers(parts))
        | (op::RECVMSG | op::SENDMSG | op::SENDMSG_ZC, Data::Message(parts)) => {
            vector(&entry, parts)
        }
        (op::ACCEPT, _) => accept(&entry),
        (op::CONNECT, Data::Address(bytes)) => connect(&entry, bytes),
        (op::POLL_ADD, _) => poll(&entry),
        _ => call(&entry, data),
    }
}

/// Calls that do not wait.
fn call(entry: &Sqe, data: &Data) -> Step {
    let fd = entry.fd;
    let number = |value: u32| value.cast_signed();
    let made = as_program(|| match (entry.opcode, data) {
        (op::CLOSE, _) => descriptor::close_at_once(fd),
        // SAFETY: no memory is involved.
        (op::SHUTDOWN, _) => unsafe { socket::shutdown(fd, number(entry.len)) },
        // SAFETY: no memory is involved.
        (op::LISTEN, _) => unsafe { listen::listen(fd, number(entry.len)) },
        // SAFETY: no memory is involved.
        (op::SOCKET, _) => unsafe { socket::socket(fd, entry.off as c_int, number(entry.len)) },
        (op::BIND, Data::Address(bytes)) => {
            // SAFETY: an address of that length.
            unsafe { socket::bind(fd, bytes.as_ptr().cast(), bytes.len() as u32) }
        }
        (op::EPOLL_CTL, Data::Event(event)) => {
            let mut event = *event;
            // SAFETY: an event.
            unsafe { epoll::epoll_ctl(fd, number(entry.len), entry.off as c_int, &raw mut event) }
        }
        (op::EPOLL_CTL, _) => {
            let none = std::ptr::null_mut();
            // SAFETY: no memory is involved.
            unsafe { epoll::epoll_ctl(fd, number(entry.len), entry.off as c_int, none) }
        }
        _ => {
            set_errno(libc::EINVAL);
            -1
        }
    });
    Step::of(Ok(made))
}

/// Where the connection is not there any more.
fn not_connected() -> isize {
    set_errno(libc::ENOTCONN);
    -1
}

fn receives(entry: &Sqe) -> bool {
    matches!(
        entry.opcode,
        op::RECV | op::READ | op::READ_FIXED | op::READV | op::RECVMSG
    )
}

/// The flags of the entry, and whether it waits. Those of files have others.
fn flags(entry: &Sqe) -> (c_int, bool) {
    const RWF_NOWAIT: u32 = 8;
    let files = matches!(
        entry.opcode,
        op::READ | op::READ_FIXED | op::READV | op::WRITE | op::WRITE_FIXED | op::WRITEV
    );
    if files {
        return (0, entry.op_flags & RWF_NOWAIT == 0);
    }
    let flags = entry.op_flags.cast_signed();
    (flags & !MSG_WAITALL, flags & MSG_DONTWAIT == 0)
}

/// Moves what can be moved into or out of buffers of the program.
fn transfer(entry: &Sqe, parts: &[iovec]) -> Result<u64> {
    let receives = receives(entry);
    let (flags, _) = flags(entry);
    let mut room = memory::BYTES_MAX as usize;
    let mut checked = Vec::with_capacity(parts.len());
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        let part = iovec {
            iov_len: part.iov_len.min(room),
            ..*part
        };
        room -= part.iov_len;
        memory::check(&part, receives)?;
        checked.push(part);
    }
    let moved = if receives {
        // SAFETY: the kernel found them there, and the program leaves them alone until the entry is
        // done.
        let each = |part: &iovec| unsafe {
            IoSliceMut::new(slice::from_raw_parts_mut(
                part.iov_base.cast(),
                part.iov_len,
            ))
        };
        let mut slices: Vec<IoSliceMut<'_>> = checked.iter().map(each).collect();
        stream::receive(entry.fd, &mut slices, flags | MSG_DONTWAIT, not_connected)
    } else {
        // SAFETY: as above.
        let each = |part: &iovec| unsafe {
            IoSlice::new(slice::from_raw_parts(part.iov_base.cast(), part.iov_len))
        };
        let slices: Vec<IoSlice<'_>> = checked.iter().map(each).collect();
        let flags = flags | MSG_DONTWAIT | MSG_NOSIGNAL;
        stream::transmit(entry.fd, &slices, flags, not_connected)
    }?;
    u64::try_from(moved).map_err(|_| Errno(errno()))
}

/// Receives into the next of the buffers that the program has provided.
pub(super) fn select(job: &Job, groups: &mut Groups) -> Step {
    let entry = &job.now.entry;
    if job.socket.is_some() && subject(entry.fd) != job.socket {
        return Step::Done(-libc::ECANCELED);
    }
    let buffer = match groups.next(entry.buf) {
        Ok(buffer) => buffer,
        Err(error) => return Step::Done(-error.0),
    };
    let len = match entry.len {
        0 => buffer.len,
        len => len.min(buffer.len),
    };
    let part = memory::part(buffer.at, len.into());
    let ours = is_served(entry.fd);
    let moved = if ours {
        transfer(entry, &[part])
    } else {
        by_kernel(entry, &part)
    };
    match moved {
        Ok(n @ 1..) => {
            groups.take(entry.buf);
            let which = abi::F_BUFFER | u32::from(buffer.id) << abi::BUFFER_SHIFT;
            let goes_on = entry.opcode == op::RECV && entry.ioprio & abi::RECV_MULTISHOT != 0;
            if goes_on {
                Step::Again(count(n), which)
            } else {
                Step::Filled(count(n), which)
            }
        }
        Ok(_) => Step::Done(0),
        Err(Errno::EAGAIN) if !flags(entry).1 => Step::Done(-libc::EAGAIN),
        Err(Errno::EAGAIN) if ours => Step::Wait,
        Err(Errno::EAGAIN) => Step::WaitInKernel,
        Err(error) => Step::Done(-error.0),
    }
}

/// Receives from a socket of the kernel.
fn by_kernel(entry: &Sqe, part: &iovec) -> Result<u64> {
    memory::check(part, true)?;
    let (flags, _) = flags(entry);
    // SAFETY: the kernel looks at what is there.
    let n = unsafe { real::recv(entry.fd, part.iov_base, part.iov_len, flags | MSG_DONTWAIT) };
    match u64::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) if entry.opcode == op::READ && errno() == libc::ENOTSOCK => {
            unsupported(
                Unsupported::Ring,
                format_args!("a read of a file into a provided buffer"),
            );
            Err(Errno::EINVAL)
        }
        Err(_) => Err(Errno(errno())),
    }
}

/// One buffer; with MSG_WAITALL until all of it is moved.
fn whole(moved: &mut u64, entry: &Sqe) -> Step {
    let is_file = matches!(
        entry.opcode,
        op::READ | op::READ_FIXED | op::WRITE | op::WRITE_FIXED
    );
    if is_file && entry.len == 0 {
        return Step::Done(0);
    }
    let all = !is_file && entry.op_flags.cast_signed() & MSG_WAITALL != 0;
    loop {
        let left = u64::from(entry.len) - *moved;
        let part = iovec {
            iov_base: entry.addr.wrapping_add(*moved) as *mut _,
            iov_len: left as usize,
        };
        match transfer(entry, &[part]) {
            Ok(n) => {
                *moved += n;
                if !all || n == 0 || n == left {
                    return Step::Done(count(*moved));
                }
            }
            Err(Errno::EAGAIN) if flags(entry).1 => return Step::Wait,
            Err(_) if *moved > 0 => return Step::Done(count(*moved)),
            Err(error) => return Step::Done(-error.0),
        }
    }
}

fn vector(entry: &Sqe, parts: &[iovec]) -> Step {
    match transfer(entry, parts) {
        Ok(n) if entry.opcode == op::RECVMSG => match nobody(entry.addr) {
            Ok(()) => Step::Done(count(n)),
            Err(error) => Step::Done(-error.0),
        },
        Ok(n) => Step::Done(count(n)),
        Err(Errno::EAGAIN) if flags(entry).1 => Step::Wait,
        Err(error) => Step::Done(-error.0),
    }
}

/// A connection has neither a sender per message nor control messages.
fn nobody(message: u64) -> Result<()> {
    let at = |offset: usize| message.wrapping_add(offset as u64);
    memory::put(at(std::mem::offset_of!(libc::msghdr, msg_namelen)), &0u32)?;
    memory::put(
        at(std::mem::offset_of!(libc::msghdr, msg_controllen)),
        &0u64,
    )?;
    memory::put(at(std::mem::offset_of!(libc::msghdr, msg_flags)), &0u32)
}

fn accept(entry: &Sqe) -> Step {
    /// IORING_ACCEPT_DONTWAIT.
    const DONTWAIT: u16 = 1 << 1;
    match accept_one(entry) {
        Ok(new) if entry.ioprio & abi::ACCEPT_MULTISHOT != 0 => Step::Again(new, 0),
        Ok(new) => Step::Done(new),
        Err(Errno::EAGAIN) if entry.ioprio & DONTWAIT == 0 => Step::Wait,
        Err(error) => Step::Done(-error.0),
    }
}

fn accept_one(entry: &Sqe) -> Result<c_int> {
    let flags = entry.op_flags.cast_signed();
    let given = |new| match new {
        0.. => Ok(new),
        _ => Err(Errno(errno())),
    };
    if entry.addr == 0 {
        let nowhere = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: no address is wanted.
        return unsafe { listen::take(entry.fd, nowhere, flags, false) }.and_then(given);
    }
    let room = usize::try_from(memory::get::<i32>(entry.off)?).map_err(|_| Errno::EINVAL)?;
    // SAFETY: all zeros are an address of no family.
    let mut peer: sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&peer) as u32;
    let at = &raw mut peer;
    // SAFETY: room for any address.
    let new = unsafe { listen::take(entry.fd, (at.cast(), &raw mut len), flags, false) };
    let new = new.and_then(given)?;
    // SAFETY: so many bytes of it.
    let bytes = unsafe { slice::from_raw_parts(at.cast::<u8>(), size_of_val(&peer)) };
    let told = bytes.get(..room.min(len as usize)).unwrap_or_default();
    let stored = memory::put_bytes(entry.addr, told).and_then(|()| memory::put(entry.off, &len));
    if stored.is_err() {
        // SAFETY: nobody knows it.
        as_program(|| unsafe { descriptor::close(new) });
    }
    stored.map(|()| new)
}

fn connect(entry: &Sqe, bytes: &[u8]) -> Step {
    // The kernel connects to where the program's entry pointed to, which may be gone.
    let copied = Step::Kernel(Sqe {
        addr: bytes.as_ptr() as u64,
        ..*entry
    });
    // SAFETY: an address of that length.
    let Ok(remote) = (unsafe { address::parse(bytes.as_ptr().cast(), bytes.len() as u32) }) else {
        return copied;
    };
    if !slots::is_socket(entry.fd) {
        return copied;
    }
    let mut by_kernel = false;
    let made = socket::connect_to(entry.fd, remote, false, || {
        by_kernel = true;
        0
    });
    match made {
        _ if by_kernel => copied,
        Ok(-1) if errno() == libc::EINPROGRESS => copied,
        Err(Errno::EINPROGRESS | Errno::EALREADY) => Step::Wait,
        made => Step::of(made),
    }
}

/// What a poll would say now of a socket.
fn poll(entry: &Sqe) -> Step {
    let wanted = entry.op_flags as u16;
    match revents(entry.fd, wanted) {
        Ok(0) => Step::Wait,
        Ok(bits) if entry.len & abi::POLL_MULTI != 0 => Step::Later(bits.into()),
        Ok(bits) => Step::Done(bits.into()),
        Err(error) => Step::Done(-error.0),
    }
}

fn revents(fd: c_int, wanted: u16) -> Result<u16> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if matches!(found.body, Body::Listener { .. }) {
        engine::serve(&mut engine);
    }
    let ours = ours(&engine, found.index);
    let events = Events::from_bits_truncate(wanted.into());
    let ready = match (ours, engine.context()) {
        (Some(id), Some(context)) => context.ready(id, events),
        _ => Events::empty(),
    };
    drop(engine);
    let mut bits = u16::try_from(ready.bits()).unwrap_or(0);
    if !matches!(found.body, Body::Stream(_)) {
        let mut kernel = [pollfd {
            fd,
            events: wanted.cast_signed(),
            revents: 0,
        }];
        kernel::ppoll(
            &mut kernel,
            Some(std::time::Duration::ZERO),
            std::ptr::null(),
        )?;
        let [kernel] = kernel;
        bits |= kernel.revents.cast_unsigned();
    }
    Ok(bits)
}

/// What stands for a socket of the engine in the stack.
pub(super) fn ours(engine: &Engine, index: u32) -> Option<mtcp::SocketId> {
    let socket = engine.sockets.get(index);
    socket.and_then(crate::socket::Socket::ours)
}

/// An entry that waits until the kernel has something for a descriptor.
pub(super) fn wait_in_kernel(fd: c_int) -> Sqe {
    Sqe {
        opcode: op::POLL_ADD,
        fd,
        op_flags: u32::from(POLLIN.cast_unsigned()),
        ..Sqe::default()
    }
}
