//! What C programs hand over and expect back: addresses, buffers, socket options and
//! `struct tcp_info` as Linux lays them out. For the crates that give this runtime a C interface.

pub mod address;
pub mod call;
pub mod memory;
pub mod option_table;
pub mod options;
pub mod tcp_info;
