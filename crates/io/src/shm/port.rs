//! One queue of a shared-memory link as a [`Port`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::region::Shared;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use wire::frame::{Capabilities, FrameSink, MacAddr, RxFrame, TxMeta};
use wire::time::Instant;

use super::config::{Layout, SLOT_LEAD, ShmConfig, Side};
use super::connection::{Connection, Doorbells, Queue};
use super::doorbells::{doorbells, drain};
use super::endpoint::Endpoint;
use super::handshake;
use super::ring::Corrupt;
use super::socket;
use crate::{Coalesce, Port, context, poll};

/// How often a busy port looks whether its peer is still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The same in flushes, for a driver whose time does not pass.
const CHECK_FLUSHES: u32 = 256;
/// Tries to find or become the listener while others start and stop.
const AUTO_TRIES: usize = 8;

/// Which side of a shared-memory link to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ShmRole {
    /// Connect if somebody listens there, else listen.
    #[default]
    Auto,
    /// Listen: wait for a peer, and for the next one when it leaves.
    Listen,
    /// Connect to a listener; its leaving is an error.
    Connect,
}

/// How a sleep ended.
struct Woken {
    /// The peer rang.
    notified: bool,
    /// The peer or a new one needs a look.
    look: bool,
}

/// One queue of a shared-memory link. See [the module](super).
#[derive(Debug)]
pub struct ShmPort {
    name: String,
    index: u16,
    config: ShmConfig,
    side: Side,
    /// What tells of the next peer, if there can be one.
    news: Option<OwnedFd>,
    queue: Option<Queue>,
    /// Where the next peer comes from.
    endpoint: Option<Arc<Endpoint>>,
    /// Number of the last peer.
    generation: u64,
    /// Who drives says when to take the next peer ...
    is_asked: bool,
    /// ... who knocks.
    wants_look: bool,
    /// What the peer did to its rings.
    corrupt: Option<Corrupt>,
    /// What nobody is there to receive goes here.
    scratch: Box<[u8]>,
    dropped: u64,
    next_check: Instant,
    check_due: bool,
    flushes: u32,
}

