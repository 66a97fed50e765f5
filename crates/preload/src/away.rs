//! An interface that was removed, and is waited for. What its descriptors were is known, and what they become.

use mtcp::Context;

use crate::{private, wait};

/// How often to look whether it is there again, in nanoseconds.
const LOOK: u64 = 250_000_000;

/// Looks whether the interface of this stack is there again, if it is time for that: `look_at`, in nanoseconds; 0: it was there.
#[cold]
#[inline(never)]
pub(crate) fn await_interface(context: &mut Context, look_at: &mut u64) {
    if *look_at == 0 {
        private::sweep();
    }
    let now = wait::now();
    if now < *look_at {
        return;
    }
    *look_at = now + LOOK;
    // What was in the way of this one is in the way of the next, too, or is not.
    let _ = private::make(|| context.look_again());
    if !context.is_away() {
        *look_at = 0;
    }
}
