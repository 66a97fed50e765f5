//! A program that is connected, as the daemon knows it.

use std::os::fd::OwnedFd;

use crate::policy::{Budget, Credentials};

/// A program that is connected, by a number that no other gets in this daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What the daemon knows of a program, from the kernel.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub id: ClientId,
    /// Who it is.
    pub credentials: Credentials,
    /// Its process, where the kernel gives it (Linux 6.5).
    pub pidfd: Option<OwnedFd>,
    /// What it may have, as of when it attached.
    pub budget: Budget,
    /// The name of its program, for people: it may be any.
    pub command: String,
}