impl ShmPort {
    /// Opens the link at `path`, a Unix socket: one port per queue. `config` is the listener's
    /// business; a connecting side gets the listener's, queues included. A listening side does not
    /// wait for its peer here: until there is one its ports receive nothing and drop (and count)
    /// what is sent.
    ///
    /// # Errors
    /// Nobody listens (`Connect`), somebody does already (`Listen`), the listener has a peer or
    /// does not answer within five seconds, a configuration out of range, or the system's; says
    /// which and where.
    pub fn open(path: impl AsRef<Path>, role: ShmRole, config: ShmConfig) -> io::Result<Vec<Self>> {
        let path = path.as_ref();
        match role {
            ShmRole::Listen => Self::listen(path, config),
            ShmRole::Connect => Self::connect(path)?.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    format!(
                        "shm link {}: nobody listens there: start the other side first",
                        path.display()
                    ),
                )
            }),
            ShmRole::Auto => Self::find_or_listen(path, config),
        }
    }

    /// Whether a link of that name could be opened. Nobody notices.
    ///
    /// # Errors
    /// Why not: a file has the name, or this user may not use it or make one there.
    pub fn check(path: impl AsRef<Path>) -> io::Result<()> {
        socket::check(path.as_ref())
    }

    /// Both sides of a link in this process: one port per queue on each.
    ///
    /// # Errors
    /// A configuration out of range, or the system's.
    pub fn pair(config: ShmConfig) -> io::Result<(Vec<Self>, Vec<Self>)> {
        config.check()?;
        let memory = Arc::new(Shared::create("mtcp-shm", Layout::new(&config).len)?);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let (a_own, b_peer) = doorbells(config.queues)?;
        let (b_own, a_peer) = doorbells(config.queues)?;
        let half = |own, peer| Doorbells { own, peer };
        let (a_doorbells, b_doorbells) = (half(a_own, a_peer), half(b_own, b_peer));
        let (near, far) = (Side::Listener, Side::Connector);
        let a = Connection::new(config, near, Arc::clone(&memory), a, a_doorbells);
        let b = Connection::new(config, far, memory, b, b_doorbells);
        let a = Self::ports("pair", near, &Arc::new(a))?;
        let b = Self::ports("pair", far, &Arc::new(b))?;
        Ok((a, b))
    }

    /// Whether there is a peer, as far as this port has noticed.
    pub const fn is_connected(&self) -> bool {
        self.queue.is_some()
    }

    fn find_or_listen(path: &Path, config: ShmConfig) -> io::Result<Vec<Self>> {
        let mut last = None;
        for _ in 0..AUTO_TRIES {
            if let Some(ports) = Self::connect(path)? {
                return Ok(ports);
            }
            match Self::listen(path, config) {
                Ok(ports) => return Ok(ports),
                // Another process was quicker: connect to it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| context::invalid("shm link: no tries")))
    }

    fn listen(path: &Path, config: ShmConfig) -> io::Result<Vec<Self>> {
        let endpoint = Arc::new(Endpoint::bind(path, config)?);
        let name = path.display().to_string();
        (0..config.queues)
            .map(|index| {
                let news = endpoint.doorbell(index)?;
                let mut port = Self::new(&name, index, config, Side::Listener);
                port.news = Some(news);
                port.endpoint = Some(Arc::clone(&endpoint));
                Ok(port)
            })
            .collect()
    }

    /// `None` if nobody listens there.
    fn connect(path: &Path) -> io::Result<Option<Vec<Self>>> {
        let explain = |error| context::error(format_args!("shm link {}", path.display()), error);
        let Some(socket) = socket::connect(path)? else {
            return Ok(None);
        };
        let offer = handshake::receive_offer(&socket).map_err(explain)?;
        let config = offer.config;
        let memory = Shared::from_fd(offer.memory, Layout::new(&config).len).map_err(explain)?;
        let doorbells = Doorbells {
            own: offer.connector_doorbells,
            peer: offer.listener_doorbells,
        };
        let memory = Arc::new(memory);
        let connection = Connection::new(config, Side::Connector, memory, socket, doorbells);
        let name = path.display().to_string();
        let connection = Arc::new(connection);
        Self::ports(&name, Side::Connector, &connection).map(Some)
    }

    fn ports(name: &str, side: Side, connection: &Arc<Connection>) -> io::Result<Vec<Self>> {
        (0..connection.config.queues)
            .map(|index| {
                let mut port = Self::new(name, index, connection.config, side);
                port.queue = Some(connection.take_queue(index)?);
                Ok(port)
            })
            .collect()
    }

    fn new(name: &str, index: u16, config: ShmConfig, side: Side) -> Self {
        let room = config.slot_bytes as usize - SLOT_LEAD;
        Self {
            name: name.to_owned(),
            index,
            config,
            side,
            news: None,
            queue: None,
            endpoint: None,
            generation: 0,
            is_asked: false,
            wants_look: false,
            corrupt: None,
            scratch: vec![0; room].into_boxed_slice(),
            dropped: 0,
            next_check: Instant::ZERO,
            check_due: true,
            flushes: 0,
        }
    }

    /// Looks after the peer: notices that it left, takes the next.
    fn service(&mut self) -> io::Result<()> {
        self.check_due = false;
        if let Some(corrupt) = self.corrupt.take() {
            self.lose(Some(corrupt))?;
        }
        // What a peer sent before it left is received first.
        if let Some(queue) = &mut self.queue
            && queue.connection.is_lost()
            && !queue.has_frames()
        {
            self.lose(None)?;
        }
        let Some(endpoint) = &self.endpoint else {
            // Without a peer for good: every later flush says so again.
            self.check_due = self.queue.is_none();
            return match self.queue {
                Some(_) => Ok(()),
                None => Err(self.gone("the peer is gone")),
            };
        };
        endpoint.forget_lost();
        if self.is_asked {
            self.wants_look = endpoint.has_caller();
        } else {
            endpoint.take_callers()?;
        }
        if self.queue.is_none() {
            self.queue = endpoint.attach(self.index, &mut self.generation)?;
        }
        Ok(())
    }

    /// Lets go of the peer. An error unless there can be another one.
    fn lose(&mut self, corrupt: Option<Corrupt>) -> io::Result<()> {
        if let Some(queue) = self.queue.take() {
            queue.connection.close();
        }
        let why = match corrupt {
            None => "the peer is gone".to_owned(),
            Some(Corrupt::Index) => "the peer corrupted a ring: impossible index".to_owned(),
            Some(Corrupt::Length(len)) => {
                format!("the peer corrupted a ring: frame of {len} bytes")
            }
        };
        if self.endpoint.is_none() {
            self.check_due = true;
            return Err(match corrupt {
                None => self.gone(&why),
                Some(_) => context::corrupt(self.describe(&why)),
            });
        }
        if corrupt.is_some() {
            log::warn!("{}", self.describe(&why));
        } else {
            log::debug!("{}", self.describe(&why));
        }
        Ok(())
    }

    fn gone(&self, why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, self.describe(why))
    }

    fn describe(&self, what: &str) -> String {
        format!("shm link {} queue {}: {what}", self.name, self.index)
    }

    fn publish(&mut self) {
        if let Some(queue) = &mut self.queue
            && let Err(corrupt) = queue.flush()
        {
            self.corrupt = Some(corrupt);
            self.check_due = true;
        }
    }

    /// What tells that there is something to do: the peer's rings, its end, news of the next peer,
    /// and where that comes from.
    fn watched(&self) -> [Option<BorrowedFd<'_>>; 4] {
        let queue = self.queue.as_ref();
        [
            queue.and_then(Queue::doorbell).map(AsFd::as_fd),
            queue.map(|queue| queue.connection.socket().as_fd()),
            self.news.as_ref().map(AsFd::as_fd),
            self.endpoint.as_ref().map(|endpoint| endpoint.fd()),
        ]
    }

    /// Sleeps. Returns how that ended.
    fn sleep(&self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<Woken> {
        let [doorbell, peer, news, listener] = self.watched();
        let Some(any) = doorbell.or(news) else {
            return Err(self.gone("the peer is gone"));
        };
        let mut fds = [doorbell, peer, news, listener, wake].map(|fd| match fd {
            Some(fd) => PollFd::from_borrowed_fd(fd, PollFlags::IN),
            // A place holder that is never ready.
            None => PollFd::from_borrowed_fd(any, PollFlags::empty()),
        });
        poll::sleep_or_signal(&mut fds, timeout)?;
        let [doorbell, peer, news, listener, _] = fds;
        let notified = doorbell.revents().contains(PollFlags::IN);
        if notified && let Some(doorbell) = self.queue.as_ref().and_then(Queue::doorbell) {
            drain(doorbell);
        }
        if news.revents().contains(PollFlags::IN)
            && let Some(news) = &self.news
        {
            // Another thread may have been quicker to read it. No peer has this doorbell.
            let _ = rustix::io::read(news, &mut [0u8; 8]);
        }
        let look = !peer.revents().is_empty() || !listener.revents().is_empty();
        Ok(Woken { notified, look })
    }
}

#[cfg(test)]
impl ShmPort {
    pub(super) fn doorbell(&self) -> &OwnedFd {
        self.queue.as_ref().and_then(Queue::doorbell).unwrap()
    }

    /// The first half of `wait`.
    pub(super) fn arm_for_test(&mut self) {
        assert!(self.queue.as_mut().is_some_and(Queue::arm));
    }
}

impl FrameSink for ShmPort {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if let Some(queue) = &mut self.queue {
            return queue.send(fill);
        }
        if fill(&mut self.scratch).len > 0 {
            self.dropped += 1;
        }
        true
    }

    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        match &mut self.queue {
            Some(queue) => queue.send_gso(len, fill),
            None => self.send(fill),
        }
    }
}

