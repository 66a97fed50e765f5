//! What opening an interface takes privileges for, done before: the program is attached, sockets
//! and their memory exist. Binding them to queues takes none. A process and the children that it
//! forks can share the queues of an interface this way.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aya::util::KernelVersion;
use wire::time::Instant;

use crate::Port as _;
use crate::claim;
use crate::context::invalid;
use crate::netlink::{self, Link, OperState, XdpAttachment, ethtool};
use crate::overhear::{Overheard, Probe};
use crate::shm::Exchange;

use super::adopt::{Adopter, Shares};
use super::attach::{self, attach};
use super::config::{ChecksumPolicy, Frames, Shape, XdpConfig, shape};
use super::error::{ATTACH, BIND, LISTEN, MAP, QUEUES, REGISTER, SOCKET, errno, explain};
use super::follow::Follower;
use super::interface::XdpInterface;
use super::port::{Trust, XdpPort};
use super::program::{Attachment, Mode, Program};
use super::queue::{Extras, Queue};
use super::resources::{Made, gso, overhear, register, tx};
use super::retake::Retaker;
use super::socket::XskSocket;

/// The kernel frees a queue some time after the last descriptor of its socket was closed, in a
/// worker that takes the lock of all network devices: a program may find the queue of one that has
/// just ended bound for a moment. It is tried for a second.
const BIND_TRIES: u32 = 100;
const BIND_RETRY: Duration = Duration::from_millis(10);

/// An interface with the steering program on it and none of its queues open. The program stays
/// attached while this or any port of it lives, in any process.
#[derive(Debug)]
pub struct XdpPrepared {
    config: XdpConfig,
    link: Link,
    queues: u32,
    /// Of each queue.
    frames: Frames,
    conflicts: Vec<IpAddr>,
    program: Arc<Program>,
    /// Sockets that are bound to no queue yet.
    armed: Vec<(Made, Extras)>,
    /// Sockets without memory, for queues that no process has.
    spare: Vec<XskSocket>,
    /// What the processes that share the interface have in common.
    exchange: Option<Arc<Exchange>>,
    /// What listens beside them, where it can be had.
    overheard: Option<Overheard>,
    /// Whether a queue that is bound may be that of a program that has ended, and not of a process
    /// of this one.
    is_first: bool,
}

impl XdpInterface {
    /// Attaches the program and binds all receive queues.
    ///
    /// # Errors
    /// Each says what failed, on which interface, and what to do: no such interface, it is down, it
    /// has an XDP program already, its MTU is too large for its driver, more ports than queues,
    /// missing capabilities, too little memory.
    pub fn open(config: &XdpConfig) -> io::Result<Self> {
        XdpPrepared::new(config)?.open()
    }
}

impl XdpPrepared {
    /// Attaches the program.
    ///
    /// # Errors
    /// Which step failed, why, and what to do.
    pub fn new(config: &XdpConfig) -> io::Result<Self> {
        config.check()?;
        let name = config.interface.as_str();
        let mut link = netlink::link(name)?;
        check_link(&link)?;
        let probe = probe(config, &link);
        let all = ethtool::queues(name).map_err(|cause| explain(name, QUEUES, &cause))?;
        let queues = all.rx;
        let driver = ethtool::driver(name).unwrap_or_default();
        let shape = shape_of(link.mtu, &driver);
        if shape.mtu < link.mtu {
            tell_mtu(&link, shape.mtu);
            link.mtu = shape.mtu;
        }
        let most = all.rx_max.max(queues);
        let program = attach(config, &link, (queues, most), shape.parts > 1)?;
        let receives = program.attachment != Attachment::TrafficControl;
        let frames = config.frames_per_queue(queues, receives, shape);
        let prepared = Self {
            conflicts: conflicts(config),
            program: Arc::new(program),
            config: config.clone(),
            link,
            queues,
            frames,
            armed: Vec::new(),
            spare: Vec::new(),
            exchange: None,
            overheard: None,
            is_first: config.processes <= 1,
        };
        port_count(config, prepared.hand(0).len())?;
        refuse_taken(probe, &prepared.link)?;
        Ok(prepared)
    }

    /// Tries what [`XdpPrepared::new`] and [`XdpPrepared::open`] do, but for what a process would
    /// notice that has the interface now.
    ///
    /// # Errors
    /// As those.
    pub fn check(config: &XdpConfig) -> io::Result<()> {
        config.check()?;
        let name = config.interface.as_str();
        let link = netlink::link(name)?;
        check_kind(&link)?;
        let all = ethtool::queues(name).map_err(|cause| explain(name, QUEUES, &cause))?;
        let shape = shape_of(link.mtu, &ethtool::driver(name).unwrap_or_default());
        let most = all.rx_max.max(all.rx);
        attach::check(config, &link, (most, shape.parts > 1))?;
        port_count(config, hand(config, all.rx, 0).len())?;
        let made = register(config.frames_per_queue(all.rx, true, shape));
        made.map(drop).map_err(|error| refused(name, &error))
    }

