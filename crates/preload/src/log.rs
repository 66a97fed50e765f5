//! What the library has to say goes to stderr, each line once.

use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Says that something is not as it should be.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    ::log::warn!(target: "preload", "{text}");
}

/// Calls on our sockets that are not supported. Each is told once.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Unsupported {
    Option,
    Flags,
    Async,
    /// What io_uring has.
    Ring,
}

/// Says, once, that an option is of none.
pub(crate) fn no_effect(level: c_int, name: c_int) {
    unsupported(
        Unsupported::Option,
        format_args!("setsockopt(level {level}, option {name}), which has no effect,"),
    );
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
