//! The limit of a send buffer: what it is at first, and what is left of it while a connection
//! idles.

use crate::command::Options;
use crate::config::Config;
use crate::tcp::buffers::limits;

/// The limit of a send buffer that is not to grow.
pub(super) const FIXED: u32 = u32::MAX;

/// Up to where the send buffer was raised at first, bytes; [`FIXED`] if it is not to grow.
pub(crate) fn send_limit(config: &Config, options: &Options) -> u32 {
    if config.autotune && options.send_buffer.is_none() {
        limits(config, options).send
    } else {
        FIXED
    }
}

/// What there is to say of most send limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// That of the options.
    First,
    /// This power of two.
    Grown(u8),
    /// It is not to grow.
    Fixed,
}

impl Limit {
    /// A send limit in a byte.
    pub fn of(limit: u32) -> Self {
        match limit {
            FIXED => Self::Fixed,
            limit if limit.is_power_of_two() => Self::Grown(limit.ilog2() as u8),
            _ => Self::First,
        }
    }

    /// The same as it was packed, of a connection whose limit was `first`.
    pub fn unpacked(self, first: u32) -> u32 {
        match self {
            Self::First => first,
            Self::Grown(bits) => 1 << (bits % 32),
            Self::Fixed => FIXED,
        }
    }
}
