//! The published attacks on TCP, one file per family: what an attacker can send is sent, and what
//! it must not achieve is looked at. docs/security.md is the list.

mod acks;
mod exhaustion;
mod forged;
mod injection;
mod numbers;
mod side_channel;
