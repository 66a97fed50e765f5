//! Who wants what: lists of connections (and half-open records) that want to send, and of those
//! with news for the application. Nothing else is ever visited. Connections are named by their
//! places in `blocks`: those that idle have none, and no links.

mod saved;

use std::io;
use std::time::Duration;

use ring::region::{Column, PagePolicy};
use wire::time::Instant;

use crate::config::Config;
use crate::id::PortId;
use crate::list::{Link, List};
use crate::side_pool::SidePool;

pub(crate) use saved::SavedQueues;

/// Of `control` and of `syn_acks` that are sent before other lists have their turn.
const NEW: u32 = 32;
/// Of `data`: more, so that what has begun ends. Where the link takes less than there is, as many
/// as wait to begin cost least there; with equal shares those that have begun, with data that is in
/// no cache any more, stay as many as they ever were.
const BEGUN: u32 = 4 * NEW;

/// How many of each list may be sent before all have had their turn. Kept from call to call: a link
/// that takes a few at a time would have the first list only.
#[derive(Clone, Copy, Debug)]
struct Round {
    control: u32,
    syn_acks: u32,
    data: u32,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            control: NEW,
            syn_acks: NEW,
            data: BEGUN,
        }
    }
}

/// The lists of one port. A connection is on at most one of `control`, `data` and `parked`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortQueues {
    /// SYN, and FIN without data.
    pub control: List,
    /// ACKs that ride on nothing.
    pub acks: List,
    /// The last of `acks` that waits for something to ride on, and the last that has waited long
    /// enough. New ones are behind both.
    waiting_ack: Option<u32>,
    ripe_ack: Option<u32>,
    /// When the latter became so.
    ripened: Instant,
    pub data: List,
    /// Waiting for their neighbour to be resolved.
    pub parked: List,
    /// Half-open records whose SYN-ACK is due.
    pub syn_acks: List,
    /// TIME_WAIT records whose ACK is due.
    pub last_acks: List,
    round: Round,
}

/// A list of `PortQueues`, for functions that work on either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Control,
    Data,
    Parked,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queues {
    ports: Vec<PortQueues>,
    /// For `control`, `data` and `parked`.
    output: Column<Link>,
    acks: Column<Link>,
    syn_acks: Vec<Link>,
    /// For each half-open record the neighbour that it waits for, plus one.
    syn_ack_waits: Vec<u32>,
    /// For each place of the neighbour cache the half-open records that wait for it to be resolved,
    /// linked by `syn_acks`.
    waiting: Vec<List>,
    /// TIME_WAIT records whose ACK is due, by the names that `last_acks` links.
    owing: SidePool<u32>,
    last_acks: Vec<Link>,
    /// Connections with news.
    news: List,
    news_links: Column<Link>,
    /// For the backlogs of listeners, and for `orphans`: a connection is in one of these at most.
    pub backlog: Column<Link>,
    /// Closed by the application and not over, in the order in which they were closed.
    orphans: List,
}

impl Queues {
    pub fn new(config: &Config) -> io::Result<Self> {
        let connections = config.max_connections as usize;
        let links = || Column::with_capacity(connections, PagePolicy::Small);
        Ok(Self {
            ports: vec![PortQueues::default(); config.interfaces.len()],
            output: links()?,
            acks: links()?,
            syn_acks: reserved(config.max_half_open as usize)?,
            syn_ack_waits: reserved(config.max_half_open as usize)?,
            waiting: reserved(config.max_neighbours as usize)?,
            owing: SidePool::new(config.max_time_wait)?,
            last_acks: reserved(config.max_time_wait as usize)?,
            news: List::new(),
            news_links: links()?,
            backlog: links()?,
            orphans: List::new(),
        })
    }

    /// Makes sure that the connection at `place` has links.
    pub fn grow_connections(&mut self, place: u32) {
        let len = place as usize + 1;
        if self.output.len() < len {
            self.output.resize(len, Link::NEW);
            self.acks.resize(len, Link::NEW);
            self.news_links.resize(len, Link::NEW);
            self.backlog.resize(len, Link::NEW);
        }
    }

    /// No connection is at `len` or behind that any more.
    pub fn shrink_connections(&mut self, len: usize) {
        for links in [
            &mut self.output,
            &mut self.acks,
            &mut self.news_links,
            &mut self.backlog,
        ] {
            links.shrink(len);
        }
    }

    /// Connections that the application has closed and that are not over.
    pub fn orphans(&self) -> u32 {
        self.orphans.len()
    }

    pub fn push_orphan(&mut self, place: u32) {
        self.orphans.push_back(&mut self.backlog, place);
    }

    pub fn remove_orphan(&mut self, place: u32) {
        self.orphans.remove(&mut self.backlog, place);
    }

    /// The one that was closed first.
    pub fn first_orphan(&self) -> Option<u32> {
        self.orphans.front()
    }

