//! Neighbours on the link: their hardware addresses (one cache for ARP and Neighbor Discovery), and
//! the claim to our own addresses.

pub mod announce;
pub mod arp;
pub mod cache;
mod guests;
pub mod ndp;
