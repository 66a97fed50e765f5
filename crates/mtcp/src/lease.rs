//! The ports of a process, leased to its contexts one at a time. What comes to a port that no
//! context has is received by one that lives: it is for any of them, and peers do not know which
//! queue is whose.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use io::shm::Exchange;
use io::{AnyPort, Port};
use wire::frame::RxFrame;
use wire::time::Instant;

/// Where a port of a process is.
#[derive(Debug)]
enum Place {
    Here(AnyPort),
    /// With its context.
    Leased,
    /// A stack has panicked with it: nobody knows which frames are whose.
    Lost,
}

/// One queue, and what its contexts have in common.
#[derive(Debug)]
struct Queue {
    place: Place,
    /// The secret of its stacks. One for all, so that the sequence numbers and timestamps of a
    /// later one go on from where the earlier one was, for peers that still know its connections
    /// (RFC 6528 §3, RFC 6191).
    secret: [u8; 32],
    /// Whose context looks after it while it is [here](Place::Here).
    carer: Option<usize>,
    /// Whether this one's context looks after any.
    cares: Arc<AtomicBool>,
}

/// All queues of a process.
#[derive(Debug)]
pub(crate) struct Ports {
    queues: Mutex<Vec<Queue>>,
    /// Through which contexts hand each other what came to the wrong one; without, none looks after
    /// the queue of another.
    exchange: Option<Arc<Exchange>>,
}

impl Ports {
    pub(crate) fn new(
        ports: impl IntoIterator<Item = (AnyPort, [u8; 32])>,
        exchange: Option<Arc<Exchange>>,
    ) -> Arc<Self> {
        let queue = |(port, secret)| Queue {
            place: Place::Here(port),
            secret,
            carer: None,
            cares: Arc::default(),
        };
        Arc::new(Self {
            queues: Mutex::new(ports.into_iter().map(queue).collect()),
            exchange,
        })
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shares the queues that nobody has out among the contexts that live, and wakes these, who
    /// sleep on other queues.
    fn share_out(&self, queues: &mut [Queue]) {
        let Some(exchange) = &self.exchange else {
            return;
        };
        let is_leased = |queue: &Queue| matches!(queue.place, Place::Leased);
        let living: Vec<usize> = (0..)
            .zip(queues.iter())
            .filter_map(|(core, queue)| is_leased(queue).then_some(core))
            .collect();
        let mut turn = living.iter().copied().cycle();
        for queue in queues.iter_mut() {
            let is_here = matches!(queue.place, Place::Here(_));
            queue.carer = is_here.then(|| turn.next()).flatten();
        }
        for core in living {
            let cares = queues.iter().any(|queue| queue.carer == Some(core));
            if let Some(queue) = queues.get(core) {
                queue.cares.store(cares, Ordering::Release);
            }
        }
        exchange.wake_all();
    }

    /// Leases the port of `core`.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn lease(self: &Arc<Self>, core: usize) -> Result<(PortLease, [u8; 32]), String> {
        let mut queues = self.queues();
        let Some(queue) = queues.get_mut(core) else {
            return Err(format!("no core {core}"));
        };
        match std::mem::replace(&mut queue.place, Place::Leased) {
            Place::Here(port) => {
                let home = Home {
                    ports: Arc::clone(self),
                    core,
                    cares: Arc::clone(&queue.cares),
                };
                let secret = queue.secret;
                self.share_out(&mut queues);
                Ok((PortLease::new(port, Some(home)), secret))
            }
            Place::Leased => Err(format!(
                "core {core} has its context, and there is one per core: drop it first"
            )),
            Place::Lost => {
                queue.place = Place::Lost;
                Err(format!(
                    "core {core} lost its port with a stack that failed: start the program again"
                ))
            }
        }
    }

    fn put(&self, core: usize, place: Place) {
        let mut queues = self.queues();
        if let Some(queue) = queues.get_mut(core) {
            queue.place = place;
            queue.cares.store(false, Ordering::Release);
        }
        self.share_out(&mut queues);
    }

    /// Does something with each queue that `core` looks after.
    fn visit(&self, core: usize, mut act: impl FnMut(&mut AnyPort)) {
        let mut queues = self.queues();
        for queue in queues.iter_mut().filter(|queue| queue.carer == Some(core)) {
            // Should the stack panic with it, it is lost.
            match std::mem::replace(&mut queue.place, Place::Lost) {
                Place::Here(mut port) => {
                    act(&mut port);
                    queue.place = Place::Here(port);
                }
                other => queue.place = other,
            }
        }
    }
}

/// Where a port comes from.
#[derive(Debug)]
struct Home {
    ports: Arc<Ports>,
    core: usize,
    /// Whether there are queues to look after.
    cares: Arc<AtomicBool>,
}

/// A port that goes back to where it comes from.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: ManuallyDrop<AnyPort>,
    home: Option<Home>,
    /// A call on it is under way. Still so when it is dropped: the call has panicked.
    pub(crate) busy: bool,
}

impl PortLease {
    fn new(port: AnyPort, home: Option<Home>) -> Self {
        Self {
            port: ManuallyDrop::new(port),
            home,
            busy: false,
        }
    }

