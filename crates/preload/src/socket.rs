//! A TCP socket of the program: one open file description, however many descriptors name it.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use libc::socklen_t;
use mtcp::posix::{address, options};
use mtcp::{Context, Domain, Errno, Result, SocketId};

use crate::log::no_effect;
use crate::owner::Owner;
use crate::real;

/// What a socket has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The kernel's so far: neither connected nor listening.
    Open,
    /// A listener, in the kernel and, once the stack runs, in ours.
    Listener {
        backlog: u32,
        ours: Option<SocketId>,
    },
    /// A connection of ours; the kernel socket is a placeholder.
    Stream(SocketId),
    /// A connection that stayed with the parent of this process.
    Lost,
}

/// An option that was set before the socket was ours.
#[derive(Clone, Debug)]
struct Saved {
    level: c_int,
    name: c_int,
    value: Vec<u8>,
}

impl Saved {
    /// Whether the stack has it, and takes this value.
    fn apply(&self, context: &mut Context, id: SocketId) -> bool {
        let entry = options::find(context, id, self.level, self.name);
        let Ok(Some(option)) = entry.map(|entry| entry.map(|entry| (entry.parse)(&self.value)))
        else {
            return false;
        };
        option.is_ok_and(|option| context.set_option(id, option).is_ok())
    }

    /// The stack does what it says in any case, or it is about other sockets than those of TCP.
    fn goes_without_saying(&self) -> bool {
        match (self.level, self.name) {
            // Bytes that are sent have no priority on a link without queues; ports are chosen late.
            (libc::SOL_SOCKET, libc::SO_PRIORITY | libc::SO_BROADCAST)
            | (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT) => true,
            _ => false,
        }
    }
}

/// Options remembered at most.
const SAVED: usize = 64;

/// One socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    /// Descriptors that name it.
    pub(crate) refs: u32,
    /// Tells it from those that had its index before.
    pub(crate) serial: u32,
    /// The descriptor that named it first.
    pub(crate) number: c_int,
    pub(crate) domain: Domain,
    pub(crate) nonblocking: bool,
    /// What F_SETFL set besides.
    pub(crate) status: c_int,
    /// What `bind` said, with the port that the kernel chose.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) body: Body,
    /// Who hears of urgent data.
    pub(crate) owner: Owner,
    /// The process that this one was forked by had it, too.
    pub(crate) inherited: bool,
    /// A process that this one forked had it, too.
    pub(crate) shared: bool,
    pub(crate) recv_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    /// Shared with the connections of a listener.
    options: Arc<Vec<Saved>>,
}

impl Socket {
    pub(crate) fn new(number: c_int, domain: Domain, nonblocking: bool, body: Body) -> Self {
        Self {
            refs: 1,
            serial: 0,
            number,
            domain,
            nonblocking,
            status: 0,
            local: None,
            body,
            owner: Owner::NOBODY,
            inherited: false,
            shared: false,
            recv_timeout: None,
            send_timeout: None,
            options: Arc::default(),
        }
    }

    /// A connection of this listener: what it was told holds for them, as on Linux.
    pub(crate) fn child(&self, number: c_int, nonblocking: bool, body: Body) -> Self {
        Self {
            recv_timeout: self.recv_timeout,
            send_timeout: self.send_timeout,
            options: self.inherited(),
            ..Self::new(number, self.domain, nonblocking, body)
        }
    }

    fn inherited(&self) -> Arc<Vec<Saved>> {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PRIORITY);
        let mut options = Arc::clone(&self.options);
        if self.saved(level, name).is_some() {
            // Not on Linux.
            Arc::make_mut(&mut options).retain(|saved| (saved.level, saved.name) != (level, name));
        }
        options
    }

    /// Our side of it, if there is one.
    pub(crate) fn ours(&self) -> Option<SocketId> {
        match self.body {
            Body::Stream(id) => Some(id),
            Body::Listener { ours, .. } => ours,
            Body::Open | Body::Lost => None,
        }
    }

    /// Remembers an option for when the socket becomes ours.
    pub(crate) fn save(&mut self, level: c_int, name: c_int, value: &[u8]) {
        let value = value.to_vec();
        let same = |saved: &&mut Saved| (saved.level, saved.name) == (level, name);
        let options = Arc::make_mut(&mut self.options);
        if let Some(saved) = options.iter_mut().find(same) {
            saved.value = value;
        } else if options.len() < SAVED {
            options.push(Saved { level, name, value });
        }
    }

    /// The value of an option that was remembered.
    pub(crate) fn saved(&self, level: c_int, name: c_int) -> Option<&[u8]> {
        let same = |saved: &&Saved| (saved.level, saved.name) == (level, name);
        self.options
            .iter()
            .find(same)
            .map(|saved| saved.value.as_slice())
    }

    /// Remembers what the kernel bound the socket to, by its descriptor `fd`.
    ///
    /// # Errors
    /// Those of getsockname(2).
    pub(crate) fn note_local(&mut self, fd: c_int) -> Result<()> {
        // SAFETY: all zeros are an address of no family.
        let mut room: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&room) as socklen_t;
        let at = (&raw mut room).cast();
        // SAFETY: room for any address.
        if unsafe { real::getsockname(fd, at, &raw mut len) } < 0 {
            return Err(Errno(mtcp::posix::call::errno()));
        }
        // SAFETY: the kernel filled it.
        let local = unsafe { address::parse(at, len) }.map_err(|_| Errno::EINVAL)?;
        self.local = Some(local);
        if matches!(local.ip(), IpAddr::V6(ip) if !ip.is_unspecified() && ip.to_ipv4_mapped().is_none())
        {
            // Linux: who has an address of IPv6 speaks nothing else.
            let yes: c_int = 1;
            self.save(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &yes.to_ne_bytes());
        }
        Ok(())
    }

    /// Makes a socket of ours like this one: family, options, address.
    ///
    /// # Errors
    /// Those of `socket` and `bind`.
    pub(crate) fn make(&self, context: &mut Context) -> Result<SocketId> {
        let id = context.socket(self.domain)?;
        context.set_nonblocking(id, true)?;
        for saved in self.options.iter() {
            if !saved.apply(context, id) && !saved.goes_without_saying() {
                let Saved { level, name, .. } = saved;
                no_effect(*level, *name);
            }
        }
        if let Some(local) = self.local
            && let Err(error) = context.bind(id, local)
        {
            let _ = context.close(id);
            return Err(error);
        }
        Ok(id)
    }
}
