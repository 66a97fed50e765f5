//! What the fuzz targets run. Also run by the tests, on random bytes. Each function must accept any
//! bytes.

use std::io;

use crate::region::{PagePolicy, Shared};
use crate::stream::{
    AppStreams, HomeMemory, Limits, StackStreams, Status, StreamsConfig, slot_of, streams_and_homes,
};

/// Connections of the program.
const SLOTS: u32 = 3;
/// Bytes of a pool.
const POOL: usize = 64 << 10;
/// Bytes of a step.
const STEP: usize = 8;
/// The words that steps write to: the records of the slots, the marks behind their page, and some
/// of the pools.
const RECORDS: usize = SLOTS as usize * 16;
const MARKS: usize = SLOTS as usize * 8;
const PAGE: usize = 4096;

/// A program that does what these bytes say to the memory of its streams, while the stack goes on:
/// each connection of others keeps its bytes, and what the stack knows of a connection never moves
/// back.
///
/// # Panics
/// It did.
pub fn hostile_program(bytes: &[u8]) {
    // Without shared memory there is nothing to be tried.
    let Ok(mut lab) = Lab::new() else {
        return;
    };
    let (steps, _) = bytes.as_chunks::<STEP>();
    for step in steps {
        lab.step(*step);
    }
    lab.end();
}

/// A program's streams, and the memory that they are in.
struct Program {
    home: u32,
    app: AppStreams,
    memory: Shared,
}

struct Lab {
    stack: StackStreams,
    /// Whose streams are in the stack's process.
    own: AppStreams,
    hostile: Program,
    other: Program,
    /// Up to where the stack has known bytes that are to be sent.
    written: [u32; SLOTS as usize],
}

fn config(slots: u32) -> StreamsConfig {
    StreamsConfig {
        slots,
        recv_pool_bytes: POOL,
        send_pool_bytes: POOL,
        max_buffer: 32 << 10,
        prefault: 0,
    }
}

const LIMITS: Limits = Limits {
    recv: 20_000,
    send: 20_000,
};
const RECEIVED: &[u8] = b"what a program received";
const SENT: &[u8] = b"what a program is to send";

impl Program {
    fn new(stack: &mut StackStreams) -> io::Result<Self> {
        let memory = HomeMemory::create("fuzzed", &config(SLOTS))?;
        let home = stack.homes().add(&memory)?;
        let fd = || memory.fd().try_clone_to_owned();
        Ok(Self {
            home,
            app: AppStreams::attach(fd()?, &memory.plan())?,
            memory: Shared::from_fd(fd()?, usize::MAX)?,
        })
    }
}

/// Bytes on their way in both directions.
fn fill(stack: &mut StackStreams, slot: u32, app: &mut AppStreams) {
    stack.turn_to(slot);
    assert_eq!(stack.open(slot, LIMITS), Ok(()));
    assert_eq!(stack.write_at(slot, 0, RECEIVED), Ok(()));
    stack.commit(slot, RECEIVED.len() as u32);
    stack.show();
    assert_eq!(app.write(0, SENT), SENT.len());
}

/// They are still what they were.
fn check(stack: &mut StackStreams, slot: u32, app: &mut AppStreams) {
    stack.turn_to(slot);
    assert_eq!(stack.peek(slot, 0, u32::MAX).to_vec(), SENT);
    let mut bytes = [0; RECEIVED.len() + 1];
    let n = app.peek(0, &mut bytes);
    assert_eq!(bytes.get(..n), Some(RECEIVED));
}

impl Lab {
    fn new() -> io::Result<Self> {
        let (mut stack, mut own) = streams_and_homes(None, &config(1), PagePolicy::Small, 2)?;
        let hostile = Program::new(&mut stack)?;
        let mut other = Program::new(&mut stack)?;
        fill(&mut stack, 0, &mut own);
        fill(&mut stack, slot_of(other.home, 0), &mut other.app);
        Ok(Self {
            stack,
            own,
            hostile,
            other,
            written: [0; SLOTS as usize],
        })
    }

    fn step(&mut self, step: [u8; STEP]) {
        let [what, slot, place @ .., a, b, c, d] = step;
        let slot = u32::from(slot) % SLOTS;
        let (place, value) = (u16::from_le_bytes(place), u32::from_le_bytes([a, b, c, d]));
        match what % 3 {
            0 => self.scribble(slot, usize::from(place), value, what),
            1 => self.program(slot, place, value),
            _ => self.stack(slot, place, value),
        }
    }

