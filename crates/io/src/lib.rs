//! Ports: where frames come from and go to.
//!
//! One trait, [`Port`], on bursts; backends (shared-memory link, TAP, AF_XDP, in-process simulation) and wrappers (pcap, fault).
//! Neither this crate nor the stack knows the other: the words both use are in [`wire::frame`].

pub mod port;

pub use port::Port;
