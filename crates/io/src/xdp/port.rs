//! The port of one context.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use wire::frame::{Capabilities, FrameSink, LONGEST, MacAddr, RxChecksum, RxFrame, RxMeta, TxMeta};
use wire::steering::Steering;
use wire::syn_offload::SynOffload;
use wire::time::Instant;

use crate::netlink::Link;
use crate::overhear::Overheard;
use crate::port::{Coalesce, Port};
use crate::{context, poll, virtio};

use super::adopt::Adopter;
use super::checksum;
use super::config::LINK_HEADER;
use super::follow::Follower;
use super::program::{Mode, Program};
use super::queue::Queue;
use super::retake::{LOOK, Retaker};
use super::steering::Steered;
use super::syn_offload::Clock;

/// An interface that goes away does not end a poll of its socket, so no sleep is longer than this.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Frames that the kernel had no room for are offered again after this.
const RETRY: Duration = Duration::from_millis(1);
/// Who does not sleep listens this often to what is said beside the stack.
const LISTEN: Duration = Duration::from_millis(10);

/// Which received frames are marked as trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// None.
    None,
    /// Those whose checksum is visibly unfinished.
    Unfinished,
    /// All.
    All,
}

impl Trust {
    fn meta(self, frame: &[u8]) -> RxMeta {
        let trusted = match self {
            Self::None => false,
            Self::Unfinished => checksum::is_unfinished(frame),
            Self::All => true,
        };
        let checksum = if trusted {
            RxChecksum::Trusted
        } else {
            RxChecksum::Unverified
        };
        RxMeta {
            checksum,
            ..RxMeta::default()
        }
    }
}

/// One or more queues of an interface, driven by one thread. The steering program stays attached
/// while any port lives.
#[derive(Debug)]
pub struct XdpPort {
    queues: Vec<Queue>,
    /// The queue to receive from next.
    next: usize,
    /// Bytes of a frame lent to send.
    room: u32,
    capabilities: Capabilities,
    mac: MacAddr,
    mode: Mode,
    trust: Trust,
    interface: Box<str>,
    /// The interface is gone: the socket says so once only.
    gone: bool,
    /// For when it is there again.
    retaker: Option<Box<Retaker>>,
    /// Who drives says when to look for it, and when to open queues ...
    is_asked: bool,
    /// ... if there is one to be looked for or opened.
    wants_look: bool,
    /// What goes to an interface that is gone.
    void: Vec<u8>,
    /// Frames that were lost on those that are gone: (received and dropped, not sent).
    lost: (u64, u64),
    /// Of what answers SYNs.
    clock: Option<Clock>,
    /// What is said beside the stack, and when to listen to it again.
    overheard: Option<Overheard>,
    listen_at: Instant,
    /// For queues that come later.
    follower: Option<Box<Follower>>,
    /// For queues that no process has.
    adopter: Option<Box<Adopter>>,
    // Goes last: the sockets leave its map before it is detached.
    program: Arc<Program>,
}

impl XdpPort {
    pub(super) fn new(
        link: &Link,
        queues: Vec<Queue>,
        ports: u16,
        mode: Mode,
        trust: Trust,
        program: &Arc<Program>,
    ) -> Self {
        // A veth leaves the checksum to whoever takes the frame off this machine, if any. Drivers
        // that take our frames themselves are another matter.
        let tx_checksum =
            link.is_veth() && !mode.zero_copy && queues.iter().all(Queue::finishes_checksums);
        let gso = tx_checksum && queues.first().is_some_and(Queue::has_gso);
        // `config::shape` bounds the MTU well below 64 KiB.
        let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
        Self {
            queues,
            next: 0,
            room: u32::from(mtu) + LINK_HEADER,
            capabilities: Capabilities {
                mtu,
                queues: ports,
                tx_checksum,
                tx_gso: if gso { virtio::GSO_MAX } else { 0 },
                loops: false,
            },
            mac: link.mac,
            mode,
            trust,
            interface: link.name.as_str().into(),
            gone: false,
            retaker: None,
            is_asked: false,
            wants_look: false,
            void: Vec::new(),
            lost: (0, 0),
            clock: None,
            overheard: None,
            listen_at: Instant::ZERO,
            follower: None,
            adopter: None,
            program: Arc::clone(program),
        }
    }

    /// Has it outlast its interface.
    pub(super) fn outlast(&mut self, retaker: Option<Retaker>) {
        self.retaker = retaker.map(Box::new);
    }

