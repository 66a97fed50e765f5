//! Claiming our addresses when the stack comes up, and defending them.
//!
//! For IPv6 this is Duplicate Address Detection (RFC 4862 §5.4) that does not wait: an address is
//! in use at once, but advertised without the override flag until a second has passed without an
//! objection. For IPv4 it is one probe and two announcements (RFC 5227 §2.1, §2.3), in use at once
//! as well: addresses are configured by somebody who means it.
//!
//! Both RFCs would have us give up an address that somebody else turns out to have. An invented
//! objection could then take a server off its network; so the address stays in use, the conflict is
//! counted and told, and as long as the claim has not been made, it never will be: the entries that
//! others have for the earlier owner are left alone.

use std::net::IpAddr;
use std::time::Duration;

use wire::frame::MacAddr;
use wire::time::Instant;

use crate::id::PortId;
use crate::ip::Addresses;

/// RETRANS_TIMER (RFC 4861 §10), PROBE_WAIT (RFC 5227 §1.1): how long others have to object.
const OBJECTION: Duration = Duration::from_secs(1);
/// ANNOUNCE_INTERVAL (RFC 5227 §1.1).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// DEFEND_INTERVAL (RFC 5227 §1.1).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// A conflict about an address is told no more often, whoever the others are.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// What to tell the link about an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Does anybody else have it? (ARP probe, or a neighbour solicitation from the unspecified
    /// address)
    Probe,
    /// We have it. (gratuitous ARP, or an unsolicited neighbour advertisement)
    Claim,
}

/// Something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// On this port.
    pub port: PortId,
    /// About this address.
    pub addr: IpAddr,
    /// What.
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Claim {
    port: PortId,
    addr: IpAddr,
    /// Messages sent: 0 or 1 while the address is tentative.
    step: u8,
    due: Option<Instant>,
    defended: Option<Instant>,
    /// Who else has the address, if the application is to be told, and ...
    contested: Option<MacAddr>,
    /// ... when it was.
    told: Option<Instant>,
}

/// All our addresses and how far their claims are.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Claims {
    claims: Vec<Claim>,
    next: Option<Instant>,
    /// An address is contested, and the application is to be told.
    news: bool,
}

impl Claims {
    /// Every address, to be probed at once.
    pub fn new(addresses: &Addresses) -> Self {
        let claim = |(port, cidr): (PortId, wire::ip::Cidr)| Claim {
            port,
            addr: cidr.addr,
            step: 0,
            due: Some(Instant::ZERO),
            defended: None,
            contested: None,
            told: None,
        };
        let claims: Vec<_> = addresses.iter().map(claim).collect();
        let next = claims.first().map(|_| Instant::ZERO);
        Self {
            claims,
            next,
            news: false,
        }
    }

    /// No address: others claim them and defend them.
    pub fn none() -> Self {
        Self {
            claims: Vec::new(),
            next: None,
            news: false,
        }
    }

    /// Goes on with those claims of `before` that are about addresses here.
    pub fn restore(&mut self, before: &Self) {
        for claim in &mut self.claims {
            let mut known = before.claims.iter();
            let known = known.find(|known| (known.port, known.addr) == (claim.port, claim.addr));
            *claim = known.copied().unwrap_or(*claim);
        }
        self.next = self.claims.iter().filter_map(|claim| claim.due).min();
        self.news = before.news;
    }

    /// What is due next, one message per call.
    pub fn pop_due(&mut self, now: Instant) -> Option<Announcement> {
        if self.next? > now {
            return None;
        }
        let due = self
            .claims
            .iter_mut()
            .find(|claim| claim.due.is_some_and(|due| due <= now));
        let message = due.map(|claim| claim.step(now));
        if message.is_none() {
            self.next = self.claims.iter().filter_map(|claim| claim.due).min();
        }
        message
    }

    /// When [`pop_due`](Self::pop_due) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// An address that somebody else has, too, and who that is; each once a minute at most.
    #[inline]
    pub fn take_contested(&mut self, now: Instant) -> Option<(IpAddr, MacAddr)> {
        self.news.then(|| self.next_contested(now)).flatten()
    }

    #[cold]
    fn next_contested(&mut self, now: Instant) -> Option<(IpAddr, MacAddr)> {
        let claims = self.claims.iter_mut();
        let contested = claims.filter_map(|claim| claim.take_contested(now)).next();
        self.news = contested.is_some();
        contested
    }

    /// Whether others may still object to our having `addr`.
    pub fn is_tentative(&self, port: PortId, addr: IpAddr) -> bool {
        self.claims
            .iter()
            .any(|claim| claim.port == port && claim.addr == addr && claim.is_tentative())
    }

    /// Somebody else has `addr` too, which the caller counts. A claim not yet made is given up; one
    /// made before is repeated, but not often and for IPv4 only (RFC 5227 §2.4(b)).
    pub fn contest(&mut self, now: Instant, (port, addr): (PortId, IpAddr), by: MacAddr) {
        let is_it = |claim: &&mut Claim| claim.port == port && claim.addr == addr;
        let Some(claim) = self.claims.iter_mut().find(is_it) else {
            return;
        };
        if claim.may_tell(now) {
            claim.contested = Some(by);
            self.news = true;
        }
        let lately = |last: Instant| now.since(last) < DEFEND_INTERVAL;
        if claim.is_tentative() {
            claim.due = None;
            claim.step = 1;
        } else if addr.is_ipv4() && !claim.defended.is_some_and(lately) {
            claim.defended = Some(now);
            claim.due = Some(now);
            self.next = Some(now);
        }
    }
}

