//! The state of the set-up part, which is the stack's, not a connection's.

use std::io;

use crate::config::Config;
use crate::tcp::setup::cookie::Cookies;
use crate::tcp::setup::half_open::HalfOpens;
use crate::tcp::setup::listen::Listeners;
use crate::tcp::setup::syn_offload::Answers;

/// What passive opens need besides what all share.
#[derive(Debug)]
pub(crate) struct SetupState {
    pub listeners: Listeners,
    pub half_open: HalfOpens,
    pub cookies: Cookies,
    /// What the link answers SYNs with, if it does.
    pub answers: Option<Answers>,
}

impl SetupState {
    pub fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            listeners: Listeners::new(config)?,
            half_open: HalfOpens::new(config)?,
            cookies: Cookies::new(config.inherited_secret()),
            answers: None,
        })
    }
}
