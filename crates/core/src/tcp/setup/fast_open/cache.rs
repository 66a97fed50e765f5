//! What is known of the servers that we opened connections to: their cookies (RFC 7413 §4.1.3), and
//! whether something on the way swallows SYNs that carry more than usual (§4.1.3.1). Bounded: a
//! server of which nothing is known is asked again.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip::SipHasher13;
use wire::tcp::FastOpenCookie;
use wire::time::Instant;

use crate::secret::keyed;
use crate::tcp::setup::fast_open::issuer::FastOpen;

/// Places for servers: in each bucket the oldest makes room.
const BUCKETS: usize = 256;
const WAYS: usize = 4;
/// How long Fast Open is not tried towards a server after a SYN was lost; doubled with each loss in
/// a row, up to four hours.
const FIRST_BAN: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Server {
    addr: IpAddr,
    /// A request, if there is none.
    cookie: FastOpenCookie,
    /// What its SYN-ACK said, bytes.
    mss: u16,
    /// SYNs lost in a row.
    losses: u32,
    banned_until: Instant,
    used_at: Instant,
}

/// See the module.
pub(crate) struct CookieCache {
    hasher: SipHasher13,
    /// Empty until the first cookie comes.
    servers: Vec<Option<Server>>,
}

impl fmt::Debug for CookieCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("CookieCache")
            .field("servers", &self.servers.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

impl CookieCache {
    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            hasher: keyed(secret, "fast open servers"),
            servers: Vec::new(),
        }
    }

    fn bucket(&self, addr: IpAddr) -> std::ops::Range<usize> {
        let mut hasher = self.hasher;
        addr.hash(&mut hasher);
        let first = hasher.finish() as usize % BUCKETS * WAYS;
        first..first + WAYS
    }

    fn find(&self, addr: IpAddr) -> Option<&Server> {
        let bucket = self.servers.get(self.bucket(addr))?;
        bucket.iter().flatten().find(|server| server.addr == addr)
    }

    /// How a connection to `addr` begins.
    pub fn advise(&self, now: Instant, addr: IpAddr) -> FastOpen {
        match self.find(addr) {
            Some(server) if now < server.banned_until => FastOpen::Off,
            Some(server) if !server.cookie.is_request() => FastOpen::Waiting,
            _ => FastOpen::Asking,
        }
    }

    /// The cookie of `addr`.
    pub fn cookie(&self, addr: IpAddr) -> Option<FastOpenCookie> {
        self.find(addr).map(|server| server.cookie)
    }

    /// The MSS that `addr` offered last.
    pub fn mss(&self, addr: IpAddr) -> Option<u16> {
        self.find(addr).map(|server| server.mss)
    }

    /// A SYN-ACK came from `addr`, with a cookie or without.
    /// RFC 7413 §4.1.3-1.
    pub fn learn(&mut self, now: Instant, addr: IpAddr, cookie: Option<FastOpenCookie>, mss: u16) {
        let cookie = cookie.filter(|cookie| !cookie.is_request());
        if let Some(server) = self.entry(now, addr) {
            server.mss = mss;
            server.cookie = cookie.unwrap_or(server.cookie);
            server.losses = 0;
        }
    }

    /// A SYN with the option was lost and one without it answered, or the server does not take the
    /// data. RFC 7413 §4.1.3.1-1, §4.1.3.1-2.
    pub fn note_loss(&mut self, now: Instant, addr: IpAddr) {
        if let Some(server) = self.entry(now, addr) {
            let ban = FIRST_BAN * (1 << server.losses.min(MAX_DOUBLINGS));
            server.banned_until = now + ban;
            server.losses += 1;
        }
    }

    /// The entry of `addr`, in the place of the one used longest ago if it is new.
    fn entry(&mut self, now: Instant, addr: IpAddr) -> Option<&mut Server> {
        self.servers.resize(BUCKETS * WAYS, None);
        let range = self.bucket(addr);
        let bucket = self.servers.get_mut(range)?;
        let known = bucket
            .iter()
            .position(|server| server.is_some_and(|server| server.addr == addr));
        let oldest = (0..WAYS).min_by_key(|&i| bucket.get(i).copied().flatten().map(|s| s.used_at));
        let place = bucket.get_mut(known.or(oldest)?)?;
        let fresh = Server {
            addr,
            cookie: FastOpenCookie::REQUEST,
            mss: 0,
            losses: 0,
            banned_until: Instant::ZERO,
            used_at: now,
        };
        if known.is_none() {
            *place = Some(fresh);
        }
        let server = place.as_mut()?;
        server.used_at = now;
        Some(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    /// RFC 7413 §4.1.3-1.
    #[test]
    fn cookies_are_remembered() {
        let mut cache = CookieCache::new(&[1; 32]);
        assert_eq!(cache.advise(at(0), host(1)), FastOpen::Asking);
        let cookie = FastOpenCookie::new(&[1; 8]);
        cache.learn(at(0), host(1), cookie, 1000);
        assert_eq!(cache.advise(at(1), host(1)), FastOpen::Waiting);
        assert_eq!(cache.cookie(host(1)), cookie);
        assert_eq!(cache.advise(at(1), host(2)), FastOpen::Asking);
        // A SYN-ACK without a cookie does not take the old one away.
        cache.learn(at(2), host(1), None, 1200);
        assert_eq!(
            (cache.cookie(host(1)), cache.mss(host(1))),
            (cookie, Some(1200))
        );
    }

    #[test]
    fn losses_ban_ever_longer() {
        let mut cache = CookieCache::new(&[1; 32]);
        let mut now = 0;
        for ban in [60, 120, 240, 480, 960, 1920, 3840, 7680, 15_360, 15_360] {
            cache.note_loss(at(now), host(1));
            assert_eq!(cache.advise(at(now + ban - 1), host(1)), FastOpen::Off);
            assert_eq!(cache.advise(at(now + ban), host(1)), FastOpen::Asking);
            now += ban;
        }
        cache.learn(at(now), host(1), None, 1000);
        cache.note_loss(at(now), host(1));
        assert_eq!(cache.advise(at(now + 60), host(1)), FastOpen::Asking);
    }

    #[test]
    fn it_is_bounded_and_the_oldest_go_first() {
        let mut cache = CookieCache::new(&[1; 32]);
        let cookie = FastOpenCookie::new(&[1; 8]);
        for n in 0..100_000 {
            cache.learn(at(n.into()), host(n), cookie, 1000);
        }
        assert_eq!(cache.servers.len(), BUCKETS * WAYS);
        assert_eq!(cache.cookie(host(99_999)), cookie);
        assert_eq!(cache.cookie(host(0)), None);
    }
}
