//! A side of a channel: its rings and its doorbell.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mtcp_core::{Command, Event};
use ring::duplex::{Duplex, Unit};

use super::message::{Answer, Call, Disorder, Message, News, Room, Said, Text, Told};
use super::wake_socket::WakeSocket;
use crate::driver::Staged;

/// What the program's side hears.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "as Answer, which is most of it")]
pub(crate) enum Heard {
    Event(Event),
    /// With the serial number of the call.
    Answer(u32, Answer),
}

/// The program's side.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    rings: Duplex,
    wake: WakeSocket,
    /// Units taken since the daemon was last told, which may wait for room.
    taken: usize,
    /// Something was published that the daemon may sleep over.
    unrung: bool,
    /// For calls and their answers.
    room: Box<Room>,
}

/// The daemon hears of room when so many units have been taken. With those of one message that is
/// less than any ring has: one that was full is never emptied without.
const TELL_OF_ROOM: usize = 512;

impl ProgramEnd {
    pub(crate) fn new(rings: Duplex, wake: WakeSocket) -> Self {
        Self {
            rings,
            wake,
            taken: 0,
            unrung: false,
            room: Room::new(),
        }
    }

    /// Stages news. False: there is no room until the daemon has taken some.
    #[inline]
    pub(crate) fn stage(&mut self, news: Staged) -> bool {
        self.rings.stage(&[news.unit()])
    }

    /// Stages a call. False: there is no room until the daemon has taken some, or never.
    #[inline(never)]
    pub(crate) fn stage_call(&mut self, serial: u32, call: &Call) -> bool {
        let units = self.room.call(serial, call);
        units.is_some_and(|units| self.rings.stage(units))
    }

    /// Hands over what is staged, and wakes the daemon if it sleeps. True: there was something.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let published = self.rings.publish();
        if (published || self.unrung) && self.rings.take_announcement() {
            self.wake.wake();
        }
        self.unrung = false;
        published
    }

    /// The same, and lets a daemon sleep that sleeps on the processor that this runs on, until
    /// [`Self::publish`].
    #[inline]
    pub(crate) fn publish_beside(&mut self) -> bool {
        if !self.rings.other_sleeps() || !self.rings.is_beside() {
            return self.publish();
        }
        let published = self.rings.publish();
        self.unrung |= published;
        published
    }

    /// Whether the daemon last slept on the processor that this runs on: it does nothing meanwhile.
    pub(crate) fn is_beside(&self) -> bool {
        self.rings.is_beside()
    }

    /// Whether there is something that the daemon does not see, or may sleep over.
    pub(crate) fn has_staged(&self) -> bool {
        self.unrung || self.rings.has_staged()
    }

    /// The daemon has said nothing more.
    #[inline]
    pub(crate) fn is_empty(&mut self) -> bool {
        self.rings.is_empty()
    }

    /// What the daemon says next.
    ///
    /// # Errors
    /// It means nothing.
    #[inline]
    pub(crate) fn hear(&mut self) -> Result<Option<Heard>, Disorder> {
        let Some(unit) = self.rings.pop() else {
            return match self.rings.is_corrupt() {
                true => Err(Disorder),
                false => Ok(None),
            };
        };
        self.taken += 1;
        if self.taken >= TELL_OF_ROOM {
            self.tell_of_room();
        }
        let heard = match Told::of(unit)? {
            Told::Event(event) => Heard::Event(event),
            Told::Accepted { listener, conn } => {
                let mut units = [Unit::default(); 3];
                self.rest(&mut units)?;
                let key = Told::addresses(&units);
                Heard::Event(Event::Accepted {
                    listener,
                    conn,
                    key,
                })
            }
            Told::Answer(text) => self.hear_answer(&text)?,
        };
        Ok(Some(heard))
    }

    /// Room for the answer is taken on the stack of nobody who hears of events alone.
    #[inline(never)]
    fn hear_answer(&mut self, text: &Text) -> Result<Heard, Disorder> {
        let units = self.room.units(text).ok_or(Disorder)?;
        self.taken += units.len();
        if !self.rings.take(units) {
            return Err(Disorder);
        }
        Ok(Heard::Answer(text.serial, self.room.read(text)?))
    }

    #[cold]
    fn tell_of_room(&mut self) {
        self.taken = 0;
        if self.rings.take_announcement() {
            self.wake.wake();
        }
    }

    /// The units behind a header, which are published with it.
    fn rest(&mut self, units: &mut [Unit]) -> Result<(), Disorder> {
        self.taken += units.len();
        self.rings.take(units).then_some(()).ok_or(Disorder)
    }

    /// Passes a descriptor to the daemon, for the call that follows.
    ///
    /// # Errors
    /// `WouldBlock`: the daemon has to hear of others first.
    pub(crate) fn pass(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.wake.pass(fd)
    }

    /// Says that this side sleeps. False, and it does not: something has been said.
    pub(crate) fn begin_sleep(&mut self) -> bool {
        self.rings.announce_sleep();
        let sleeps = self.rings.is_empty();
        if !sleeps {
            self.end_sleep();
        }
        sleeps
    }

    /// Whether the daemon is there.
    pub(crate) fn lives(&self) -> bool {
        self.wake.drain()
    }

    /// That sleep is over. False: the daemon is gone.
    pub(crate) fn end_sleep(&mut self) -> bool {
        self.rings.end_sleep();
        self.wake.drain()
    }
}

