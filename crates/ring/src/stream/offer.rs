//! Who takes a connection that a program was told of and has not accepted: the program, or the
//! stack, which gives it to another one. A byte of the memory that both see decides it, once.

use crate::sync::AtomicU8;
use crate::sync::Ordering::{AcqRel, Acquire, Release};

use super::record::Record;

/// The program may take it; so may the stack.
const OFFERED: u8 = 3;
/// The program has it.
const TAKEN: u8 = 4;
/// The stack has taken it back.
const WITHDRAWN: u8 = 5;

/// The byte: what the stack keeps in it for itself is in its own record.
#[inline(always)]
fn word(seen: &Record) -> &AtomicU8 {
    &seen.stack.open
}

/// The stack: from now on the program may take what is in the slot.
pub(super) fn offer(seen: &Record) {
    word(seen).store(OFFERED, Release);
}

/// The program takes it. False: the stack has taken it back.
#[inline(always)]
pub(super) fn take(record: &Record) -> bool {
    let before = word(record).compare_exchange(OFFERED, TAKEN, AcqRel, Acquire);
    // Where the stack is in this process, nothing is taken back.
    before != Err(WITHDRAWN)
}

/// The stack takes it back. False: the program has taken it.
pub(super) fn withdraw(seen: &Record) -> bool {
    let before = word(seen).compare_exchange(OFFERED, WITHDRAWN, AcqRel, Acquire);
    before.is_ok() || before == Err(WITHDRAWN)
}

/// The program: the stack has taken it back.
#[inline(always)]
pub(super) fn is_withdrawn(record: &Record) -> bool {
    word(record).load(Acquire) == WITHDRAWN
}
