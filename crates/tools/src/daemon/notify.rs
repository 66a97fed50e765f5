//! What a supervisor is told (sd_notify(3)): a datagram of lines to the socket that it names.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto};
use rustix::time::{ClockId, clock_gettime};

/// How long a supervisor that does not read is waited for.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// A supervisor, or none.
#[derive(Debug, Default)]
pub(super) struct Notify {
    to: Option<(OwnedFd, SocketAddrUnix)>,
    /// How often it wants to hear that we live, and when it is next told.
    watchdog: Option<(Duration, Instant)>,
}

impl Notify {
    /// As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say.
    pub(super) fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_for_us =
            number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let interval = number("WATCHDOG_USEC").filter(|usec| is_for_us && *usec > 0);
        match open(&name) {
            Ok(to) => Self {
                to: Some(to),
                watchdog: interval.map(|usec| (half(usec), Instant::now())),
            },
            Err(error) => {
                log::warn!(
                    "cannot notify the supervisor at {}: {error}",
                    name.display()
                );
                Self::default()
            }
        }
    }

    /// Programs are served.
    pub(super) fn ready(&self) {
        self.say("READY=1", SendFlags::empty());
    }

    /// Settings are read again, until [`Notify::ready`].
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        let lines = format!("RELOADING=1\nMONOTONIC_USEC={usec}");
        self.say(&lines, SendFlags::empty());
    }

    /// It ends.
    pub(super) fn stopping(&self) {
        self.say("STOPPING=1", SendFlags::empty());
    }

    /// What it does, for people.
    pub(super) fn status(&self, text: &str) {
        self.say(&format!("STATUS={text}"), SendFlags::DONTWAIT);
    }

    /// Says that we live if that is due; until when it is again.
    pub(super) fn alive(&mut self, now: Instant) -> Option<Duration> {
        let (interval, due) = self.watchdog?;
        if now < due {
            return Some(due - now);
        }
        self.say("WATCHDOG=1", SendFlags::DONTWAIT);
        self.watchdog = Some((interval, now + interval));
        Some(interval)
    }

    /// What is said once must arrive, though the supervisor has not read what came before; what is
    /// said again anyhow need not.
    fn say(&self, lines: &str, flags: SendFlags) {
        let Some((socket, address)) = &self.to else {
            return;
        };
        let flags = flags | SendFlags::NOSIGNAL;
        if let Err(error) = sendto(socket, lines.as_bytes(), flags, address) {
            log::warn!("the supervisor cannot be notified: {error}");
        }
    }
}

/// In time, twice over.
fn half(usec: u64) -> Duration {
    Duration::from_micros(usec.div_ceil(2))
}

fn open(name: &OsStr) -> rustix::io::Result<(OwnedFd, SocketAddrUnix)> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddrUnix::new_abstract_name(rest)?,
        [b'/', ..] => SocketAddrUnix::new(name)?,
        _ => return Err(rustix::io::Errno::AFNOSUPPORT),
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
    Ok((socket, address))
}
