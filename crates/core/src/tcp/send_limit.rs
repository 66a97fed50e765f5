//! The limit of a send buffer, and what is left of it while a connection idles.

use crate::command::Options;
use crate::config::Config;
use crate::tcp::buffers::limits;

/// The send limit of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Autotune {
    /// Bytes; `u32::MAX` if it is not to grow.
    pub(super) send_limit: u32,
}

/// What there is to say of most send limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendLimit {
    /// That of the options.
    First,
    /// This power of two.
    Grown(u8),
    /// It is not to grow.
    Fixed,
}

impl Autotune {
    pub fn new(config: &Config, options: &Options) -> Self {
        Self {
            send_limit: Self::send_limit(config, options),
        }
    }

    pub(super) fn send_limit(config: &Config, options: &Options) -> u32 {
        if config.autotune && options.send_buffer.is_none() {
            limits(config, options).send
        } else {
            u32::MAX
        }
    }

    /// The send limit in a byte.
    pub fn packed_limit(&self) -> SendLimit {
        match self.send_limit {
            u32::MAX => SendLimit::Fixed,
            limit if limit.is_power_of_two() => SendLimit::Grown(limit.ilog2() as u8),
            _ => SendLimit::First,
        }
    }

    /// The same as it was packed, of one that has just been made.
    pub fn unpack_limit(&mut self, packed: SendLimit) {
        match packed {
            SendLimit::First => {}
            SendLimit::Grown(bits) => self.send_limit = 1 << (bits % 32),
            SendLimit::Fixed => self.send_limit = u32::MAX,
        }
    }
}
