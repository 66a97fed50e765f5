//! AF_XDP: frames straight from the driver, past the kernel's network stack.
//!
//! A small XDP program (`bpf/steer.bpf.c`) sends frames for our addresses to the AF_XDP socket of the queue they arrived on and
//! leaves all others to the kernel. It is attached through a link that ends with the process, however that ends.
//!
//! On a veth pair of one queue another (`bpf/letters.bpf.c`) copies them into our memory in traffic control, where the kernel is Linux 6.6 or
//! newer and hands none on to another processor before that (`rps_cpus`): that is less work for the kernel, and the other end keeps its segmentation.
//!
//! On a veth pair a third (`bpf/volley.bpf.c`) sends the frames of a turn in one call, where the kernel is Linux 6.15 or newer.
//!
//! What is said beside us and concerns us comes through packet sockets (`overhear`).
//!
//! [`XdpInterface::open`] attaches the program, binds a socket to every queue of the interface and hands out one [`XdpPort`] per
//! context. Needs `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`, Linux 5.9 or newer. Packets that no
//! frame holds, of more than 3822 bytes, lie in several (`parts`, Linux 6.6).

mod adopt;
mod attach;
mod bundles;
mod checksum;
mod config;
mod error;
mod filter;
mod follow;
mod interface;
mod lanes;
mod letters;
mod mapping;
mod overhear;
mod parts;
mod port;
mod prepared;
mod probe;
mod program;
mod queue;
mod resources;
mod retake;
mod rings;
mod socket;
mod syn_offload;
mod umem;
mod volley;

pub use config::{AttachMode, ChecksumPolicy, XdpConfig, ZeroCopy};
pub use interface::XdpInterface;
pub use port::XdpPort;
pub use prepared::{XdpPrepared, longest_packet};
pub use program::{Attachment, Mode};
