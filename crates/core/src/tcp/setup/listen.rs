//! Listeners: who listens where, and their backlogs.

mod saved;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use wire::time::Instant;

use crate::arena::Slots;
use crate::command::Options;
use crate::config::Config;
use crate::error::Error;
use crate::id::{ListenerId, Token};
use crate::list::{Link, List};
use crate::tcp::option_sets::SetId;
use crate::tcp::setup::fast_open::PendingOpens;
use crate::tcp::setup::pace::Pace;

pub(crate) use saved::SavedListeners;

/// Half-open records that a listener may have even if its backlog is smaller.
const MIN_HALF_OPEN: u32 = 64;

/// One listener.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Listener {
    pub token: Token,
    /// Where the streams of its connections lie.
    pub home: u32,
    pub local: SocketAddr,
    pub only_v6: bool,
    pub backlog: u32,
    pub options: Options,
    /// The record of them that its connections share.
    pub set: SetId,
    /// Established, not taken by the application yet.
    #[serde(skip)]
    pub waiting: List,
    /// Half-open records that it has.
    pub half_open: u32,
    pub pending: PendingOpens,
    /// It gets connections only where nobody else listens, and nobody accepts them there.
    pub is_backup: bool,
    /// Whether its program comes to accept.
    #[serde(skip)]
    pub pace: Pace,
    /// It shares its port with others that do (SO_REUSEPORT).
    shares: bool,
    /// The next listener on the same port, plus one.
    next: u32,
}

impl Listener {
    pub fn new(
        token: Token,
        local: SocketAddr,
        only_v6: bool,
        backlog: u32,
        options: Options,
    ) -> Self {
        Self {
            token,
            home: 0,
            local,
            only_v6,
            // listen(fd, 0) means a backlog of one everywhere.
            backlog: backlog.max(1),
            options,
            set: SetId::NONE,
            waiting: List::new(),
            half_open: 0,
            pending: PendingOpens::default(),
            is_backup: false,
            pace: Pace::default(),
            shares: options.reuse_port,
            next: 0,
        }
    }

    /// Replaces the options; the record before.
    pub fn set_options(&mut self, options: Options, set: SetId) -> SetId {
        self.options = options;
        std::mem::replace(&mut self.set, set)
    }

    /// Where it listens: at one address, at all of a family, or at all of both.
    pub fn ends(&self) -> impl Iterator<Item = SocketAddr> {
        let is_any6 = self.local.is_ipv6() && self.local.ip().is_unspecified();
        let any4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), self.local.port());
        let both = is_any6 && !self.only_v6;
        [self.local].into_iter().chain(both.then_some(any4))
    }

    /// Whether segments to `addr` are for it.
    fn covers(&self, addr: IpAddr) -> bool {
        self.suits(addr) > 0
    }

    /// How well: as on Linux, best by address, then by family; 0: not at all.
    fn suits(&self, addr: IpAddr) -> u8 {
        match self.local.ip() {
            own if own == addr => 3,
            own if own.is_unspecified() && own.is_ipv4() == addr.is_ipv4() => 2,
            IpAddr::V6(own) if own.is_unspecified() && !self.only_v6 => 1,
            _ => 0,
        }
    }

    /// The same where several listen at one place: a backup comes last of those that suit as well.
    fn ranks(&self, addr: IpAddr) -> u8 {
        match self.suits(addr) {
            0 => 0,
            suits => 2 * suits + u8::from(!self.is_backup),
        }
    }

    /// Whether what waits at one of the two may wait at the other: the place is the same, and both
    /// are of programs that share it.
    fn is_beside(&self, other: &Self) -> bool {
        let place = |listener: &Self| (listener.local, listener.only_v6, listener.shares);
        self.shares && self.home != 0 && other.home != 0 && place(self) == place(other)
    }

    /// Whether both would get some segment: then only one may be, unless they share.
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.covers(other.local.ip()) || other.covers(self.local.ip());
        overlap && !(self.shares && other.shares)
    }

    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.backlog
    }

    /// How little one more is welcome.
    fn load(&self) -> (bool, bool, u32) {
        (self.is_backup, self.pace.is_stalled, self.waiting.len())
    }

    /// Its program accepts, as far as is known.
    fn accepts(&self) -> bool {
        !self.is_backup && !self.pace.is_stalled
    }

    pub fn may_take_syn(&self) -> bool {
        self.half_open < self.backlog.max(MIN_HALF_OPEN)
    }

    /// Whether both kinds of room are at most half used.
    pub fn is_half_empty(&self) -> bool {
        self.waiting.len() <= self.backlog / 2
            && self.half_open <= self.backlog.max(MIN_HALF_OPEN) / 2
    }
}

