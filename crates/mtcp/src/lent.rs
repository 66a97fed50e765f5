//! The ports of a process, lent to its contexts one at a time.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use io::AnyPort;

/// Where a port of a process is.
#[derive(Debug)]
enum Place {
    Here(AnyPort),
    /// With its context.
    Lent,
    /// A stack has panicked with it: nobody knows which frames are whose.
    Lost,
}

/// One queue, and what its contexts have in common.
#[derive(Debug)]
struct Queue {
    place: Place,
    /// The secret of its stacks. One for all, so that the sequence numbers and timestamps of a later one go on from where the earlier
    /// one was, for peers that still know its connections (RFC 6528 §3, RFC 6191).
    secret: [u8; 32],
}

/// All queues of a process.
#[derive(Debug)]
pub(crate) struct Ports(Mutex<Vec<Queue>>);

impl Ports {
    pub(crate) fn new(ports: impl IntoIterator<Item = (AnyPort, [u8; 32])>) -> Arc<Self> {
        let queue = |(port, secret)| Queue {
            place: Place::Here(port),
            secret,
        };
        Arc::new(Self(Mutex::new(ports.into_iter().map(queue).collect())))
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends the port of `core`.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn lend(self: &Arc<Self>, core: usize) -> Result<(Lent, [u8; 32]), String> {
        let mut queues = self.queues();
        let Some(queue) = queues.get_mut(core) else {
            return Err(format!("no core {core}"));
        };
        match std::mem::replace(&mut queue.place, Place::Lent) {
            Place::Here(port) => {
                let home = Some((Arc::downgrade(self), core));
                Ok((Lent::new(port, home), queue.secret))
            }
            Place::Lent => Err(format!(
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
        if let Some(queue) = self.queues().get_mut(core) {
            queue.place = place;
        }
    }
}

/// A port that goes back to its process, if that is still there.
#[derive(Debug)]
pub(crate) struct Lent {
    port: ManuallyDrop<AnyPort>,
    home: Option<(Weak<Ports>, usize)>,
    /// A call on it is under way. Still so when it is dropped: the call has panicked.
    pub(crate) busy: bool,
}

impl Lent {
    fn new(port: AnyPort, home: Option<(Weak<Ports>, usize)>) -> Self {
        Self {
            port: ManuallyDrop::new(port),
            home,
            busy: false,
        }
    }

    /// One that belongs to its context.
    pub(crate) fn given(port: AnyPort) -> Self {
        Self::new(port, None)
    }
}

impl Deref for Lent {
    type Target = AnyPort;

    #[inline]
    fn deref(&self) -> &AnyPort {
        &self.port
    }
}

impl DerefMut for Lent {
    #[inline]
    fn deref_mut(&mut self) -> &mut AnyPort {
        &mut self.port
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: only here, and nothing uses `port` afterwards.
        let port = unsafe { ManuallyDrop::take(&mut self.port) };
        let home = self.home.take();
        let Some((ports, core)) = home.and_then(|(home, core)| Some((home.upgrade()?, core)))
        else {
            return;
        };
        let place = if self.busy {
            Place::Lost
        } else {
            Place::Here(port)
        };
        ports.put(core, place);
    }
}

#[cfg(test)]
mod tests {
    use io::sim::{SimConfig, pair};

    use super::*;

    #[test]
    fn a_port_is_with_one_context_at_a_time() {
        let (port, _peer) = pair(SimConfig::default()).unwrap();
        let ports = Ports::new([(port.into(), [7; 32])]);
        for _ in 0..2 {
            let (_lent, secret) = ports.lend(0).unwrap();
            assert_eq!(secret, [7; 32]);
            assert!(ports.lend(0).unwrap_err().contains("drop it first"));
        }
        assert!(ports.lend(1).is_err());
    }

    #[test]
    fn a_port_in_disorder_does_not_come_back() {
        let (port, _peer) = pair(SimConfig::default()).unwrap();
        let ports = Ports::new([(port.into(), [0; 32])]);
        let (mut lent, _) = ports.lend(0).unwrap();
        lent.busy = true;
        drop(lent);
        for _ in 0..2 {
            assert!(ports.lend(0).unwrap_err().contains("stack that failed"));
        }
    }
}
