//! The two ends of a measurement, each a process of its own on a processor of its own: the same
//! code over the kernel's sockets and over mTCP's.

pub(crate) mod client;
pub(crate) mod flows;
pub(crate) mod hold;
pub(crate) mod latency;
pub(crate) mod outcome;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod usage;
pub(crate) mod work;