    /// The interface is gone: an error, unless it is waited for.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, cause: io::Error) -> io::Result<()> {
        self.gone = true;
        let error = self.removed(cause);
        let Some(retaker) = &mut self.retaker else {
            return Err(error);
        };
        self.lost = self.queues.iter().fold(self.lost, add_losses);
        if let Some(adopter) = &mut self.adopter {
            adopter.leave_all(&mut self.queues);
        }
        retaker.lose(std::mem::take(&mut self.queues), self.overheard.is_some());
        self.overheard = None;
        self.void.resize(LONGEST, 0);
        Ok(())
    }

    /// Whether it waits for its interface.
    fn waits(&self) -> bool {
        self.retaker.as_ref().is_some_and(|retaker| retaker.waits())
    }

    /// Looks whether the interface is there again, and if so, goes on.
    #[cold]
    #[inline(never)]
    fn look_for_interface(&mut self, now: Instant) {
        let taken = self
            .retaker
            .as_mut()
            .and_then(|retaker| retaker.retake(now));
        let Some((queues, overheard)) = taken else {
            return;
        };
        if let (Some(follower), Some(retaker)) = (&mut self.follower, &self.retaker) {
            follower.link.index = retaker.link.index;
        }
        if let (Some(adopter), Some(retaker)) = (&mut self.adopter, &self.retaker) {
            adopter.link.index = retaker.link.index;
        }
        (self.queues, self.overheard) = (queues, overheard);
        (self.gone, self.next) = (false, 0);
        self.void = Vec::new();
    }

    /// Has it receive what is said beside the stack, too.
    pub(super) fn listen_beside(&mut self, overheard: Option<Overheard>) {
        self.overheard = overheard;
    }

    /// Reads what was said beside the stack. Returns whether there is something.
    fn listen(&mut self) -> bool {
        self.overheard.as_mut().is_some_and(Overheard::listen)
    }

    fn has_heard(&self) -> bool {
        self.overheard.as_ref().is_some_and(Overheard::has_heard)
    }

    /// What ends a sleep.
    fn doorbells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let beside = self.overheard.iter().flat_map(Overheard::doorbells);
        self.queues.iter().map(Queue::doorbell).chain(beside)
    }

    /// Receives from queues that the interface gets later, too.
    pub(super) fn follow(&mut self, follower: Follower) {
        self.follower = Some(Box::new(follower));
    }

    /// Receives from queues that no process has, too.
    pub(super) fn adopt(&mut self, adopter: Option<Adopter>) {
        self.adopter = adopter.map(Box::new);
    }

    /// Whether there are words for the device in front of its frames.
    pub(super) fn finishes_checksums(&self) -> bool {
        self.queues.iter().all(Queue::finishes_checksums)
    }

    /// Whether something is to be opened.
    #[inline]
    fn is_due(&mut self, now: Instant) -> bool {
        if self.gone {
            let retaker = self.retaker.as_ref();
            return retaker.is_some_and(|retaker| retaker.is_due(now));
        }
        let follower = self.follower.as_mut();
        let adopter = self.adopter.as_mut();
        follower.is_some_and(|follower| follower.is_due(now))
            || adopter.is_some_and(|adopter| adopter.is_due(now))
    }

    /// Opens what there is.
    #[cold]
    #[inline(never)]
    fn look(&mut self, now: Instant) {
        if self.gone {
            return self.look_for_interface(now);
        }
        if let Some(follower) = &mut self.follower {
            self.queues.extend(follower.open_new());
        }
        if let Some(adopter) = &mut self.adopter {
            self.queues.extend(adopter.adopt());
        }
    }

    /// Leaves queues that are another process's to one that asks for them.
    #[inline]
    fn leave_adopted(&mut self, now: Instant) {
        if let Some(adopter) = &mut self.adopter
            && let Some(share) = adopter.leaves(now)
        {
            adopter.leave(share, &mut self.queues);
            self.next = 0;
        }
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Numbers of the interface's queues that this port serves. It sends on the first.
    pub fn queues(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().map(Queue::number)
    }

    /// Arms the wake-up on all queues. Returns false, with none armed, if a frame is already
    /// waiting in any of them.
    fn arm(&mut self) -> bool {
        let sleeps = self.queues.iter_mut().all(Queue::arm);
        if !sleeps {
            self.disarm();
        }
        sleeps
    }

    /// Disarms the wake-up on all queues.
    fn disarm(&mut self) {
        self.queues.iter_mut().for_each(Queue::disarm);
    }

    fn sleep_at_most(&mut self) -> Duration {
        if self.waits() {
            LOOK
        } else if self.queues.iter_mut().any(Queue::is_stuck) {
            RETRY
        } else {
            SLEEP_MAX
        }
    }

    /// Fails, from then on, once the interface is gone.
    fn check_link(&mut self) -> io::Result<()> {
        if self.waits() {
            return Ok(());
        }
        if self.gone {
            return Err(self.removed(io::Error::from_raw_os_error(libc::ENXIO)));
        }
        let errors = |queue: &Queue| queue.socket().take_error();
        match self.queues.iter().try_for_each(errors) {
            Ok(()) => Ok(()),
            // Down is not gone, and comes up again.
            Err(_)
                if self
                    .retaker
                    .as_ref()
                    .is_some_and(|retaker| retaker.is_there()) =>
            {
                Ok(())
            }
            Err(cause) => self.lose(cause),
        }
    }

    fn removed(&self, cause: io::Error) -> io::Error {
        context::error(
            format_args!("interface {} was removed", self.interface),
            cause,
        )
    }
}

