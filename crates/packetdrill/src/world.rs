//! The lock around the stack, and who moves its time.
//!
//! Two threads call: one plays the script, the other makes the calls that wait. One that waits really sleeps. The other moves time,
//! and whenever that ends a call, time stands still until the thread that waited has come back and read the clock.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mtcp_core::Config;
use sim::calls::{Kind, Outcome, Sent};
use wire::time::Instant;

use crate::machine::Machine;

/// How long `next_packet` waits when nothing is due, in real time.
const NOTHING: Duration = Duration::from_millis(50);
/// How long a thread may take to come back after its call, in real time.
const COMEBACK: Duration = Duration::from_secs(1);
/// A call that waits while the tool does nothing for so long, in real time, moves time itself.
const ALONE: Duration = Duration::from_millis(200);
/// After so many waits for a packet that brought nothing, with nothing due, there will never be one.
const FRUITLESS: u32 = 20;

/// A stack in virtual time, for several threads.
#[derive(Debug)]
pub struct World {
    machine: Mutex<Machine>,
    /// A call ended, a thread came back, or the tool did something.
    changed: Condvar,
}

type Guard<'a> = MutexGuard<'a, Machine>;

/// What waiting for a packet brought.
#[derive(Debug)]
pub enum Waited {
    /// One.
    Packet(Sent),
    /// None yet.
    Nothing,
    /// None, and there will be none unless someone else does something.
    Never,
}

impl World {
    /// A stack that has opened nothing.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory could not be reserved.
    pub fn new(config: Config) -> io::Result<Self> {
        Ok(Self {
            machine: Mutex::new(Machine::new(config)?),
            changed: Condvar::new(),
        })
    }

    /// The thread is back, if it was away in a call.
    fn enter(&self) -> Guard<'_> {
        let mut machine = self.lock();
        self.come_back(&mut machine);
        machine
    }

    fn lock(&self) -> Guard<'_> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come_back(&self, machine: &mut Machine) {
        machine.activity += 1;
        machine.returning.retain(|id| *id != thread::current().id());
        self.changed.notify_all();
    }

    fn wait<'a>(&self, machine: Guard<'a>, time: Duration) -> Guard<'a> {
        let woken = self.changed.wait_timeout(machine, time);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until those whose call is over are back.
    fn await_comeback<'a>(&self, machine: Guard<'a>) -> Guard<'a> {
        let away = |machine: &mut Machine| !machine.returning.is_empty();
        let result = self.changed.wait_timeout_while(machine, COMEBACK, away);
        let mut machine = result.unwrap_or_else(PoisonError::into_inner).0;
        // Who makes no other call does not read the clock either.
        machine.returning.clear();
        machine
    }

    /// Makes a call; returns when it is over.
    ///
    /// # Errors
    /// As the call of Linux.
    pub fn call(&self, kind: Kind) -> Outcome {
        let mut machine = self.enter();
        let begun = machine.begin(kind, thread::current().id());
        self.changed.notify_all();
        let id = match begun {
            Ok(outcome) => return outcome,
            Err(id) => id,
        };
        let mut patience = ALONE;
        loop {
            if let Some(outcome) = machine.end(id) {
                return outcome;
            }
            let activity = machine.activity;
            machine = self.wait(machine, patience);
            let alone = machine.activity == activity && machine.returning.is_empty();
            patience = if alone && machine.step(None) {
                self.changed.notify_all();
                Duration::ZERO
            } else {
                ALONE
            };
        }
    }

    /// Whether a descriptor is one of ours.
    pub fn knows(&self, number: i32) -> bool {
        self.lock().knows(number)
    }

    /// The time. It moves a little with each look.
    pub fn now(&self) -> Instant {
        let mut machine = self.lock();
        let was_away = machine.returning.contains(&thread::current().id());
        self.come_back(&mut machine);
        if !was_away {
            machine = self.await_comeback(machine);
            machine.tick();
        }
        self.changed.notify_all();
        machine.now()
    }

    /// Lets time pass.
    pub fn sleep(&self, time: Duration) {
        let mut machine = self.enter();
        let end = machine.now() + time;
        loop {
            machine = self.await_comeback(machine);
            let went_on = machine.step(Some(end));
            self.changed.notify_all();
            if !went_on {
                break;
            }
        }
        let end = end.max(machine.now());
        machine.advance(end);
        self.changed.notify_all();
    }

    /// An IP packet arrives; it is processed when this returns.
    pub fn deliver(&self, packet: &[u8]) {
        let mut machine = self.enter();
        machine.deliver(packet);
        self.changed.notify_all();
    }

    /// The next IP packet that the stack sent. If there is none, time moves on until it sends one, as long as anything is due.
    pub fn next_packet(&self) -> Waited {
        let mut machine = self.enter();
        let waited = loop {
            if let Some(sent) = machine.pop_packet() {
                break Waited::Packet(sent);
            }
            machine = self.await_comeback(machine);
            if !machine.step(None) {
                machine = self.wait(machine, NOTHING);
                break machine.pop_packet().map_or(Waited::Nothing, Waited::Packet);
            }
            self.changed.notify_all();
        };
        judge(&mut machine, waited)
    }
}

/// Whether nothing yet is nothing ever.
fn judge(machine: &mut Machine, waited: Waited) -> Waited {
    machine.fruitless = match waited {
        Waited::Nothing => machine.fruitless + 1,
        _ => 0,
    };
    if machine.fruitless > FRUITLESS {
        return Waited::Never;
    }
    waited
}

impl Drop for World {
    fn drop(&mut self) {
        self.machine
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .abandon();
    }
}
