//! Ports: where frames come from and go to.
//!
//! One trait, [`Port`], on bursts; backends (shared-memory link, TAP, AF_XDP, AF_PACKET, in-process
//! simulation) and wrappers (pcap, fault). Neither this crate nor the stack knows the other: the
//! words both use are in [`wire::frame`].

pub mod absent;
pub mod any;
mod checksum;
mod claim;
mod classic_bpf;
mod context;
pub mod fault;
pub mod loopback;
mod mapping;
pub mod netlink;
mod ours;
mod overhear;
pub mod packet;
mod packet_socket;
pub mod pcap;
pub mod poll;
pub mod port;
pub mod privileges;
pub mod shm;
pub mod sim;
mod sys;
pub mod tap;
mod virtio;
pub mod xdp;

pub use any::{AnyLink, AnyPort};
pub use claim::{Holder, holder, in_use};
pub use port::{Coalesce, Port};