impl FrameSink for XdpPort {
    #[inline]
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        match self.queues.first_mut() {
            Some(queue) => queue.send(self.room, fill),
            None => self.send_into_void(self.room as usize, fill),
        }
    }

    fn send_gso(&mut self, _: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        match self.queues.first_mut() {
            Some(queue) => queue.send_gso(fill),
            None => self.send_into_void(LONGEST, fill),
        }
    }
}

impl XdpPort {
    /// Loses a frame, as a cable that is not plugged in does.
    #[cold]
    #[inline(never)]
    fn send_into_void(&mut self, room: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(room) = self.void.get_mut(..room) else {
            return false;
        };
        fill(room);
        self.lost.1 += 1;
        true
    }
}

fn add_losses(sum: (u64, u64), queue: &Queue) -> (u64, u64) {
    let (dropped, unsent) = queue.losses();
    (sum.0 + dropped, sum.1 + unsent)
}

impl Port for XdpPort {
    fn begin(&mut self, now: Instant) {
        if let Some(clock) = &self.clock {
            clock.set(now);
        }
        if now >= self.listen_at {
            self.listen_at = now + LISTEN;
            self.listen();
        }
        self.leave_adopted(now);
        if self.is_due(now) {
            self.wants_look = self.is_asked;
            if !self.is_asked {
                self.look(now);
            }
        }
    }

    fn syn_offload(&mut self) -> Option<Box<dyn SynOffload>> {
        let (offload, clock) = self.program.syn_offload()?;
        self.clock = Some(clock);
        Some(Box::new(offload))
    }

    fn steering(&mut self) -> Option<Box<dyn Steering>> {
        Some(Box::new(self.program.steered()?.steer()))
    }

    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        if let Some(overheard) = self.overheard.as_mut().filter(|heard| heard.has_heard()) {
            return overheard.lend(each);
        }
        let count = self.queues.len();
        let ready = (0..count)
            .map(|step| (self.next + step) % count)
            .find(|at| self.queues.get_mut(*at).is_some_and(Queue::has_received));
        let Some(at) = ready else {
            return 0;
        };
        self.next = (at + 1) % count;
        let trust = self.trust;
        match self.queues.get_mut(at) {
            Some(queue) => queue.receive(|frame| trust.meta(frame), each),
            None => 0,
        }
    }

    fn is_ready(&mut self) -> bool {
        self.has_heard()
            || self
                .queues
                .iter_mut()
                .any(|queue| queue.has_received() || queue.is_stuck())
    }

    fn coalesce(&self) -> Coalesce {
        Coalesce::Always
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.queues.iter_mut().try_for_each(Queue::flush) {
            Ok(()) => Ok(()),
            Err(cause) => self.lose(cause),
        }
    }

    fn is_away(&self) -> bool {
        self.gone
    }

    fn look_when_asked(&mut self) {
        self.is_asked = true;
    }

    fn look_again(&mut self, now: Instant) {
        if std::mem::take(&mut self.wants_look) {
            self.look(now);
        }
    }

    fn wants_look(&self) -> bool {
        self.wants_look
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if !self.arm() {
            return Ok(());
        }
        let most = self.sleep_at_most();
        let timeout = timeout.map_or(most, |timeout| timeout.min(most));
        let mut fds: Vec<PollFd<'_>> = self
            .doorbells()
            .map(|doorbell| PollFd::from_borrowed_fd(doorbell, PollFlags::IN))
            .collect();
        let beside = self.queues.len()..fds.len();
        fds.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        let slept = poll::sleep_or_signal(&mut fds, Some(timeout));
        let received = fds
            .iter()
            .take(self.queues.len())
            .any(|fd| fd.revents() == PollFlags::IN);
        let said = fds.get(beside).unwrap_or_default();
        let heard = said.iter().any(|fd| !fd.revents().is_empty());
        self.disarm();
        slept?;
        if heard && self.listen() || received {
            Ok(())
        } else {
            self.check_link()
        }
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        // Whoever sleeps does not say on which of them.
        if self.listen() || !self.arm() {
            return Ok(Some(Duration::ZERO));
        }
        fds.extend(self.doorbells().map(|doorbell| doorbell.as_raw_fd()));
        Ok(Some(self.sleep_at_most()))
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn losses(&self) -> (u64, u64) {
        let (dropped, unsent) = self.queues.iter().fold(self.lost, add_losses);
        // One port says for all what came to no queue of any.
        let steered = self.program.steered().filter(|_| self.follower.is_some());
        (dropped + steered.map_or(0, Steered::dropped), unsent)
    }
}