/// Places that were left to others at most: each SYN for nobody looks at all of them.
const LEFT_MAX: usize = 1024;

/// All listeners, by port.
#[derive(Debug)]
pub(crate) struct Listeners {
    slots: Slots,
    table: Vec<Listener>,
    /// For each port the first of its listeners, plus one. 256 KiB that are touched where something
    /// listens.
    first: Vec<u32>,
    /// Where others listen on, whom it was left to.
    left: Vec<Listener>,
    /// Of programs that may share their places: those where connections wait, and maybe others.
    watched: Vec<u32>,
}

impl Listeners {
    pub fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            slots: Slots::new(config.max_listeners)?,
            table: Vec::new(),
            first: vec![0; 1 << 16],
            left: Vec::new(),
            watched: Vec::new(),
        })
    }

    pub fn len(&self) -> u32 {
        self.slots.len()
    }

    pub fn at(&self, slot: u32) -> Option<&Listener> {
        self.table.get(slot as usize)
    }

    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Listener> {
        self.table.get_mut(slot as usize)
    }

    /// Slots from here on were never used.
    pub fn used(&self) -> u32 {
        self.slots.high_water()
    }

    /// The one in a slot, if there is one.
    pub fn live(&self, slot: u32) -> Option<&Listener> {
        self.at(slot).filter(|_| self.slots.has(slot))
    }

    /// Those of a home.
    pub fn of_home(&self, home: u32) -> Vec<ListenerId> {
        let of_home = |slot: &u32| self.at(*slot).is_some_and(|entry| entry.home == home);
        let id = |slot| ListenerId {
            slot,
            generation: self.slots.generation(slot),
        };
        self.slots.iter().filter(of_home).map(id).collect()
    }

    /// The slot of a live id.
    pub fn resolve(&self, id: ListenerId) -> Result<u32, Error> {
        if self.slots.is_live(id.slot, id.generation) {
            Ok(id.slot)
        } else {
            Err(Error::BadId)
        }
    }

    fn on_port(&self, port: u16) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.first.get(usize::from(port)).copied().unwrap_or(0);
        std::iter::from_fn(move || {
            let slot = next.checked_sub(1)?;
            next = self.at(slot).map_or(0, |listener| listener.next);
            Some(slot)
        })
    }

    /// Whether somebody listens on `local`.
    pub fn listens(&self, local: SocketAddr) -> bool {
        self.suiting(local).next().is_some()
    }

    /// Who listens on `local`, for a flow of this `origin`. Of those that share it each gets its
    /// part of the flows: by the keyed hash of a flow that peers may see, as they may see this.
    pub fn find(&self, local: SocketAddr, origin: u32) -> Option<u32> {
        let (mut best, mut chosen, mut count) = (0, None, 0);
        for (slot, suits) in self.suiting(local) {
            if suits > best {
                (best, chosen, count) = (suits, Some(slot), 1);
            } else if suits == best {
                count += 1;
            }
        }
        if count <= 1 {
            return chosen;
        }
        let place = (u64::from(origin) * count) >> 32;
        self.suiting(local)
            .filter(|&(_, suits)| suits == best)
            .nth(place as usize)
            .map(|(slot, _)| slot)
    }

    /// Those that listen on `local`, and how well they suit.
    fn suiting(&self, local: SocketAddr) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.on_port(local.port()).filter_map(move |slot| {
            let ranks = self.at(slot)?.ranks(local.ip());
            (ranks > 0).then_some((slot, ranks))
        })
    }

    /// The others of several programs that listen at the place of this one.
    pub fn beside(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let own = self.at(slot);
        let port = own.map_or(0, |listener| listener.local.port());
        let is_beside = move |other: &u32| {
            let pair = own.zip(self.at(*other));
            *other != slot && pair.is_some_and(|(own, other)| own.is_beside(other))
        };
        self.on_port(port).filter(is_beside)
    }

    /// Those who may have what waits at a listener, the best first: where programs accept, those
    /// where the fewest wait, and then backups.
    pub fn heirs(&self, slot: u32) -> Vec<u32> {
        let mut heirs: Vec<u32> = self.beside(slot).collect();
        heirs.sort_by_key(|&heir| self.at(heir).map(Listener::load));
        heirs
    }

    /// Those of them whose programs accept.
    pub fn heirs_that_accept(&self, slot: u32) -> Vec<u32> {
        let mut heirs: Vec<u32> = self.accepting_beside(slot).collect();
        heirs.sort_by_key(|&heir| self.at(heir).map(Listener::load));
        heirs
    }

    /// Where a connection is to wait whose SYN came to this listener. As on Linux, where processes
    /// share a listener that was made before a fork, one that does not accept keeps none from the
    /// others.
    #[inline]
    pub fn taker(&self, slot: u32) -> u32 {
        match self.at(slot) {
            Some(own) if own.shares && own.load() > (false, false, 0) => {
                self.least_loaded(slot, own)
            }
            _ => slot,
        }
    }

    #[cold]
    fn least_loaded(&self, slot: u32, own: &Listener) -> u32 {
        let load = |slot: &u32| self.at(*slot).map(Listener::load);
        let others = self.beside(slot);
        let best = others
            .min_by_key(load)
            .filter(|best| load(best) < Some(own.load()));
        best.unwrap_or(slot)
    }

    /// Whether the listener has its port alone.
    pub fn is_alone(&self, slot: u32) -> bool {
        let port = self.at(slot).map_or(0, |listener| listener.local.port());
        self.on_port(port).nth(1).is_none()
    }

    /// Whether `candidate` can listen beside the others.
    /// RFC 9293 MUST-42.
    pub fn is_free(&self, candidate: &Listener) -> bool {
        self.on_port(candidate.local.port())
            .filter_map(|slot| self.at(slot))
            .all(|other| !candidate.conflicts_with(other))
    }

    /// RFC 9293 MUST-41.
    pub fn insert(&mut self, mut listener: Listener) -> Result<ListenerId, Error> {
        if !self.is_free(&listener) {
            return Err(Error::AddressInUse);
        }
        let slot = self.slots.alloc().ok_or(Error::NoMemory)?;
        self.left
            .retain(|left| left.local.port() != listener.local.port());
        if let Some(first) = self.first.get_mut(usize::from(listener.local.port())) {
            listener.next = std::mem::replace(first, slot + 1);
        }
        match self.table.get_mut(slot as usize) {
            Some(entry) => *entry = listener,
            None => self.table.push(listener),
        }
        Ok(ListenerId {
            slot,
            generation: self.slots.generation(slot),
        })
    }

    /// Others listen on where this one did.
    pub fn leave(&mut self, slot: u32) {
        let listener = self.at(slot).copied();
        if self.left.len() < LEFT_MAX.min(self.slots.capacity() as usize) {
            self.left.extend(listener);
        }
        self.remove(slot);
    }

    /// Whether `local` was left to others.
    pub fn is_left(&self, local: SocketAddr) -> bool {
        self.left
            .iter()
            .any(|left| left.local.port() == local.port() && left.covers(local.ip()))
    }

    pub fn remove(&mut self, slot: u32) {
        let Some(&Listener { local, next, .. }) = self.at(slot) else {
            return;
        };
        let before = self.on_port(local.port()).find(|&other| {
            self.at(other)
                .is_some_and(|listener| listener.next == slot + 1)
        });
        match before.and_then(|before| self.table.get_mut(before as usize)) {
            Some(before) => before.next = next,
            None => {
                if let Some(first) = self.first.get_mut(usize::from(local.port())) {
                    *first = next;
                }
            }
        }
        self.slots.free(slot);
    }

    /// The connection at `place` waits for the application, on the list that `links` are for.
    pub fn enter_backlog(&mut self, slot: u32, links: &mut [Link], place: u32) {
        if let Some(listener) = self.at_mut(slot) {
            listener.waiting.push_back(links, place);
            if listener.shares && listener.home != 0 && !listener.pace.is_watched {
                self.watch(slot);
            }
        }
    }

    #[cold]
    fn watch(&mut self, slot: u32) {
        if let Some(listener) = self.at_mut(slot) {
            listener.pace.restart();
            listener.pace.is_watched = true;
            self.watched.push(slot);
        }
    }

    /// Looks at those where connections wait. Those that have stalled, or have before.
    pub fn look_at_waiting(&mut self, now: Instant, limit: Duration) -> Vec<u32> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let mut stalled = Vec::new();
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|&slot| {
            let is_live = self.slots.has(slot);
            let Some(listener) = self.at_mut(slot).filter(|_| is_live) else {
                return false;
            };
            if listener.waiting.is_empty() {
                listener.pace.is_watched = false;
                return false;
            }
            if !listener.is_backup && listener.pace.look(now, limit) {
                stalled.push(slot);
            }
            true
        });
        self.watched = watched;
        stalled
    }

    /// When one has stalled at the earliest of which others may have what waits.
    pub fn stall_due(&self, now: Instant, limit: Duration) -> Option<Instant> {
        let due = |&slot: &u32| {
            let listener = self.live(slot)?;
            let waits = !listener.is_backup && !listener.waiting.is_empty();
            let has_heirs = waits && self.accepting_beside(slot).next().is_some();
            has_heirs.then(|| listener.pace.due(now, limit))
        };
        self.watched.iter().filter_map(due).min()
    }

    fn accepting_beside(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let accepts = |other: &u32| self.at(*other).is_some_and(Listener::accepts);
        self.beside(slot).filter(accepts)
    }

    /// The connection at `place` leaves the backlog of its listener.
    pub fn leave_backlog(&mut self, slot: u32, links: &mut [Link], place: u32) {
        if let Some(listener) = self.at_mut(slot) {
            listener.waiting.remove(links, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(local: &str, only_v6: bool) -> Listener {
        let local = local.parse().unwrap();
        Listener::new(Token(1), local, only_v6, 8, Options::default())
    }

    fn table(locals: &[(&str, bool)]) -> Listeners {
        let mut table = Listeners::new(&Config::default()).unwrap();
        for &(local, only_v6) in locals {
            table.insert(listener(local, only_v6)).unwrap();
        }
        table
    }

    fn finds(table: &Listeners, local: &str) -> bool {
        table.listens(local.parse().unwrap())
    }

    #[test]
    fn wildcards_take_what_they_cover() {
        let v4 = table(&[("0.0.0.0:80", false)]);
        assert!(finds(&v4, "10.0.0.1:80"));
        assert!(!finds(&v4, "10.0.0.1:81"));
        assert!(!finds(&v4, "[fd00::1]:80"));
        let dual = table(&[("[::]:80", false)]);
        assert!(finds(&dual, "10.0.0.1:80"));
        assert!(finds(&dual, "[fd00::1]:80"));
        let only = table(&[("[::]:80", true)]);
        assert!(!finds(&only, "10.0.0.1:80"));
        assert!(finds(&only, "[fd00::1]:80"));
    }

    #[test]
    fn overlapping_listeners_are_refused() {
        let v4 = table(&[("0.0.0.0:80", false)]);
        for taken in ["0.0.0.0:80", "10.0.0.1:80", "[::]:80"] {
            assert!(!v4.is_free(&listener(taken, false)), "{taken}");
        }
        for free in ["10.0.0.1:81", "[fd00::1]:80"] {
            assert!(v4.is_free(&listener(free, false)), "{free}");
        }
        assert!(v4.is_free(&listener("[::]:80", true)));
        let one = table(&[("10.0.0.1:80", false)]);
        assert!(one.is_free(&listener("10.0.0.2:80", false)));
        assert!(!one.is_free(&listener("10.0.0.1:80", false)));
    }

    #[test]
    fn those_that_share_get_their_parts_and_the_best_address_all_of_it() {
        let shared = Options {
            reuse_port: true,
            ..Options::default()
        };
        let sharing =
            |local: &str| Listener::new(Token(1), local.parse().unwrap(), false, 8, shared);
        let mut table = table(&[]);
        let [a, b, c, one] = ["0.0.0.0:80", "0.0.0.0:80", "[::]:80", "10.0.0.9:80"]
            .map(|local| table.insert(sharing(local)).unwrap().slot);
        assert!(
            !table.is_free(&listener("0.0.0.0:80", false)),
            "this one does not share"
        );
        let origins = || (0..1000u32).map(|n| n.wrapping_mul(0x9e37_79b9));
        let count = |table: &Listeners, local: &str, slot| {
            let local = local.parse().unwrap();
            origins()
                .filter(|&origin| table.find(local, origin) == Some(slot))
                .count()
        };
        let parts = [a, b].map(|slot| count(&table, "10.0.0.1:80", slot));
        assert!(
            parts.iter().all(|part| (400..600).contains(part)),
            "{parts:?}"
        );
        assert_eq!(parts[0] + parts[1], 1000);
        assert_eq!(count(&table, "[fd00::1]:80", c), 1000);
        assert_eq!(count(&table, "10.0.0.9:80", one), 1000);
        assert!(!table.is_alone(a));
        table.remove(a);
        assert_eq!(count(&table, "10.0.0.1:80", b), 1000);
    }

    #[test]
    fn removal_keeps_the_others_on_the_port() {
        let mut table = table(&[
            ("10.0.0.1:80", false),
            ("10.0.0.2:80", false),
            ("10.0.0.3:80", false),
        ]);
        table.remove(1);
        assert!(finds(&table, "10.0.0.1:80"));
        assert!(!finds(&table, "10.0.0.2:80"));
        assert!(finds(&table, "10.0.0.3:80"));
        table.remove(2);
        table.remove(0);
        assert!(!finds(&table, "10.0.0.1:80"));
        assert_eq!(table.len(), 0);
        table.insert(listener("10.0.0.2:80", false)).unwrap();
        assert!(finds(&table, "10.0.0.2:80"));
    }
}
