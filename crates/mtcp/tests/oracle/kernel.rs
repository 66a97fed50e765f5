//! Scripts on the kernel's, over loopback.

#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program

use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use mtcp::{Events, How};
use rustix::event::epoll;
use rustix::net::{self, AddressFamily, SocketType, sockopt};

use crate::script::*;
use crate::support::addr;

pub struct Kernel {
    ends: HashMap<End, OwnedFd>,
    epolls: [[OwnedFd; 2]; 2],
    at: SocketAddr,
    timeout: Duration,
    /// Fast Open as if there were a cookie: whether a kernel gives any is up to its administrator.
    met: bool,
}

impl Kernel {
    /// `timeout`: how long loopback may take to deliver. It does so within the system call, unless
    /// its softirq is put off to a thread.
    pub fn new(timeout: Duration) -> Self {
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let two = || [create(), create()];
        Self {
            ends: HashMap::new(),
            epolls: [two(), two()],
            at: addr("127.0.0.1", 1),
            timeout,
            met: false,
        }
    }

    fn socket() -> OwnedFd {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    }

    fn epoll(&self, end: End, second: bool) -> &OwnedFd {
        &self.epolls[usize::from(!end.is_client())][usize::from(second)]
    }

    fn repeat(&self, end: End, each: impl Fn(&OwnedFd) -> rustix::io::Result<usize>) -> Answer {
        let mut total = 0;
        for _ in 0..10_000 {
            match each(&self.ends[&end]) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(total),
                Ok(n) => total += n,
                Err(error) => return Err(error.raw_os_error()),
            }
        }
        panic!("no end of it");
    }

    fn ctl(&self, step: Step) -> rustix::io::Result<usize> {
        let flags = |events: Events| epoll::EventFlags::from_bits_retain(events.bits());
        let data = |end: End| epoll::EventData::new_u64(end as u64);
        match step {
            Add(end, events) => epoll::add(
                self.epoll(end, false),
                &self.ends[&end],
                data(end),
                flags(events),
            ),
            Add2(end, events) => epoll::add(
                self.epoll(end, true),
                &self.ends[&end],
                data(end),
                flags(events),
            ),
            Mod(end, events) => epoll::modify(
                self.epoll(end, false),
                &self.ends[&end],
                data(end),
                flags(events),
            ),
            Del(end) => epoll::delete(self.epoll(end, false), &self.ends[&end]),
            _ => unreachable!(),
        }
        .map(|()| 0)
    }

    /// What makes ends.
    fn open(&mut self, step: Step) -> rustix::io::Result<usize> {
        match step {
            Listen => {
                self.listen();
                Ok(0)
            }
            Socket(end) => {
                let fd = Self::socket();
                if self.met {
                    assert_eq!(
                        set_number(&fd, (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_NO_COOKIE), 1),
                        Ok(0)
                    );
                }
                self.ends.insert(end, fd);
                Ok(0)
            }
            Meet => {
                self.met = true;
                Ok(0)
            }
            Send(end, n) => {
                let (fd, bytes) = (&self.ends[&end], vec![7; n]);
                let flags = net::SendFlags::NOSIGNAL
                    | net::SendFlags::from_bits_retain(libc::MSG_FASTOPEN as u32);
                net::sendto(fd, &bytes, flags, &self.at)
            }
            Connect(end) => net::connect(&self.ends[&end], &self.at).map(|()| 0),
            Accept => net::accept_with(&self.ends[&L], net::SocketFlags::NONBLOCK).map(|fd| {
                self.ends.insert(S, fd);
                0
            }),
            _ => unreachable!(),
        }
    }

    fn listen(&mut self) {
        let fd = Self::socket();
        net::bind(&fd, &SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
        net::listen(&fd, 128).unwrap();
        self.at = net::getsockname(&fd).unwrap().try_into().unwrap();
        self.ends.insert(L, fd);
    }
}

/// What a call of the C library said.
fn answer(result: i32, value: i32) -> Answer {
    if result == 0 {
        Ok(value as usize)
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap())
    }
}

fn name(opt: Opt) -> (i32, i32) {
    match opt {
        Opt::RecvLowWater => (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
        Opt::UnsentLowWater => (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        Opt::Cork => (libc::IPPROTO_TCP, libc::TCP_CORK),
        Opt::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        Opt::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
        Opt::DeferAccept => (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
        Opt::WindowClamp => (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
        Opt::FastOpen => (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
        Opt::FastOpenConnect => (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
        Opt::PacingRate => (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE),
    }
}

fn set_number(fd: &OwnedFd, (level, name): (i32, i32), value: i32) -> Answer {
    let at = (&raw const value).cast();
    // SAFETY: the value is an int of the length that is said.
    answer(
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, 4) },
        0,
    )
}

fn get(fd: &OwnedFd, opt: Opt) -> Answer {
    let (level, name) = name(opt);
    let (mut value, mut len) = (0, 4);
    let at = (&raw mut value).cast();
    // SAFETY: there is room for an int, and that is said.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, &raw mut len) };
    answer(result, value)
}

fn unacked(fd: &OwnedFd) -> Answer {
    let mut value = 0;
    // SAFETY: the request stores an int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut value) };
    answer(result, value)
}

impl Net for Kernel {
    fn step(&mut self, step: Step) -> Answer {
        let result = match step {
            Listen | Socket(_) | Meet | Connect(_) | Accept | Send(..) => self.open(step),
            Add(..) | Add2(..) | Mod(..) | Del(_) => self.ctl(step),
            Write(end, n) => net::send(&self.ends[&end], &vec![7; n], net::SendFlags::NOSIGNAL),
            Read(end, n) => rustix::io::read(&self.ends[&end], &mut vec![0; n][..]),
            Fill(end) => {
                return self.repeat(end, |fd| {
                    net::send(fd, &[7; 65_536], net::SendFlags::NOSIGNAL)
                });
            }
            Drain(end) => return self.repeat(end, |fd| rustix::io::read(fd, &mut [0; 65_536][..])),
            Shutdown(end, how) => {
                let how = match how {
                    How::Read => net::Shutdown::Read,
                    How::Write => net::Shutdown::Write,
                    How::Both => net::Shutdown::Both,
                };
                net::shutdown(&self.ends[&end], how).map(|()| 0)
            }
            Close(end) => {
                drop(self.ends.remove(&end));
                Ok(0)
            }
            Reset(end) => {
                let fd = self.ends.remove(&end).unwrap();
                sockopt::set_socket_linger(&fd, Some(Duration::ZERO)).unwrap();
                Ok(0)
            }
            Error(end) => {
                let error = sockopt::socket_error(&self.ends[&end]).unwrap();
                Ok(error.err().map_or(0, |error| error.raw_os_error() as usize))
            }
            Set(end, opt, value) => return set_number(&self.ends[&end], name(opt), value),
            Get(end, opt) => return get(&self.ends[&end], opt),
            Unacked(end) => return unacked(&self.ends[&end]),
            Wait(_) | Wait2(_) => unreachable!(),
        };
        result.map_err(rustix::io::Errno::raw_os_error)
    }

    fn wait(&mut self, end: End, second: bool) -> Vec<(End, Events)> {
        let mut events = Vec::with_capacity(8);
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        epoll::wait(
            self.epoll(end, second),
            rustix::buffer::spare_capacity(&mut events),
            Some(&now),
        )
        .unwrap();
        sorted(events.iter().map(|event| {
            let flags = event.flags;
            (event.data.u64(), Events::from_bits_retain(flags.bits()))
        }))
    }

    fn settle(&mut self) {
        thread::sleep(self.timeout);
    }
}
