//! The programs that are connected.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::client::{Client, ClientId};
use super::drops::Counters;
use crate::policy::Credentials;

/// Programs of all users at a time.
const CLIENTS_MAX: usize = 1024;
/// Of those, how many are kept for root, who may have to look what happens.
const CLIENTS_OF_ROOT: usize = 16;
/// Within what a program that connected must say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// How far a program came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not said hello.
    Fresh,
    /// It may ask.
    Greeted,
    /// It has channels.
    Attached,
}

#[derive(Debug)]
pub(super) struct Connected {
    pub(super) socket: OwnedFd,
    pub(super) client: Client,
    pub(super) stage: Stage,
    /// It is in the daemon's network namespace, as it says.
    pub(super) is_here: bool,
    /// It waits for sockets that it asked for.
    pub(super) awaits_sockets: bool,
    /// When it connected or attached.
    pub(super) since: Instant,
}

impl Connected {
    pub(super) fn is_attached(&self) -> bool {
        self.stage == Stage::Attached
    }
}

#[derive(Debug)]
pub(super) struct Clients {
    list: BTreeMap<u64, Connected>,
    next: u64,
    pub(super) drops: Counters,
}

impl Clients {
    pub(super) fn new(first: u64) -> Self {
        Self {
            list: BTreeMap::new(),
            next: first,
            drops: Counters::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn attached(&self) -> usize {
        self.list.values().filter(|one| one.is_attached()).count()
    }

    /// Whether there is room for one more, of whose user there may be `programs`.
    pub(super) fn has_room(&self, who: &Credentials, programs: u64) -> bool {
        if who.is_root() {
            return self.list.len() < CLIENTS_MAX;
        }
        let of_user = |one: &&Connected| one.client.credentials.uid == who.uid;
        let count = self.list.values().filter(of_user).count() as u64;
        self.list.len() < CLIENTS_MAX - CLIENTS_OF_ROOT && count < programs
    }

    /// The id of the next one.
    pub(super) fn next_id(&mut self) -> ClientId {
        let id = ClientId(self.next);
        self.next += 1;
        id
    }

    pub(super) fn insert(&mut self, socket: OwnedFd, client: Client) {
        let one = Connected {
            socket,
            stage: Stage::Fresh,
            is_here: false,
            awaits_sockets: false,
            since: Instant::now(),
            client,
        };
        self.list.insert(one.client.id.0, one);
    }

    pub(super) fn find(&mut self, id: ClientId) -> Option<&mut Connected> {
        self.list.get_mut(&id.0)
    }

    pub(super) fn remove(&mut self, id: ClientId) -> Option<Connected> {
        self.list.remove(&id.0)
    }

    /// Until when the first of those that have not said hello must do so.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        // Ids ascend with time, but some among them have said hello.
        let fresh = self.list.values().find(|one| one.stage == Stage::Fresh);
        fresh.map(|one| one.since + HELLO_TIMEOUT)
    }

    /// Those that did not.
    pub(super) fn expired(&self, now: Instant) -> Vec<ClientId> {
        let late = |one: &&Connected| {
            one.stage == Stage::Fresh && now.duration_since(one.since) >= HELLO_TIMEOUT
        };
        let all = self.list.values();
        all.filter(late).map(|one| one.client.id).collect()
    }

    /// Those that are attached, from an id on.
    pub(super) fn attached_from(&self, from: u64) -> impl Iterator<Item = (&Client, Instant)> {
        let rest = self.list.range(from..).map(|(_, one)| one);
        rest.filter(|one| one.is_attached())
            .map(|one| (&one.client, one.since))
    }
}