    /// Whether the connection at `place` is on any list.
    pub fn has(&self, place: u32) -> bool {
        [&self.output, &self.acks, &self.news_links, &self.backlog]
            .iter()
            .filter_map(|links| links.get(place as usize))
            .any(|link| link.is_linked())
    }

    /// Makes sure that half-open record `slot` has a link.
    pub fn grow_half_open(&mut self, slot: u32) {
        let len = slot as usize + 1;
        if self.syn_acks.len() < len {
            self.syn_acks.resize(len, Link::NEW);
            self.syn_ack_waits.resize(len, 0);
        }
    }

    /// Whether connections or records want to send more than ACKs on `port`.
    pub fn has_lists(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port.0)).is_some_and(|q| {
            [q.control, q.data, q.syn_acks]
                .iter()
                .any(|list| !list.is_empty())
        })
    }

    /// Whether anything wants to be sent on `port`.
    pub fn has_output(&self, port: PortId) -> bool {
        let owes = |q: &PortQueues| !q.acks.is_empty() || !q.last_acks.is_empty();
        self.has_lists(port) || self.ports.get(usize::from(port.0)).is_some_and(owes)
    }

    /// Connections and records that want to send, on any port, parked ones included.
    pub fn output_len(&self) -> u32 {
        self.ports
            .iter()
            .flat_map(|q| [q.control, q.acks, q.data, q.parked, q.syn_acks, q.last_acks])
            .chain(self.waiting.iter().copied())
            .map(|list| list.len())
            .sum()
    }

    fn output_list(&mut self, port: PortId, which: Output) -> Option<(&mut List, &mut [Link])> {
        let queues = self.ports.get_mut(usize::from(port.0))?;
        let list = match which {
            Output::Control => &mut queues.control,
            Output::Data => &mut queues.data,
            Output::Parked => &mut queues.parked,
        };
        Some((list, &mut self.output))
    }

    pub fn push_output(&mut self, port: PortId, which: Output, place: u32) -> bool {
        self.output_list(port, which)
            .is_some_and(|(list, links)| list.push_back(links, place))
    }

    pub fn remove_output(&mut self, port: PortId, which: Output, place: u32) {
        if let Some((list, links)) = self.output_list(port, which) {
            list.remove(links, place);
        }
    }

    pub fn front_output(&mut self, port: PortId, which: Output) -> Option<u32> {
        self.output_list(port, which)?.0.front()
    }

    /// All lists have had their turn.
    pub fn begin_round(&mut self, port: PortId) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.round = Round::default();
        }
    }

    fn share(&mut self, port: PortId, which: Output) -> Option<&mut u32> {
        let round = &mut self.ports.get_mut(usize::from(port.0))?.round;
        match which {
            Output::Control => Some(&mut round.control),
            Output::Data => Some(&mut round.data),
            Output::Parked => None,
        }
    }

    /// The first of a list, if it is still its turn.
    pub fn output_in_turn(&mut self, port: PortId, which: Output) -> Option<u32> {
        let is_in_turn = self.share(port, which).is_some_and(|left| *left > 0);
        is_in_turn.then(|| self.front_output(port, which))?
    }

    pub fn count_output(&mut self, port: PortId, which: Output) {
        if let Some(left) = self.share(port, which) {
            *left = left.saturating_sub(1);
        }
    }

    pub fn next_output(&mut self, port: PortId, which: Output, place: u32) -> Option<u32> {
        let (list, links) = self.output_list(port, which)?;
        list.next(links, place)
    }

    /// False if it is on the list already.
    pub fn push_ack(&mut self, port: PortId, place: u32) -> bool {
        let queues = self.ports.get_mut(usize::from(port.0));
        queues.is_some_and(|queues| queues.acks.push_back(&mut self.acks, place))
    }

    /// Takes the connection off the list of ACKs, if it is there.
    pub fn remove_ack(&mut self, port: PortId, place: u32) {
        let Some(queues) = self.ports.get_mut(usize::from(port.0)) else {
            return;
        };
        let link = self.acks.get(place as usize);
        if link.is_none_or(|link| !link.is_linked()) {
            return;
        }
        for last in [&mut queues.waiting_ack, &mut queues.ripe_ack] {
            if *last == Some(place) {
                *last = queues.acks.prev(&self.acks, place);
            }
        }
        queues.acks.remove(&mut self.acks, place);
    }

    /// Whether the connection is on the list of ACKs.
    pub fn has_ack(&self, place: u32) -> bool {
        let link = self.acks.get(place as usize);
        link.is_some_and(|link| link.is_linked())
    }

    /// Whose ACK is to be sent, whatever it could ride on.
    pub fn ripe_ack(&self, port: PortId) -> Option<u32> {
        let queues = self.ports.get(usize::from(port.0))?;
        queues.ripe_ack.and(queues.acks.front())
    }

    /// The first ACK that does not wait yet.
    pub fn new_ack(&self, port: PortId) -> Option<u32> {
        let queues = self.ports.get(usize::from(port.0))?;
        match queues.waiting_ack {
            Some(last) => queues.acks.next(&self.acks, last),
            None => queues.acks.front(),
        }
    }

    /// It is the [new one](Self::new_ack) that waits now.
    pub fn have_ack_wait(&mut self, port: PortId, place: u32) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.waiting_ack = Some(place);
        }
    }

    /// Once in `held_max`: those that wait have waited long enough, from one to two times that.
    pub fn ripen_acks(&mut self, now: Instant, port: PortId, held_max: Duration) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0))
            && now - queues.ripened >= held_max
        {
            queues.ripe_ack = queues.waiting_ack;
            queues.ripened = now;
        }
    }

    /// None waits any more.
    pub fn ripen_all_acks(&mut self, port: PortId) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.waiting_ack = queues.acks.back();
            queues.ripe_ack = queues.waiting_ack;
        }
    }

    pub fn push_syn_ack(&mut self, port: PortId, record: u32) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.syn_acks.push_back(&mut self.syn_acks, record);
        }
    }

    /// Takes the record off its list, whichever that is.
    pub fn remove_syn_ack(&mut self, port: PortId, record: u32) {
        if let Some(neighbour) = self.take_wait(record) {
            if let Some(list) = self.waiting.get_mut(neighbour as usize) {
                list.remove(&mut self.syn_acks, record);
            }
        } else if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.syn_acks.remove(&mut self.syn_acks, record);
        }
    }

    /// The first half-open record whose SYN-ACK is due, if it is still their turn.
    pub fn syn_ack_in_turn(&self, port: PortId) -> Option<u32> {
        let queues = self.ports.get(usize::from(port.0))?;
        (queues.round.syn_acks > 0).then(|| queues.syn_acks.front())?
    }

    pub fn count_syn_ack(&mut self, port: PortId) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0)) {
            queues.round.syn_acks = queues.round.syn_acks.saturating_sub(1);
        }
    }

    fn take_wait(&mut self, record: u32) -> Option<u32> {
        let wait = self.syn_ack_waits.get_mut(record as usize)?;
        std::mem::take(wait).checked_sub(1)
    }

    /// The record, which is on no list, waits for a neighbour.
    pub fn park_syn_ack(&mut self, neighbour: u32, record: u32) {
        let index = neighbour as usize;
        if self.waiting.len() <= index {
            self.waiting.resize(index + 1, List::new());
        }
        if let (Some(list), Some(wait)) = (
            self.waiting.get_mut(index),
            self.syn_ack_waits.get_mut(record as usize),
        ) && list.push_back(&mut self.syn_acks, record)
        {
            *wait = neighbour + 1;
        }
    }

    /// A record that waited for a neighbour does not any more.
    pub fn unpark_syn_ack(&mut self, neighbour: u32) -> Option<u32> {
        let list = self.waiting.get_mut(neighbour as usize)?;
        let record = list.pop_front(&mut self.syn_acks)?;
        self.take_wait(record);
        Some(record)
    }

    /// The name under which the record waits to send its ACK.
    pub fn push_last_ack(&mut self, port: PortId, record: u32) -> Option<u32> {
        let queues = self.ports.get_mut(usize::from(port.0))?;
        let name = self.owing.insert(record)?;
        if self.last_acks.len() <= name as usize {
            self.last_acks.push(Link::NEW);
        }
        queues.last_acks.push_back(&mut self.last_acks, name);
        Some(name)
    }

    pub fn remove_last_ack(&mut self, port: PortId, name: u32) {
        if let Some(queues) = self.ports.get_mut(usize::from(port.0))
            && queues.last_acks.remove(&mut self.last_acks, name)
        {
            self.owing.free(name);
        }
    }

    /// The TIME_WAIT record whose turn it is.
    pub fn front_last_ack(&self, port: PortId) -> Option<u32> {
        let queues = self.ports.get(usize::from(port.0))?;
        self.owing.at(queues.last_acks.front()?).copied()
    }

    pub fn push_news(&mut self, place: u32) {
        self.news.push_back(&mut self.news_links, place);
    }

    pub fn remove_news(&mut self, place: u32) {
        self.news.remove(&mut self.news_links, place);
    }

    pub fn pop_news(&mut self) -> Option<u32> {
        self.news.pop_front(&mut self.news_links)
    }

    /// Connections with news that the application has not polled.
    pub fn news_len(&self) -> u32 {
        self.news.len()
    }
}

fn reserved<T>(len: usize) -> io::Result<Vec<T>> {
    let mut column = Vec::new();
    column.try_reserve_exact(len)?;
    Ok(column)
}