    /// Does something with each queue of nobody that this one's context looks after. Mostly there
    /// is none, which is one look.
    #[inline]
    fn each_unowned(&self, act: impl FnMut(&mut AnyPort)) {
        if let Some(home) = &self.home
            && home.cares.load(Ordering::Acquire)
        {
            home.visit(act);
        }
    }

    /// Takes what arrived in queues of nobody, at most so many bursts of each. Returns how many
    /// frames.
    #[inline]
    pub(crate) fn receive_unowned(
        &self,
        now: Instant,
        bursts: usize,
        mut each: impl FnMut(&[RxFrame<'_>]),
    ) -> usize {
        let mut frames = 0;
        self.each_unowned(|port| {
            port.begin(now);
            for _ in 0..bursts {
                let burst = port.receive(&mut each);
                frames += burst;
                if burst == 0 {
                    break;
                }
            }
            // Gives the room back. That the link is gone the other port says.
            let _ = port.flush();
        });
        frames
    }

    /// Whether there is something in them.
    #[inline]
    pub(crate) fn has_unowned(&self) -> bool {
        let mut has = false;
        self.each_unowned(|port| has |= port.is_ready());
        has
    }

    /// Says of them that we are about to sleep: [`Port::prepare_wait`] of each.
    pub(crate) fn prepare_unowned(&self, fds: &mut Vec<RawFd>) -> Option<Duration> {
        let mut most = None;
        self.each_unowned(|port| {
            if let Ok(Some(limit)) = port.prepare_wait(fds) {
                most = Some(most.map_or(limit, |most: Duration| most.min(limit)));
            }
        });
        most
    }

    /// That sleep is over.
    pub(crate) fn end_unowned(&self) {
        self.each_unowned(|port| {
            let _ = port.wait(Some(Duration::ZERO), None);
        });
    }
}

impl From<AnyPort> for PortLease {
    /// One that belongs to its context.
    fn from(port: AnyPort) -> Self {
        Self::new(port, None)
    }
}

impl Home {
    #[cold]
    fn visit(&self, act: impl FnMut(&mut AnyPort)) {
        self.ports.visit(self.core, act);
    }
}

impl Deref for PortLease {
    type Target = AnyPort;

    #[inline]
    fn deref(&self) -> &AnyPort {
        &self.port
    }
}

impl DerefMut for PortLease {
    #[inline]
    fn deref_mut(&mut self) -> &mut AnyPort {
        &mut self.port
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        // SAFETY: only here, and nothing uses `port` afterwards.
        let port = unsafe { ManuallyDrop::take(&mut self.port) };
        let Some(home) = self.home.take() else {
            return;
        };
        let place = if self.busy {
            Place::Lost
        } else {
            Place::Here(port)
        };
        home.ports.put(home.core, place);
    }
}

#[cfg(test)]
mod tests {
    use io::sim::{SimConfig, pair};
    use wire::frame::{FrameSink, TxMeta};

    use super::*;

    #[test]
    fn a_port_is_with_one_context_at_a_time() {
        let (port, _peer) = pair(SimConfig::default()).unwrap();
        let ports = Ports::new([(port.into(), [7; 32])], None);
        for _ in 0..2 {
            let (_lease, secret) = ports.lease(0).unwrap();
            assert_eq!(secret, [7; 32]);
            assert!(ports.lease(0).unwrap_err().contains("drop it first"));
        }
        assert!(ports.lease(1).is_err());
    }

    #[test]
    fn a_port_in_disorder_does_not_come_back() {
        let (port, _peer) = pair(SimConfig::default()).unwrap();
        let ports = Ports::new([(port.into(), [0; 32])], None);
        let (mut lease, _) = ports.lease(0).unwrap();
        lease.busy = true;
        drop(lease);
        for _ in 0..2 {
            assert!(ports.lease(0).unwrap_err().contains("stack that failed"));
        }
    }

    #[test]
    fn what_nobody_has_is_looked_after_by_who_lives() {
        let links = [(); 3].map(|()| pair(SimConfig::default()).unwrap());
        let (ports, mut peers): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let exchange = Exchange::new(3, 1500).unwrap();
        let ports = Ports::new(
            ports.into_iter().map(|port| (port.into(), [0; 32])),
            Some(exchange),
        );
        let mut say = |to: usize| {
            peers[to].send(|into| {
                into[..60].fill(1);
                TxMeta {
                    len: 60,
                    ..TxMeta::default()
                }
            });
            peers[to].flush().unwrap();
        };
        let hears = |lease: &PortLease| lease.receive_unowned(Instant::ZERO, 9, |_| {});
        let (first, _) = ports.lease(0).unwrap();
        say(1);
        say(2);
        assert!(first.has_unowned());
        assert_eq!(hears(&first), 2);
        // One that comes takes its own with it, and half of the rest.
        let (second, _) = ports.lease(1).unwrap();
        say(1);
        say(2);
        assert_eq!((hears(&first), hears(&second)), (1, 0));
        drop(first);
        say(0);
        say(2);
        assert_eq!(hears(&second), 2);
        drop(second);
        let (again, _) = ports.lease(0).unwrap();
        say(1);
        assert_eq!(
            hears(&again),
            2,
            "what came to the second while it was there, too"
        );
    }
}
