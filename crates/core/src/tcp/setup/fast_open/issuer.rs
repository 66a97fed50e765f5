//! What Fast Open means for a connection, and the cookies that we hand out (RFC 7413 §4.1.2).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use wire::tcp::FastOpenCookie;
use wire::time::Instant;

use crate::secret::keyed;

/// A cookie is good in the period in which it was made and in the next; then its owner is given
/// another (RFC 7413 §4.1.2).
const KEY_LIFETIME_SECONDS: u64 = 3600;

/// What Fast Open means for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) enum FastOpen {
    #[default]
    Off,
    /// Passive: opened by a cookie; the handshake is not complete. The cookie was made with the
    /// last key but one.
    Pending { outdated: bool },
    /// Active: the SYN asks for a cookie.
    Asking,
    /// Active: there is a cookie; the SYN waits for the first bytes.
    Waiting,
    /// Active: the SYN takes the cookie and the first bytes along.
    Sending,
}

impl FastOpen {
    /// Whether the connection is one that we open, with it.
    pub fn is_client(self) -> bool {
        matches!(self, Self::Asking | Self::Waiting | Self::Sending)
    }
}

/// What a host of this name proves by a cookie: that it can receive at its address.
pub(crate) struct Issuer {
    hasher: SipHasher13,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / (KEY_LIFETIME_SECONDS * 1_000_000_000)
}

impl Issuer {
    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            hasher: keyed(secret, "fast open cookies"),
        }
    }

    /// The cookie of a host.
    pub fn issue(&self, now: Instant, host: IpAddr) -> FastOpenCookie {
        self.cookie(period(now), host)
    }

    /// RFC 7413 §4.1.2-1.
    fn cookie(&self, period: u64, host: IpAddr) -> FastOpenCookie {
        let mut hasher = self.hasher;
        hasher.write_u64(period);
        host.hash(&mut hasher);
        FastOpenCookie::new(&hasher.finish().to_be_bytes()).unwrap_or_default()
    }

    /// What a connection with this cookie is, if the cookie is the host's.
    /// RFC 7413 §4.1.2-2.
    pub fn check(&self, now: Instant, host: IpAddr, cookie: &FastOpenCookie) -> Option<FastOpen> {
        let period = period(now);
        if *cookie == self.cookie(period, host) {
            return Some(FastOpen::Pending { outdated: false });
        }
        let last = period.checked_sub(1)?;
        (*cookie == self.cookie(last, host)).then_some(FastOpen::Pending { outdated: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7413 §4.1.2-1, §4.1.2-2.
    #[test]
    fn a_cookie_is_for_one_host_and_two_periods() {
        let issuer = Issuer::new(&[7; 32]);
        let host = |n: u8| IpAddr::from([10, 0, 0, n]);
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let cookie = issuer.issue(at(100), host(1));
        assert_eq!(cookie.as_bytes().len(), 8);
        let check = |seconds, host| issuer.check(at(seconds), host, &cookie);
        let pending = |outdated| Some(FastOpen::Pending { outdated });
        assert_eq!(check(100, host(1)), pending(false));
        assert_eq!(check(3599, host(1)), pending(false));
        assert_eq!(check(3600, host(1)), pending(true));
        assert_eq!(check(7200, host(1)), None);
        assert_eq!(check(100, host(2)), None);
        let other = Issuer::new(&[8; 32]);
        assert_eq!(other.check(at(100), host(1), &cookie), None);
        assert_eq!(
            issuer.check(at(100), host(1), &FastOpenCookie::REQUEST),
            None
        );
    }
}