impl AsFd for ProgramEnd {
    /// Readable when the daemon has rung, and when it is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// What the daemon's side hears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    News(Command),
    /// With the serial number that the answer has.
    Call(u32, Call),
}

/// The daemon's side.
#[derive(Debug)]
pub(super) struct DaemonEnd {
    rings: Duplex,
    wake: WakeSocket,
    /// Answers for which there was no room: as many as the program has calls open.
    answers: VecDeque<Message>,
    /// Descriptors that it has passed, for calls that it has not made.
    passed: VecDeque<OwnedFd>,
    /// For calls.
    room: Box<Room>,
}

/// Calls that a program has open at most.
const CALLS: usize = 64;

impl DaemonEnd {
    pub(super) fn new(rings: Duplex, wake: WakeSocket) -> Self {
        Self {
            rings,
            wake,
            answers: VecDeque::new(),
            passed: VecDeque::new(),
            room: Room::new(),
        }
    }

    pub(super) fn memory(&self) -> BorrowedFd<'_> {
        self.rings.memory()
    }

    /// What the program says next. Nothing while so many answers wait for it that it has to take
    /// some first.
    ///
    /// # Errors
    /// It means nothing.
    #[inline]
    pub(super) fn hear(&mut self) -> Result<Option<Asked>, Disorder> {
        if self.answers.len() >= CALLS {
            return Ok(None);
        }
        let Some(unit) = self.rings.pop() else {
            return match self.rings.is_corrupt() {
                true => Err(Disorder),
                false => Ok(None),
            };
        };
        match Said::of(unit)? {
            Said::News(news) => Ok(Some(Asked::News(news.into()))),
            Said::Call(text) => {
                let units = self.room.units(&text).ok_or(Disorder)?;
                if !self.rings.take(units) {
                    return Err(Disorder);
                }
                Ok(Some(Asked::Call(text.serial, self.room.read(&text)?)))
            }
        }
    }

    /// Whether the program has said something that could be heard now.
    pub(super) fn is_empty(&mut self) -> bool {
        self.answers.len() >= CALLS || self.rings.is_empty()
    }

    /// Tells the program of an event. False: there is no room, or answers go first.
    #[inline]
    pub(super) fn tell(&mut self, event: &Event) -> bool {
        self.answers.is_empty() && self.rings.stage(News::of(event).units())
    }

    /// Answers a call: at once, or as soon as there is room.
    ///
    /// # Errors
    /// Nobody could say this: a fault of ours.
    pub(super) fn answer(&mut self, serial: u32, answer: &Answer) -> Result<(), Disorder> {
        let message = Message::answer(serial, answer).ok_or(Disorder)?;
        if !self.answers.is_empty() || !self.rings.stage(message.units()) {
            self.answers.push_back(message);
        }
        Ok(())
    }

    /// Stages the answers that wait, as far as there is room.
    pub(super) fn stage_answers(&mut self) {
        while let Some(message) = self.answers.front() {
            if !self.rings.stage(message.units()) {
                return;
            }
            self.answers.pop_front();
        }
    }

    /// Hands over what is staged. True: there was something.
    #[inline]
    pub(super) fn publish(&mut self) -> bool {
        self.rings.publish()
    }

    /// Wakes the program if it sleeps. True: it did, and runs on this processor as soon as that is
    /// free.
    pub(super) fn wake(&self) -> bool {
        let sleeps = self.rings.take_announcement();
        if sleeps {
            self.wake.wake();
        }
        sleeps && self.rings.is_beside()
    }

    /// Whether the program says that it sleeps.
    pub(super) fn other_sleeps(&self) -> bool {
        self.rings.other_sleeps()
    }

    /// Says that the daemon sleeps. False: the program has said something since.
    pub(super) fn begin_sleep(&mut self) -> bool {
        self.rings.announce_sleep();
        self.is_empty()
    }

    /// That sleep is over. True: the program has rung.
    pub(super) fn end_sleep(&self) -> bool {
        self.rings.end_sleep()
    }

    /// Takes what has rung. False: the program is gone.
    pub(super) fn drain(&mut self) -> bool {
        self.wake.take(&mut self.passed)
    }

    /// The descriptor that the program has passed for the call that it makes.
    pub(super) fn take_passed(&mut self) -> Option<OwnedFd> {
        if self.passed.is_empty() {
            self.wake.take_passed(&mut self.passed);
        }
        self.passed.pop_front()
    }
}

impl AsFd for DaemonEnd {
    /// Readable when the program has rung, and when it is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
