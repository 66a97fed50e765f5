//! Limits of buffers and windows: what the application and the configuration ask for.

use std::time::Duration;

use ring::stream::Limits;

use crate::command::Options;
use crate::config::Config;

/// A shorter round trip is measured badly: an application that shares the processor takes bytes in
/// bursts.
pub(crate) const MIN_RTT: Duration = Duration::from_millis(1);
/// No connection grows to more than this part of a pool.
const POOL_SHARE: usize = 8;

/// The buffer limits that `options` ask for, within what `config` allows.
pub(crate) fn limits(config: &Config, options: &Options) -> Limits {
    Limits {
        recv: options
            .recv_buffer
            .unwrap_or(config.recv_buffer)
            .min(config.max_buffer),
        send: options
            .send_buffer
            .unwrap_or(config.send_buffer)
            .min(config.max_buffer),
    }
}

/// The largest window that may be offered, bytes.
pub(crate) fn window_clamp(options: &Options) -> u32 {
    options.window_clamp.unwrap_or(u32::MAX)
}

/// The window of a SYN, which is not scaled (RFC 7323 §2.2).
pub(crate) fn initial_receive_window(config: &Config, options: &Options) -> u16 {
    let limit = limits(config, options).recv.min(window_clamp(options));
    u16::try_from(limit).unwrap_or(u16::MAX)
}

/// The largest limit, bytes, that a connection gets without asking, of a pool of `pool` bytes.
pub(crate) fn most(max_buffer: u32, pool: usize) -> u32 {
    max_buffer.min(u32::try_from(pool / POOL_SHARE).unwrap_or(u32::MAX))
}

/// `bytes * part / whole`.
pub(crate) fn scale(bytes: u64, part: Duration, whole: Duration) -> u64 {
    let product = u128::from(bytes) * part.as_nanos();
    (product / whole.as_nanos().max(1)) as u64
}