impl Port for ShmPort {
    fn begin(&mut self, now: Instant) {
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            self.check_due = true;
        }
    }

    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let Some(queue) = &mut self.queue else {
            return 0;
        };
        match queue.receive(each) {
            Ok(n) => n,
            Err(corrupt) => {
                self.corrupt = Some(corrupt);
                self.check_due = true;
                0
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        self.queue.as_mut().is_some_and(Queue::expect_frames)
    }

    fn wake_peer(&mut self) {
        if let Some(queue) = &self.queue {
            queue.wake_peer();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.publish();
        self.flushes = self.flushes.wrapping_add(1);
        if self.check_due || self.flushes.is_multiple_of(CHECK_FLUSHES) {
            self.service()?;
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.publish();
        if self.queue.is_none() || self.corrupt.is_some() {
            self.service()?;
        }
        if let Some(queue) = &mut self.queue
            && !queue.arm()
        {
            return Ok(());
        }
        let woken = self.sleep(timeout, wake);
        if let Some(queue) = &mut self.queue {
            match woken {
                Ok(Woken { notified: true, .. }) => queue.await_frames(),
                _ => queue.disarm(),
            }
        }
        if woken?.look {
            self.service()?;
        } else if self.queue.is_none() {
            self.check_due = true;
        }
        Ok(())
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        self.publish();
        if self.queue.is_none() || self.corrupt.is_some() {
            self.service()?;
        }
        if let Some(queue) = &mut self.queue
            && !queue.arm()
        {
            return Ok(Some(Duration::ZERO));
        }
        let watched = self.watched().into_iter().flatten();
        fds.extend(watched.map(|fd| fd.as_raw_fd()));
        Ok(None)
    }

    fn look_when_asked(&mut self) {
        self.is_asked = true;
    }

    fn wants_look(&self) -> bool {
        self.wants_look
    }

    fn look_again(&mut self, _: Instant) {
        if std::mem::take(&mut self.wants_look)
            && let Some(endpoint) = &self.endpoint
            && let Err(error) = endpoint.take_callers()
        {
            log::warn!("{error}: the peer has to try again");
        }
        self.check_due = true;
    }

    fn coalesce(&self) -> Coalesce {
        Coalesce::WhenFar
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.config.mtu,
            queues: self.config.queues,
            tx_checksum: true,
            tx_gso: self.config.gso_max(),
            loops: false,
        }
    }

    fn mac(&self) -> MacAddr {
        let side = match self.side {
            Side::Listener => 1,
            Side::Connector => 2,
        };
        MacAddr([0x02, b'm', b't', b'c', b'p', side])
    }

    fn losses(&self) -> (u64, u64) {
        (0, self.dropped)
    }
}
