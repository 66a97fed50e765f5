//! TCP as a peer and an application see it, written from the RFCs.

mod acks;
mod active;
mod challenge;
mod close;
mod hostile;
mod keepalive;
mod listeners;
mod lists;
mod loss;
mod lossy;
mod messages;
mod nagle;
mod passive;
mod persist;
mod rack;
mod receive;
mod requirements;
mod sack;
mod stamps;
mod time_wait;
mod timeouts;
mod transfer;
mod unresolved;
mod window;
mod wrap;
