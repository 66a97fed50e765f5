//! What the library has to say goes to stderr, each line once.

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes one line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut buffer = Vec::with_capacity(128);
    // Writing to memory cannot fail; nobody may be reading what follows.
    let _ = writeln!(buffer, "mtcp: {text}");
    // SAFETY: the buffer's own bytes.
    let _ = unsafe { crate::real::write(2, buffer.as_ptr().cast(), buffer.len()) };
}

/// Calls on our sockets that are not supported. Each is told once.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Unsupported {
    Option,
    Flags,
    Async,
}

/// Says, once, that a call is not supported.
pub(crate) fn unsupported(what: Unsupported, text: fmt::Arguments<'_>) {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << what as u8;
    if TOLD.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        line(format_args!(
            "{text} is not supported on a socket of the stack"
        ));
    }
}
