//! AF_XDP: frames straight from the driver, past the kernel's network stack.
//!
//! A small XDP program (`bpf/steer.bpf.c`) sends frames for our addresses to the AF_XDP socket of
//! the queue they arrived on and leaves all others to the kernel. It is attached through a link
//! that ends with the process, however that ends.
//!
//! Where the kernel has our addresses, too, another program (`bpf/host.bpf.c`) takes those of their
//! frames that are the stack's (`steering`).
//!
//! On a veth pair with one queue, a program in traffic control (`bpf/tc_ring.bpf.c`, Linux 6.6)
//! copies frames into a ring of ours instead: the kernel then does less, and the other end keeps
//! its segmentation. It is not used where the kernel spreads received frames over processors
//! (`rps_cpus`), since that happens before traffic control.
//!
//! On a veth pair a third program (`bpf/tx_batch.bpf.c`, Linux 6.15) sends the frames of a turn in
//! one system call.
//!
//! What is said beside us and concerns us comes through packet sockets (`overhear`).
//!
//! [`XdpInterface::open`] attaches the program, binds a socket to every queue of the interface and
//! hands out one [`XdpPort`] per context. Needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`, Linux
//! 5.9 or newer. Packets that no frame holds, of more than 3822 bytes, lie in several (`parts`,
//! Linux 6.6).

mod adopt;
mod attach;
mod checksum;
mod config;
mod error;
mod follow;
mod frame_rings;
mod gso;
mod interface;
mod parts;
mod port;
mod prepared;
mod program;
mod queue;
mod resources;
mod retake;
mod rings;
mod socket;
mod steering;
mod syn_offload;
mod tc_ring;
mod tx_batch;
mod umem;

pub use config::{AttachMode, ChecksumPolicy, XdpConfig, ZeroCopy};
pub use interface::XdpInterface;
pub use port::XdpPort;
pub use prepared::{XdpPrepared, longest_packet};
pub use program::{Attachment, Mode};
