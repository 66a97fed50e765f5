//! Lists of operations on several slots, against queues of bytes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 3;

#[derive(Debug, Clone)]
enum Op {
    Place { offset: u32, len: u32 },
    Commit,
    Read(u32),
    Write(u32),
    Peek { offset: u32, len: u32 },
    Consume(u32),
    Trim,
    Sweep(usize),
    Limits(Limits),
    NewLife { close: bool },
    Replace,
}

/// Mostly segments; sometimes enough to grow a few times.
fn len() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..1500, 2 => 0u32..10_000, 1 => 0u32..60_000]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop_oneof![2 => Just(0), 1 => len()], len()).prop_map(|(offset, len)| Op::Place { offset, len }),
        5 => Just(Op::Commit),
        5 => len().prop_map(Op::Read),
        6 => len().prop_map(Op::Write),
        2 => (len(), len()).prop_map(|(offset, len)| Op::Peek { offset, len }),
        5 => len().prop_map(Op::Consume),
        2 => Just(Op::Trim),
        1 => (0usize..4).prop_map(Op::Sweep),
        1 => (len(), len()).prop_map(|(recv, send)| Op::Limits(limits(recv, send))),
        1 => any::<bool>().prop_map(|close| Op::NewLife { close }),
        1 => Just(Op::Replace),
    ]
}

/// What a slot should hold.
#[derive(Debug, Default)]
struct Model {
    unread: VecDeque<u8>,
    /// After the unread ones, with holes.
    ahead: VecDeque<Option<u8>>,
    unsent: VecDeque<u8>,
    recv_limit: u32,
    send_limit: u32,
}

struct World {
    stack: StackStreams,
    app: AppStreams,
    /// The stack's number of the application's slot 0.
    base: u32,
    /// Where the streams are, if another process may have them.
    memory: Option<HomeMemory>,
    pool_kib: u32,
    models: Vec<Model>,
    counter: u32,
}

impl World {
    fn new(pool_kib: u32) -> Self {
        let (stack, app) = pair(SLOTS, pool_kib);
        Self::of(stack, app, 0, None, pool_kib)
    }

    /// The application is in another process, as far as the stack can tell.
    #[cfg(not(miri))]
    fn with_home(pool_kib: u32) -> Self {
        let mut stack = super::homes::stack(2);
        let program = super::homes::Program::new(&mut stack, SLOTS, pool_kib);
        let base = program.slot(0);
        Self::of(stack, program.app, base, Some(program.memory), pool_kib)
    }

    fn of(
        stack: StackStreams,
        app: AppStreams,
        base: u32,
        memory: Option<HomeMemory>,
        pool_kib: u32,
    ) -> Self {
        let mut world = Self {
            stack,
            app,
            base,
            memory,
            pool_kib,
            models: Vec::new(),
            counter: 0,
        };
        for slot in 0..SLOTS {
            world.models.push(Model::default());
            world.open(slot);
        }
        world
    }

    fn open(&mut self, slot: u32) {
        let limit = 40_000;
        let (stack, at) = self.stack(slot);
        stack.open(at, limits(limit, limit)).unwrap();
        self.models[slot as usize] = Model {
            recv_limit: limit,
            send_limit: limit,
            ..Model::default()
        };
    }

    /// The stack, turned to a slot, and its number. What it has changed before is shown.
    fn stack(&mut self, slot: u32) -> (&mut StackStreams, u32) {
        let slot = self.base + slot;
        self.stack.show();
        self.stack.turn_to(slot);
        (&mut self.stack, slot)
    }

    fn app(&mut self) -> &mut AppStreams {
        self.stack.show();
        &mut self.app
    }

    fn bytes(&mut self, len: u32) -> Vec<u8> {
        self.counter += len;
        counting(self.counter, len)
    }

    fn place(&mut self, slot: u32, offset: u32, len: u32) {
        let bytes = self.bytes(len);
        let (stack, at) = self.stack(slot);
        let result = stack.write_at(at, offset, &bytes);
        let model = &mut self.models[slot as usize];
        let end = offset as usize + bytes.len();
        let fits = model.unread.len() + end <= model.recv_limit as usize;
        assert_eq!(result == Err(StreamError::BeyondLimit), !fits);
        if result.is_ok() {
            if model.ahead.len() < end && len > 0 {
                model.ahead.resize(end, None);
            }
            for (place, byte) in model.ahead.iter_mut().skip(offset as usize).zip(bytes) {
                *place = Some(byte);
            }
        }
    }

    fn commit(&mut self, slot: u32) {
        let model = &mut self.models[slot as usize];
        let n = model.ahead.iter().take_while(|byte| byte.is_some()).count();
        model.unread.extend(model.ahead.drain(..n).flatten());
        let (stack, at) = self.stack(slot);
        stack.commit(at, n as u32);
    }

    fn read(&mut self, slot: u32, len: u32) {
        let model = &mut self.models[slot as usize];
        let n = model.unread.len().min(len as usize);
        let expected: Vec<u8> = model.unread.drain(..n).collect();
        let mut bytes = vec![0; len as usize];
        assert_eq!(self.app().peek(slot, &mut bytes), n);
        assert_eq!(bytes[..n], expected);
        bytes.fill(0);
        assert_eq!(self.app.read(slot, &mut bytes), n);
        assert_eq!(bytes[..n], expected);
    }

    fn write(&mut self, slot: u32, len: u32) {
        let bytes = self.bytes(len);
        let promised = self.app().writable(slot);
        let n = self.app.write(slot, &bytes);
        let model = &mut self.models[slot as usize];
        let room = (model.send_limit as usize).saturating_sub(model.unsent.len());
        assert!(n <= room.min(bytes.len()));
        assert!(promised as usize <= room);
        assert!(n > 0 || promised == 0 || len == 0);
        model.unsent.extend(&bytes[..n]);
    }