    /// Writes a word: any, or one that is near what is there.
    fn scribble(&self, slot: u32, place: usize, value: u32, what: u8) {
        let at = match place % 8 {
            0 => PAGE + place / 8 % MARKS * 4,
            1 => 2 * PAGE + place / 8 * 4,
            _ => (slot as usize * 16 + place / 8 % 16) % RECORDS * 4,
        };
        let mut word = [0; 4];
        self.hostile.memory.read_at(at, &mut word);
        let near = u32::from_le_bytes(word)
            .wrapping_add(value % 64)
            .wrapping_sub(32);
        let word = if what < 128 { value } else { near };
        self.hostile.memory.write_at(at, &word.to_le_bytes());
    }

    /// Its own library does what it does, on words that may be anything.
    fn program(&mut self, slot: u32, n: u16, value: u32) {
        let app = &mut self.hostile.app;
        let mut bytes = vec![0; usize::from(n) % 3000];
        match value % 10 {
            0 | 1 => assert!(app.write(slot, &bytes) <= bytes.len()),
            2 | 3 => assert!(app.read(slot, &mut bytes) <= bytes.len()),
            4 => app.release(slot),
            5 => {
                app.trim(slot);
                app.sweep(2);
            }
            6 => drop((app.poll_starved(), app.want_space(slot))),
            7 => drop((app.writable(slot), app.window_update_due(slot))),
            8 => drop((app.urgent(slot), app.pass_mark(slot, n.is_multiple_of(2)))),
            _ => drop((app.readable(slot), app.at_mark(slot), app.at_eof(slot))),
        }
    }

    fn stack(&mut self, local: u32, n: u16, value: u32) {
        let (stack, slot) = (&mut self.stack, slot_of(self.hostile.home, local));
        stack.turn_to(slot);
        let (len, before) = (stack.send_len(slot), stack.send_head(slot));
        assert!(len as usize <= POOL && stack.recv_unread(slot) as usize <= POOL);
        let Some(written) = self.written.get_mut(local as usize) else {
            return;
        };
        if len > 0 {
            // Never less than was known.
            let end = before.wrapping_add(len);
            assert!(len >= written.wrapping_sub(before) || written.wrapping_sub(before) > 1 << 31);
            *written = end;
        }
        let bytes = vec![7; usize::from(n) % 3000];
        match value % 16 {
            0 => {
                if stack.open(slot, LIMITS).is_ok() {
                    *written = stack.send_head(slot);
                }
            }
            1 => {
                if stack.close(slot) {
                    *written = stack.send_head(slot);
                }
            }
            2 | 3 => drop(stack.write_at(slot, value % 2000, &bytes)),
            4 | 5 => stack.commit(slot, u32::from(n)),
            6 | 7 => stack.consume(slot, u32::from(n)),
            8 => drop(stack.trim(slot, n.is_multiple_of(2))),
            9 => drop(stack.mark_urgent(slot, u32::from(n) % 100)),
            10 => drop((stack.app_wants_space(slot), stack.app_is_short(slot))),
            11 => stack.note_sent(slot, u32::from(n)),
            12 => stack.set_unsent_low_water(slot, value),
            13 => stack.add_status(slot, Status::EOF),
            14 => stack.sweep(4),
            _ => {
                let pieces = stack.peek(slot, value % 5000, u32::from(n));
                assert!(pieces.len() <= len as usize);
                drop(pieces.to_vec());
            }
        }
        stack.show();
        let _ = stack.homes().take_disorder(self.hostile.home);
    }

    fn end(mut self) {
        let other = &mut self.other;
        check(&mut self.stack, 0, &mut self.own);
        check(&mut self.stack, slot_of(other.home, 0), &mut other.app);
        // Whatever it did, it can be got rid of.
        let home = self.hostile.home;
        self.stack.homes().app_gone(home);
        for slot in 0..SLOTS {
            let slot = slot_of(home, slot);
            self.stack.turn_to(slot);
            self.stack.close(slot);
        }
        assert!(self.stack.homes().remove(home), "a slot is still open");
        check(&mut self.stack, 0, &mut self.own);
        check(&mut self.stack, slot_of(other.home, 0), &mut other.app);
    }
}
