//! AF_PACKET: packet sockets on an interface of any kind, for devices and kernels without XDP.
//!
//! A socket receives what its filter (`filter`) takes into a ring of memory that it shares with the
//! kernel (`ring`), and sends the frames of a turn in few system calls (`outgoing`). Before each
//! frame is a `virtio_net_hdr`: the kernel leaves checksums unfinished and segments joined, and
//! finishes and cuts ours where the device does not. Of several ports each has a socket; the kernel
//! spreads flows over them.
//!
//! The kernel has every frame, too. A program in traffic control (`behind_tap`, Linux 6.6) drops
//! ours behind the sockets; without it the kernel drops what is for none of its addresses, unless
//! it forwards.
//!
//! Needs `CAP_NET_RAW`, and `CAP_NET_ADMIN`, `CAP_BPF` and `CAP_PERFMON` for the program. The
//! interface is looked up in the network namespace of the thread that opens it.

mod behind_tap;
mod common;
mod filter;
mod outgoing;
mod port;
mod prepared;
mod ring;

pub use port::PacketPort;
pub use prepared::{PacketConfig, PacketPrepared};