    fn peek(&mut self, slot: u32, offset: u32, len: u32) {
        let expected: Vec<u8> = self.models[slot as usize]
            .unsent
            .iter()
            .copied()
            .skip(offset as usize)
            .take(len as usize)
            .collect();
        let (stack, at) = self.stack(slot);
        assert_eq!(joined(stack.peek(at, offset, len)), expected);
    }

    fn consume(&mut self, slot: u32, n: u32) {
        let unsent = &mut self.models[slot as usize].unsent;
        unsent.drain(..unsent.len().min(n as usize));
        let (stack, at) = self.stack(slot);
        stack.consume(at, n);
    }

    fn new_life(&mut self, slot: u32, close: bool) {
        self.app().release(slot);
        if close {
            let (stack, at) = self.stack(slot);
            assert!(stack.close(at));
        }
        self.open(slot);
    }

    /// Another stack goes on, and another application where it is in the same process.
    fn replace(&mut self) {
        if self.memory.is_some() {
            return self.replace_stack();
        }
        let (stack, app) = (&self.stack, &mut self.app);
        let saved: Vec<_> = (0..SLOTS)
            .filter_map(|slot| save_stream(stack, app, slot))
            .collect();
        assert_eq!(saved.len(), SLOTS as usize);
        let (mut stack, mut app) = pair(SLOTS, self.pool_kib);
        restore_streams(&mut stack, &mut app, &saved).unwrap();
        let again = restore_streams(&mut stack, &mut app, &saved);
        assert_eq!(again, Err(StreamError::Held));
        (self.stack, self.app) = (stack, app);
    }

    fn replace_stack(&mut self) {
        let saved = self.stack.homes().save();
        let memory = self.memory.as_ref().unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        let memory = HomeMemory::found(fd, &memory.plan()).unwrap();
        let mut stack = super::homes::stack(2);
        stack.homes().restore(&saved[0], &memory).unwrap();
        (self.stack, self.memory) = (stack, Some(memory));
    }

    fn set_limits(&mut self, slot: u32, limits: Limits) {
        let (stack, at) = self.stack(slot);
        stack.set_recv_limit(at, limits.recv);
        stack.set_send_limit(at, limits.send);
        let model = &mut self.models[slot as usize];
        (model.recv_limit, model.send_limit) = (limits.recv, limits.send);
    }

    fn apply(&mut self, slot: u32, op: Op) {
        let out_of_order = !self.models[slot as usize].ahead.is_empty();
        match op {
            Op::Place { offset, len } => self.place(slot, offset, len),
            Op::Commit => self.commit(slot),
            Op::Read(len) => self.read(slot, len),
            Op::Write(len) => self.write(slot, len),
            Op::Peek { offset, len } => self.peek(slot, offset, len),
            Op::Consume(n) => self.consume(slot, n),
            Op::Trim => {
                let (stack, at) = self.stack(slot);
                stack.trim(at, out_of_order);
                self.app().trim(slot);
            }
            Op::Sweep(budget) => {
                self.stack.sweep(budget);
                self.app().sweep(budget);
            }
            Op::Limits(limits) => self.set_limits(slot, limits),
            Op::NewLife { close } => self.new_life(slot, close),
            Op::Replace => self.replace(),
        }
        self.check(slot);
    }

    fn check(&mut self, slot: u32) {
        let model = &self.models[slot as usize];
        let (unread, unsent) = (model.unread.len() as u32, model.unsent.len() as u32);
        let free = model.recv_limit.saturating_sub(unread);
        let (stack, at) = self.stack(slot);
        assert_eq!(
            (
                stack.recv_unread(at),
                stack.send_len(at),
                stack.recv_free(at)
            ),
            (unread, unsent, free)
        );
        let app = self.app();
        assert_eq!((app.readable(slot), app.unsent(slot)), (unread, unsent));
    }

    /// Everything comes out, and then nothing is held any more.
    fn drain(&mut self) {
        for slot in 0..SLOTS {
            self.commit(slot);
            self.read(slot, 1 << 20);
            self.peek(slot, 0, u32::MAX);
            self.consume(slot, u32::MAX);
            let (stack, at) = self.stack(slot);
            stack.trim(at, false);
        }
        self.stack.sweep(SLOTS as usize);
        self.app().sweep(SLOTS as usize);
        let (stack, at) = self.stack(0);
        assert_eq!(
            (stack.recv_pool(at).in_use, stack.recv_pool(at).buffers),
            (0, 0)
        );
        assert_eq!(
            (self.app.send_bytes_in_use(), self.app.send_buffers()),
            (0, 0)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn behaves_as_queues_of_bytes(pool_kib in prop_oneof![Just(16), Just(64), Just(2048)],
                                  ops in prop::collection::vec((0..SLOTS, op()), 1..150)) {
        let mut world = World::new(pool_kib);
        for (slot, op) in ops {
            world.apply(slot, op);
        }
        world.drain();
    }

    /// The same of streams that two processes may have.
    #[cfg(not(miri))]
    #[test]
    fn behaves_as_queues_of_bytes_in_memory_of_its_own(
        pool_kib in prop_oneof![Just(16), Just(64), Just(2048)],
        ops in prop::collection::vec((0..SLOTS, op()), 1..150),
    ) {
        let mut world = World::with_home(pool_kib);
        for (slot, op) in ops {
            world.apply(slot, op);
        }
        world.drain();
    }
}
