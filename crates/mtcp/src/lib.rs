//! The runtime: sockets, epoll and pipes of one thread on one stack.
//!
//! [`Mtcp::init`] opens the interface; [`Mtcp::context`] makes one [`Context`] per core, which is
//! then used by one thread. A context is driven in one of two modes ([`config::Mode`]): *inline*,
//! where its blocking calls run the stack on the calling thread, or *paired*, where a thread stands
//! in for it while it makes none. An application cannot tell which, except by speed.

mod affinity;
mod assembly;
mod calls;
mod claim;
mod clock;
mod coalescing;
pub mod config;
mod context;
mod daemon;
mod driver;
pub mod epoll;
mod errno;
pub mod executor;
pub mod filter;
pub mod interfaces;
pub mod kernel;
mod knowledge;
mod lease;
mod link;
mod pipe;
pub mod posix;
mod prepared;
mod runner;
mod runtime;
pub mod service;
mod settings;
mod setup_error;
pub mod signals;
pub mod slab;
pub mod socket;
mod stats;
mod testaments;
mod transport;
mod wake;
mod wall;

pub use ::io::privileges;
pub use ::io::shm::Owners;
pub use clock::VirtualClock;
pub use config::{Config, IoSpec, Mode};
pub use context::{Context, Waiter};
pub use daemon::{find_daemon, settings_for_programs, take_daemon, use_door};
pub use epoll::{Ctl, EpollEvent, Events, Interest};
pub use errno::{Errno, Result};
pub use executor::Executor;
pub use mtcp_core::config::CongestionControl;
pub use mtcp_core::info::{EcnInfo, LossState, RateInfo, State};
pub use mtcp_core::{TcpInfo, Undelivered};
pub use prepared::{Prepared, try_out};
pub use runtime::{Mtcp, Report, in_virtual_time};
pub use setup_error::SetupError;
pub use socket::{
    Domain, How, Kind, MtuDiscovery, OptionName, RecvFlags, SendFlags, SocketId, SocketOption,
    SourceRange,
};
pub use stats::Snapshot;
pub use wake::WakeHandle;

/// The Rust program of README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