impl Claim {
    fn is_tentative(&self) -> bool {
        self.step < 2
    }

    fn may_tell(&self, now: Instant) -> bool {
        self.told
            .is_none_or(|told| now.since(told) >= TELL_INTERVAL)
    }

    fn take_contested(&mut self, now: Instant) -> Option<(IpAddr, MacAddr)> {
        let by = self.contested.take()?;
        self.told = Some(now);
        Some((self.addr, by))
    }

    fn step(&mut self, now: Instant) -> Announcement {
        let kind = if self.step == 0 {
            Kind::Probe
        } else {
            Kind::Claim
        };
        self.due = match self.step {
            0 => Some(now + OBJECTION),
            1 if self.addr.is_ipv4() => Some(now + ANNOUNCE_INTERVAL),
            _ => None,
        };
        self.step = self.step.saturating_add(1).min(3);
        Announcement {
            port: self.port,
            addr: self.addr,
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing::{cidr, config, interface};

    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn claims(addrs: &[&str]) -> Claims {
        Claims::new(&Addresses::new(&config(vec![interface(0, addrs)])).unwrap())
    }

    /// Everything that is said in the first minute, with the times in milliseconds.
    fn transcript(claims: &mut Claims, from: u64) -> Vec<(u64, String, Kind)> {
        let mut said = Vec::new();
        let mut now = Instant::from_millis(from);
        while let Some(due) = claims.next_deadline() {
            now = now.max(due);
            while let Some(Announcement { addr, kind, .. }) = claims.pop_due(now) {
                said.push((now.as_millis(), addr.to_string(), kind));
            }
        }
        said
    }

    #[test]
    fn ipv4_is_probed_then_announced_twice() {
        let a = || "10.0.0.1".to_string();
        let said = transcript(&mut claims(&["10.0.0.1/24"]), 500);
        assert_eq!(
            said,
            [
                (500, a(), Kind::Probe),
                (1_500, a(), Kind::Claim),
                (3_500, a(), Kind::Claim)
            ]
        );
    }

    #[test]
    fn ipv6_is_probed_and_claimed_when_nobody_objected() {
        let mut claims = claims(&["fe80::1/64"]);
        let (port, addr) = (PortId(0), "fe80::1".parse().unwrap());
        assert!(
            claims.is_tentative(port, addr)
                && !claims.is_tentative(port, "fe80::2".parse().unwrap())
        );
        let said = transcript(&mut claims, 0);
        assert_eq!(
            said,
            [
                (0, "fe80::1".to_string(), Kind::Probe),
                (1_000, "fe80::1".to_string(), Kind::Claim)
            ]
        );
        assert!(!claims.is_tentative(port, addr));
    }

    #[test]
    fn an_objection_in_time_leaves_the_address_to_its_owner() {
        for ours in ["10.0.0.1/24", "fe80::1/64"] {
            let mut claims = claims(&[ours]);
            let (port, addr) = (PortId(0), cidr(ours).addr);
            assert!(claims.pop_due(Instant::ZERO).is_some());
            let now = Instant::from_millis(500);
            assert_eq!(claims.take_contested(now), None);
            claims.contest(now, (port, addr), OTHER);
            assert_eq!(claims.take_contested(now), Some((addr, OTHER)));
            assert_eq!(claims.take_contested(now), None, "told once");
            assert_eq!(transcript(&mut claims, 500), []);
            assert!(claims.is_tentative(port, addr));
        }
    }

    #[test]
    fn an_ipv6_address_is_claimed_only_once() {
        let mut claims = claims(&["fe80::1/64"]);
        transcript(&mut claims, 0);
        let addr = "fe80::1".parse().unwrap();
        claims.contest(Instant::from_millis(20_000), (PortId(0), addr), OTHER);
        assert_eq!(transcript(&mut claims, 20_000), []);
        assert!(!claims.is_tentative(PortId(0), addr));
    }

    #[test]
    fn a_claim_is_defended_at_most_every_ten_seconds() {
        let mut claims = claims(&["10.0.0.1/24"]);
        transcript(&mut claims, 0);
        let addr = "10.0.0.1".parse().unwrap();
        for (at, expected) in [(20_000, 1), (21_000, 0), (29_999, 0), (30_000, 1)] {
            claims.contest(Instant::from_millis(at), (PortId(0), addr), OTHER);
            assert_eq!(transcript(&mut claims, at).len(), expected, "at {at} ms");
        }
        let another = "10.0.0.2".parse().unwrap();
        claims.contest(Instant::from_millis(50_000), (PortId(0), another), OTHER);
        assert_eq!(claims.next_deadline(), None);
    }

    #[test]
    fn a_conflict_is_told_at_most_once_a_minute() {
        let mut claims = claims(&["10.0.0.1/24"]);
        let addr = "10.0.0.1".parse().unwrap();
        for (at, mac, told) in [
            (0, OTHER, true),
            (30_000, MacAddr([2, 0, 0, 0, 0, 3]), false),
            (59_999, OTHER, false),
            (60_000, OTHER, true),
        ] {
            let now = Instant::from_millis(at);
            claims.contest(now, (PortId(0), addr), mac);
            let expected = told.then_some((addr, mac));
            assert_eq!(claims.take_contested(now), expected, "at {at} ms");
        }
    }
}
