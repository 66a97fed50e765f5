//! Stacks that others take the place of, as far as the peer and the application can tell: never.

use std::io;

use ring::stream::{AppStreams, HomeMemory};
use wire::steering::Steering;

use super::harness::Harness;
use super::homes::{Program, move_out};
use crate::{Snapshot, Stack};

/// The application is in another process from now on.
pub(crate) fn in_a_home(mut h: Harness) -> Harness {
    h.program = Some(move_out(&mut h.stack, &mut h.app));
    h
}

/// Another stack goes on, with what `h`'s has.
pub(crate) fn replace(h: &mut Harness) {
    let (mut stack, app) = restore(h, None);
    match &mut h.program {
        Some(program) => {
            stack.serve(program.home);
            program.own = app;
        }
        None => h.app = app,
    }
    h.stack = stack;
}

/// Another stack that goes on with what `h`'s has, by way of bytes, and this process's end of its
/// streams.
pub(crate) fn restore(h: &mut Harness, steering: Option<Box<dyn Steering>>) -> (Stack, AppStreams) {
    let own = match &mut h.program {
        Some(program) => &mut program.own,
        None => &mut h.app,
    };
    let bytes = bytes_of(h.stack.save(h.now, own));
    let snapshot: Snapshot = postcard::from_bytes(&bytes).expect("the same");
    let config = h.stack.tcp.shared.config.clone();
    let homes: Vec<_> = h.program.iter().map(again).collect();
    let restored = Stack::restore(config, snapshot, &homes, steering);
    restored.expect("a stack that goes on")
}

/// What another stack makes of a snapshot of `h`'s, whose bytes were changed on the way.
pub(crate) fn restore_changed(
    h: &mut Harness,
    change: impl FnOnce(&mut Vec<u8>),
) -> io::Result<Stack> {
    let mut bytes = bytes_of(h.stack.save(h.now, &mut h.app));
    change(&mut bytes);
    let snapshot = postcard::from_bytes(&bytes).map_err(io::Error::other)?;
    let config = h.stack.tcp.shared.config.clone();
    Ok(Stack::restore(config, snapshot, &[], None)?.0)
}

fn bytes_of(snapshot: io::Result<Snapshot>) -> Vec<u8> {
    let snapshot = snapshot.expect("a snapshot");
    postcard::to_extend(&snapshot, Vec::new()).expect("bytes")
}

/// The same memory, as another process gets it.
fn again(program: &Program) -> (u32, HomeMemory) {
    let memory = &program.memory;
    let fd = memory.fd().try_clone_to_owned().expect("a descriptor");
    let found = HomeMemory::found(fd, &memory.plan());
    (program.home, found.expect("the memory"))
}