    /// Has each of the processes that share the interface receive from queues that none of them
    /// has: by this they know.
    pub fn join(&mut self, exchange: &Arc<Exchange>) {
        self.exchange = Some(Arc::clone(exchange));
    }

    /// Whether the kernel has our addresses, too.
    pub fn shares_addresses(&self) -> bool {
        self.config.flows.is_some()
    }

    /// Processes that share the interface.
    pub fn processes(&self) -> u16 {
        self.config.processes.max(1)
    }

    /// Ports that each of them gets at most: the first has as many queues as any.
    pub fn ports(&self) -> u16 {
        let queues = u16::try_from(self.hand(0).len()).unwrap_or(u16::MAX);
        self.config.ports.map_or(queues, |ports| ports.min(queues))
    }

    /// The interface.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The queues of one process of those that share the interface.
    fn hand(&self, number: u32) -> Vec<u32> {
        hand(&self.config, self.queues, number)
    }

    /// Makes the sockets, for a process that is about to give up its privileges.
    ///
    /// # Errors
    /// As [`XdpPrepared::new`].
    pub fn arm(&mut self) -> io::Result<()> {
        let name = &self.link.name;
        if self.armed.is_empty() {
            let shared = self.config.flows.is_some();
            self.overheard = overhear(&self.link, &self.config.addresses, shared);
        }
        while self.armed.len() < self.hand(0).len() {
            let (socket, frame_rings) =
                register(self.frames).map_err(|error| refused(name, &error))?;
            let rx = self.program.rx();
            let extras = Extras {
                gso: self.has_gso().then(|| gso(&self.link)).flatten(),
                tx: tx(&self.link, &socket, self.frames),
                rx: rx.map_err(|error| explain(name, MAP, &*error))?,
            };
            self.armed.push(((socket, frame_rings), extras));
        }
        let others = self.queues as usize - self.hand(0).len();
        while self.exchange.is_some() && self.spare.len() < others {
            // Who may not make them now may not later: it is told then.
            match XskSocket::new() {
                Ok(socket) => self.spare.push(socket),
                Err(_) => break,
            }
        }
        trim_heap();
        Ok(())
    }

    /// This process, which has opened the interface, ends, and others keep it prepared. Who
    /// attached a program after ours has it from now on.
    pub fn retire(&self) {
        self.program.close();
    }

    /// Gives up sockets that were made by another process: their memory is not this one's.
    pub fn disarm(&mut self) {
        self.armed.clear();
        self.spare.clear();
        self.overheard = None;
        self.is_first = false;
    }

    /// Binds the sockets to the first share of the queues that no other process has. One process
    /// waits a second for queues that another program has bound, the first time.
    ///
    /// # Errors
    /// As [`XdpPrepared::new`]; of the kind `ResourceBusy` when all are taken.
    pub fn open(&mut self) -> io::Result<XdpInterface> {
        self.arm()?;
        let name = self.link.name.clone();
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        let tries = if mem::take(&mut self.is_first) {
            BIND_TRIES
        } else {
            1
        };
        for number in 0..u32::from(self.config.processes).max(1) {
            let queues = self.hand(number);
            if !queues.is_empty() && self.bind(&queues, tries)? {
                return self.assemble(number, &queues);
            }
        }
        Err(explain(&name, BIND, &busy))
    }

    /// Binds to these queues, each tried so many times. Returns false when another process has
    /// them.
    fn bind(&self, queues: &[u32], tries: u32) -> io::Result<bool> {
        for (at, (number, ((socket, _), _))) in queues.iter().zip(&self.armed).enumerate() {
            match self.bind_one(socket, *number, tries) {
                Ok(()) => {}
                Err(error) if at == 0 && errno(&error) == Some(libc::EBUSY) => return Ok(false),
                Err(error) => return Err(explain(&self.link.name, BIND, &error)),
            }
        }
        Ok(true)
    }

    fn bind_one(&self, socket: &XskSocket, queue: u32, tries: u32) -> io::Result<()> {
        let at = (self.link.index, queue);
        let bind = || socket.bind(at, self.config.zero_copy, self.frames);
        for _ in 1..tries {
            match bind() {
                Err(error) if errno(&error) == Some(libc::EBUSY) => thread::sleep(BIND_RETRY),
                result => return result,
            }
        }
        bind()
    }

