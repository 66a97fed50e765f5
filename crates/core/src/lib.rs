//! The TCP/IP stack: pure and deterministic. No clock, no thread, no system call, no lock, no
//! unsafe.
//!
//! Start at [`Stack`], whose documentation is the whole contract.
#![forbid(unsafe_code)]

mod arena;
mod array;
mod arrivals;
mod cc;
pub mod command;
pub mod config;
pub mod counters;
pub mod deferral;
pub mod drops;
pub mod error;
mod estate;
pub mod event;
mod flow;
mod handover;
mod homes;
mod icmp;
pub mod id;
pub mod info;
mod ip;
mod limit;
mod list;
mod listing;
mod lowest;
mod neigh;
mod ports;
mod secret;
mod side_pool;
mod snapshot;
pub mod stack;
mod tcp;
pub mod testament;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod udp;
mod usage;
mod wheel;

pub use arrivals::Arrivals;
pub use command::{Command, Connect, Opened, Reply};
pub use config::Config;
pub use counters::Counters;
pub use drops::DropReason;
pub use error::Error;
pub use estate::Holdings;
pub use event::{Event, Ready};
pub use flow::FlowKey;
pub use id::{ConnId, ListenerId, OptionsId, PortId, Token};
pub use info::TcpInfo;
pub use ip::link_local;
pub use limit::RateLimiter;
pub use listing::{ListLimits, ListedSocket};
pub use neigh::cache::Told;
pub use ring::stream::{AppStreams, Status, Urgent};
pub use snapshot::Snapshot;
pub use stack::Stack;
pub use tcp::Acks;
pub use testament::{LAYOUT, Testament};
pub use usage::{Undelivered, Usage};
