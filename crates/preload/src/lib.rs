//! `libmtcp_preload.so`: the socket calls of an unmodified program, over the stack.
//!
//! Loaded with `LD_PRELOAD` (by `mtcp run`), the library takes the place of the C library's calls.
//! A call on a descriptor that is none of ours goes on to the C library after one look at a table.
//! A TCP socket of the program is a real kernel socket, which keeps its number, its place in `dup`,
//! inheritance and `close`, and serves while nothing says that it is ours: `bind`, `connect` and
//! `listen` decide (`rules`). From then on its bytes go through the one stack of the process
//! (`engine`), which any thread may use under one lock, and which whoever waits drives (`wait`); a
//! background thread drives it when nobody waits (`background`).
//!
//! Without the settings of `mtcp run` in the environment the library does nothing.

// The manual pages of Linux say what each pointer must be.
#![allow(clippy::missing_safety_doc)]

mod address_space;
mod away;
mod background;
mod cancel;
mod carry;
mod children;
mod diagnostics;
mod door;
mod engine;
mod epolls;
mod executor;
mod exit;
mod handed_on;
mod handlers;
pub mod hooks;
mod inside;
mod kernel;
mod lent;
mod linger;
#[cfg(not(test))]
mod load;
mod lock;
mod log;
mod marks;
mod ourselves;
mod owner;
mod passed;
mod presence;
mod private;
mod process;
mod put_off;
mod queue;
mod real;
mod relay;
mod rights;
mod rules;
mod slots;
mod socket;
mod sockets;
mod stack;
mod streams;
mod told;
mod uring;
mod vigil;
mod wait;
mod waiters;