    /// The interface of the sockets that are bound to these queues.
    fn assemble(&mut self, share: u32, queues: &[u32]) -> io::Result<XdpInterface> {
        let bound: Vec<Queue> = queues
            .iter()
            .zip(self.armed.drain(..))
            .map(|(number, (bound, extras))| Queue::new(*number, bound, extras))
            .collect();
        let name = &self.link.name;
        for queue in &bound {
            self.program
                .steer(queue.number(), queue.socket().as_fd())
                .map_err(|error| explain(name, BIND, &error))?;
        }
        let mode = Mode {
            attachment: self.program.attachment,
            zero_copy: zero_copy(&bound)?,
        };
        let frames = self.frames;
        log::info!(
            "XDP on {name}: {mode}, {} queues, {} frames of {} bytes each",
            bound.len(),
            frames.count(),
            frames.size
        );
        let ports = port_count(&self.config, bound.len())?;
        let trust = trust(&self.config, &self.link, mode.attachment);
        let port = |queues| {
            let mut port = XdpPort::new(&self.link, queues, ports, mode, trust, &self.program);
            let retaker = self.retaker(&port);
            port.outlast(retaker);
            port
        };
        let mut ports: Vec<XdpPort> = deal(bound, ports).into_iter().map(port).collect();
        // What one stack hears of neighbours, it tells the others.
        if let Some(first) = ports.first_mut() {
            first.listen_beside(self.overheard.take());
        }
        if let (Some(first), Some(follower)) = (ports.first_mut(), self.follower()) {
            first.follow(follower);
        }
        if let Some(first) = ports.first_mut() {
            let words = first.finishes_checksums();
            first.adopt(self.adopter(share, words));
        }
        Ok(XdpInterface {
            ports,
            share,
            mode,
            link: self.link.clone(),
            conflicts: self.conflicts.clone(),
        })
    }
}

impl XdpPrepared {
    /// Whether the link is known to take frames of several segments. Not where other processes
    /// carry the frames of a stack: they carry packets.
    fn has_gso(&self) -> bool {
        self.link.is_veth() && self.processes() == 1
    }

    /// What opens the queues of a port anew when the interface was removed and is there again.
    fn retaker(&self, port: &XdpPort) -> Option<Retaker> {
        self.config.retakes.then(|| Retaker {
            link: self.link.clone(),
            program: Arc::clone(&self.program),
            frames: self.frames,
            zero_copy: self.config.zero_copy,
            addresses: self.config.addresses.clone(),
            addresses_shared: self.config.flows.is_some(),
            gso: port.capabilities().tx_gso > 0,
            shared: self.processes() > 1,
            lost: Vec::new(),
            listens: false,
            due: Instant::ZERO,
            told: None,
        })
    }

    /// What receives from the queues of others that are not there.
    fn adopter(&mut self, share: u32, words: bool) -> Option<Adopter> {
        let exchange = self.exchange.clone()?;
        Some(Adopter {
            link: self.link.clone(),
            program: Arc::clone(&self.program),
            frames: self.frames,
            zero_copy: self.config.zero_copy,
            words,
            shares: Shares {
                queues: self.queues,
                processes: self.processes().into(),
                ports: self.ports().into(),
                own: share,
            },
            exchange,
            spare: std::mem::take(&mut self.spare),
            adopted: Vec::new(),
            due: None,
            told: false,
        })
    }

    /// What receives from queues that come later. Nothing is needed where frames of all queues come
    /// through traffic control, and several processes have their shares.
    fn follower(&self) -> Option<Follower> {
        let by_queue = self.program.attachment != Attachment::TrafficControl;
        (by_queue && self.processes() == 1).then(|| Follower {
            link: self.link.clone(),
            program: Arc::clone(&self.program),
            frames: self.frames,
            zero_copy: self.config.zero_copy,
            known: self.queues,
            seen: self.queues,
            due: Instant::ZERO,
        })
    }
}

/// The longest packet, bytes, that AF_XDP frames hold on an interface with this MTU and driver.
pub fn longest_packet(mtu: u32, driver: &str) -> u32 {
    shape_of(mtu, driver).mtu
}

fn shape_of(mtu: u32, driver: &str) -> Shape {
    shape(mtu, driver, has_parts())
}

/// Whether the kernel knows packets that lie in several frames.
fn has_parts() -> bool {
    KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(6, 6, 0))
}

