//! The TCP/IP stack: pure and deterministic. No clock, no thread, no system call, no lock, no unsafe.
//!
//! Start at [`Stack`], whose documentation is the whole contract.
#![forbid(unsafe_code)]

pub mod command;
pub mod config;
pub mod error;
pub mod event;
pub mod id;
pub mod info;

pub use command::{Command, Reply};
pub use config::Config;
pub use error::Error;
pub use event::{Event, Ready};
pub use id::{ConnId, ListenerId, PortId, Token};
pub use info::TcpInfo;
pub use ring::stream::{AppStreams, Status};
