//! Opening an interface: program, sockets, ports.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::context::{error, invalid};
use crate::netlink::{self, Link, OperState, XdpAttachment, ethtool};

use super::config::{ChecksumPolicy, XdpConfig, frame_size};
use super::error::{ATTACH, BIND, LOAD, REGISTER, SOCKET, errno, explain};
use super::lanes::Lanes;
use super::port::{Trust, XdpPort};
use super::program::{Mode, Program};
use super::queue::Queue;
use super::socket::XskSocket;
use super::umem::Umem;

/// An interface with our steering program on it and a socket on each of its queues.
#[derive(Debug)]
pub struct XdpInterface {
    ports: Vec<XdpPort>,
    mode: Mode,
    link: Link,
    conflicts: Vec<IpAddr>,
}

impl XdpInterface {
    /// Attaches the program and binds all receive queues.
    ///
    /// # Errors
    /// Each says what failed, on which interface, and what to do: no such interface, it is down, it has an XDP program already,
    /// its MTU does not fit a frame, more ports than queues, missing capabilities, too little memory.
    pub fn open(config: &XdpConfig) -> io::Result<Self> {
        config.check()?;
        let name = config.interface.as_str();
        let link = netlink::link(name)?;
        check_link(&link)?;
        let queues = ethtool::queues(name)
            .map_err(|cause| error(format_args!("XDP on {name}"), cause))?
            .rx;
        let ports = port_count(config, queues)?;
        let (frames, size) = (config.frames_per_queue(queues), frame_size(name, link.mtu)?);
        let conflicts = conflicts(config);
        let mut program = attach(config, &link, queues)?;
        let mut bound = Vec::new();
        for number in 0..queues {
            bound.push(open_queue(
                config,
                &link,
                number,
                (frames, size),
                &mut program,
            )?);
        }
        let mode = Mode {
            attachment: program.attachment,
            zero_copy: zero_copy(&bound)?,
        };
        let trust = trust(config, &link);
        let program = Arc::new(program);
        let ports = deal(bound, ports)
            .into_iter()
            .map(|queues| XdpPort::new(&link, queues, ports, mode, trust, &program))
            .collect();
        log::info!("XDP on {name}: {mode}, {queues} queues, {frames} frames of {size} bytes each");
        Ok(Self {
            ports,
            mode,
            link,
            conflicts,
        })
    }

    /// The ports: as many as were asked for, or one per queue. Port `i` of `n` serves the queues `i`, `i + n`, …
    pub fn ports(self) -> Vec<XdpPort> {
        self.ports
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The interface as it was when it was opened.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Those of our addresses that the kernel owns as well. It keeps answering for them on other interfaces, and connections of
    /// its own from them get no answer on this one.
    pub fn conflicts(&self) -> &[IpAddr] {
        &self.conflicts
    }
}

fn check_link(link: &Link) -> io::Result<()> {
    let name = &link.name;
    if link.loopback {
        return Err(invalid(format_args!(
            "XDP on {name}: the loopback interface has no hardware addresses; use a veth pair"
        )));
    }
    if !link.admin_up {
        return Err(explain(
            name,
            BIND,
            &io::Error::from_raw_os_error(libc::ENETDOWN),
        ));
    }
    if link.state == OperState::Down {
        log::warn!("XDP on {name}: no carrier yet");
    }
    if link.xdp != XdpAttachment::None {
        return Err(explain(
            name,
            ATTACH,
            &io::Error::from_raw_os_error(libc::EBUSY),
        ));
    }
    Ok(())
}

fn port_count(config: &XdpConfig, queues: u32) -> io::Result<u16> {
    let name = &config.interface;
    let ports = config.ports.map_or(queues, u32::from);
    if ports > queues {
        return Err(invalid(format_args!(
            "XDP on {name}: {ports} ports asked for, but it has {queues} receive queues; \
             ask for fewer, or give it more (`ethtool -L {name} combined {ports}`, on a veth `rx {ports} tx {ports}`)"
        )));
    }
    u16::try_from(ports).map_err(|_| {
        invalid(format_args!(
            "XDP on {name}: {ports} queues are more than one process can serve"
        ))
    })
}

/// Our addresses that the kernel owns, with a warning for each.
fn conflicts(config: &XdpConfig) -> Vec<IpAddr> {
    let owned = netlink::addresses().unwrap_or_else(|error| {
        log::warn!("cannot list the kernel's addresses: {error}");
        Vec::new()
    });
    let both: Vec<IpAddr> = config
        .addresses
        .iter()
        .copied()
        .filter(|ours| owned.iter().any(|owned| owned.address == *ours))
        .collect();
    for address in &both {
        log::warn!(
            "XDP on {}: the kernel owns {address} too: its own traffic from there will get no answers (`ip address del` it)",
            config.interface
        );
    }
    both
}

/// Attaches the program; once more with the limit on locked memory raised where maps count against it (before Linux 5.11).
fn attach(config: &XdpConfig, link: &Link, queues: u32) -> io::Result<Program> {
    let attach = || {
        Program::attach(
            &link.name,
            link.index,
            &config.addresses,
            queues,
            config.mode,
        )
    };
    match attach() {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && error.to_string().contains(LOAD) =>
        {
            if raise_memlock() {
                attach()
            } else {
                Err(error)
            }
        }
        result => result,
    }
}

fn open_queue(
    config: &XdpConfig,
    link: &Link,
    number: u32,
    (frames, size): (u32, u32),
    program: &mut Program,
) -> io::Result<Queue> {
    let name = &link.name;
    let socket = XskSocket::new().map_err(|error| explain(name, SOCKET, &error))?;
    let lanes = register(&socket, frames, size).map_err(|error| explain(name, REGISTER, &error))?;
    socket
        .bind(link.index, number, config.zero_copy)
        .map_err(|error| explain(name, BIND, &error))?;
    program
        .steer(number, socket.as_fd())
        .map_err(|error| explain(name, BIND, &error))?;
    Ok(Queue::new(number, socket, lanes))
}

/// Registers frames; once more with the limit on locked memory raised when that is what is in the way.
fn register(socket: &XskSocket, frames: u32, size: u32) -> io::Result<Lanes> {
    match socket.register(Umem::new(frames, size)?) {
        Err(error) if errno(&error) == Some(libc::ENOBUFS) && raise_memlock() => {
            socket.register(Umem::new(frames, size)?)
        }
        result => result,
    }
}

/// Lifts the limit on locked memory of this process. Returns whether that was allowed.
fn raise_memlock() -> bool {
    setrlimit(
        Resource::Memlock,
        Rlimit {
            current: None,
            maximum: None,
        },
    )
    .is_ok()
}

/// Whether all queues are zero copy.
fn zero_copy(queues: &[Queue]) -> io::Result<bool> {
    for queue in queues {
        if !queue.socket().is_zero_copy()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn trust(config: &XdpConfig, link: &Link) -> Trust {
    match config.checksums {
        ChecksumPolicy::Trust => Trust::All,
        ChecksumPolicy::Auto if link.is_veth() => Trust::Unfinished,
        ChecksumPolicy::Auto | ChecksumPolicy::Verify => Trust::None,
    }
}

/// Deals `queues` out to `ports` ports in turn.
fn deal(queues: Vec<Queue>, ports: u16) -> Vec<Vec<Queue>> {
    let mut hands: Vec<Vec<Queue>> = (0..ports).map(|_| Vec::new()).collect();
    for (position, queue) in queues.into_iter().enumerate() {
        if let Some(hand) = hands.get_mut(position % usize::from(ports)) {
            hand.push(queue);
        }
    }
    hands
}