/// Says that longer packets are not for this kernel or for any.
fn tell_mtu(link: &Link, mtu: u32) {
    let Link { name, .. } = link;
    let why = if has_parts() {
        "frames hold no longer ones"
    } else {
        "longer ones need Linux 6.6"
    };
    log::warn!(
        "XDP on {name}: packets of ours have at most {mtu} bytes of the {} that the link carries ({why}), and longer ones of peers are lost: \
         `ip link set {name} mtu {mtu}` says so to all",
        link.mtu
    );
}

/// The queues of one process of those that share the interface.
fn hand(config: &XdpConfig, queues: u32, number: u32) -> Vec<u32> {
    let processes = u32::from(config.processes).max(1);
    (0..queues)
        .filter(|queue| queue % processes == number)
        .collect()
}

fn check_link(link: &Link) -> io::Result<()> {
    let name = &link.name;
    check_kind(link)?;
    if link.state == OperState::Down {
        log::warn!(
            "XDP on {name}: no carrier: nothing comes or goes until the cable or the peer is there (`ip link show {name}`)"
        );
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

/// Whether there can be sockets of AF_XDP on it.
fn check_kind(link: &Link) -> io::Result<()> {
    let name = &link.name;
    link.check_frames("XDP")?;
    if !link.admin_up {
        return Err(explain(
            name,
            BIND,
            &io::Error::from_raw_os_error(libc::ENETDOWN),
        ));
    }
    Ok(())
}

/// Asks whether another host has our addresses, if it is to be asked and somebody could answer.
fn probe(config: &XdpConfig, link: &Link) -> Option<Probe> {
    // The kernel has asked for addresses that it has.
    if !config.probe || config.flows.is_some() || link.state == OperState::Down {
        return None;
    }
    Probe::start(link.index, link.mac, &config.addresses)
        .map_err(|error| {
            log::warn!(
                "{}: nobody is asked whether another host has our addresses",
                explain(&link.name, LISTEN, &error)
            );
        })
        .ok()
}

/// Fails if somebody answered.
fn refuse_taken(probe: Option<Probe>, link: &Link) -> io::Result<()> {
    let holder = probe.map(Probe::finish).transpose()?.flatten();
    holder.map_or(Ok(()), |holder| Err(claim::in_use(holder, &link.name)))
}

/// How an interface gets so many queues, if it can have them.
fn more(name: &str, count: usize) -> String {
    let queues = ethtool::queues(name).ok();
    let able = queues.filter(|queues| queues.rx_max as usize >= count);
    able.map_or_else(
        || ", its device has no more".to_owned(),
        |queues| format!(", or give it more (`{}`)", queues.command(name, count)),
    )
}

fn port_count(config: &XdpConfig, queues: usize) -> io::Result<u16> {
    let name = &config.interface;
    let ports = config.ports.map_or(queues, usize::from);
    if ports > queues {
        return Err(invalid(format_args!(
            "XDP on {name}: {ports} ports asked for, but it has {queues} receive queues; \
             ask for fewer{}",
            more(name, ports)
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
    let alone = config.flows.is_none();
    for address in both.iter().filter(|_| alone) {
        log::warn!(
            "XDP on {}: the kernel owns {address} too: its own traffic from there will get no answers (`ip address del` it)",
            config.interface
        );
    }
    both
}

/// Gives back what loading the programs took: the loader looks at the types of the whole kernel,
/// tens of megabytes in small pieces, of which the allocator keeps every page.
fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it gives back memory that nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Why there is no socket with its memory: what the process may not have, or memory that it may
/// not.
fn refused(name: &str, error: &io::Error) -> io::Error {
    let step = if is_refused(error) { SOCKET } else { REGISTER };
    explain(name, step, error)
}

/// Whether there are no such sockets here, or none for this process.
fn is_refused(error: &io::Error) -> bool {
    matches!(errno(error), Some(libc::EPERM | libc::EAFNOSUPPORT))
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

/// A checksum that is visibly unfinished was left so by a kernel, for whoever takes the frame off
/// this machine. On a virtual device of any kind that may be the kernel of this machine, or of the
/// one that this one is a guest of; so it may where frames come as the kernel has them. A card that
/// hands out its own frames has checked them, or they are wrong.
fn trust(config: &XdpConfig, link: &Link, attachment: Attachment) -> Trust {
    let as_the_kernel_has_them =
        matches!(attachment, Attachment::Generic | Attachment::TrafficControl);
    match config.checksums {
        ChecksumPolicy::Trust => Trust::All,
        ChecksumPolicy::Auto if link.kind.is_some() || as_the_kernel_has_them => Trust::Unfinished,
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
