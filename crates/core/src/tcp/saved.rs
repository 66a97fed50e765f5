//! All that TCP knows on its way to another process, which goes on with it.
//!
//! Tables are copied as they are, so that ids stay what they are. What follows from them is not in
//! it and made anew: flows, the wheel, links of lists, trees of ranges. So no link of a snapshot is
//! ever followed, and what contradicts itself is noticed when it is put together.

use std::collections::BTreeSet;
use std::io;

use ring::stream::{
    AppStreams, HomeMemory, HomePlan, SavedHome, SavedStream, restore_streams, save_stream,
};
use wire::steering::Steering;
use wire::time::Instant;

use crate::arena::SavedSlots;
use crate::config::Config;
use crate::counters::Counters;
use crate::flow::{self, FlowKey};
use crate::neigh::announce::Claims;
use crate::side_pool::SavedPool;
use crate::tcp::Tcp;
use crate::tcp::blocks::saved::SavedBlock;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::home_owners::HomeOwners;
use crate::tcp::loss::SavedPools;
use crate::tcp::option_sets::SavedOptionSets;
use crate::tcp::queues::{Output, SavedQueues};
use crate::tcp::ranges::{Range, RangeSet};
use crate::tcp::receive::Held;
use crate::tcp::setup::{SavedHalfOpens, SavedListeners};
use crate::tcp::teardown::{ClosingWithReset, Rest};

/// See the module.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Saved {
    secret: [u8; 32],
    common_secret: Option<[u8; 32]>,
    counters: Counters,
    claims: Claims,
    ports: Vec<u32>,
    options: SavedOptionSets,
    pools: SavedPools,
    held: SavedPool<Held>,
    /// The ranges of each of those.
    held_ranges: Vec<Vec<Range>>,
    slots: SavedSlots,
    conns: Vec<SavedConn>,
    listeners: SavedListeners,
    /// Slots of listeners, and of the connections that wait at each, in order.
    waiting: Vec<(u32, Vec<u32>)>,
    half_open: SavedHalfOpens,
    /// When the timer of each half-open record fires.
    half_open_at: Vec<(u32, Instant)>,
    cookie_sent: Option<Instant>,
    time_wait: Vec<Rest>,
    queues: SavedQueues,
    closing_with_reset: ClosingWithReset,
    home_owners: HomeOwners,
    /// Of the home in the stack's own process.
    streams: Vec<SavedStream>,
    homes: Vec<SavedHome>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct SavedConn {
    block: SavedBlock,
    /// Its scoreboard.
    sacked: Vec<Range>,
}

/// The flags that follow from the lists.
const ON_LISTS: Flags = Flags::ON_CONTROL.union(Flags::ON_DATA).union(Flags::PARKED);

fn damaged(what: &str) -> io::Error {
    let text = format!("the snapshot contradicts itself in its {what}: take another");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn check(is_sound: bool, what: &str) -> io::Result<()> {
    is_sound.then_some(()).ok_or_else(|| damaged(what))
}

impl Saved {
    /// The homes of programs: their numbers, and what their memory was made with.
    pub fn homes(&self) -> impl Iterator<Item = (u32, HomePlan)> {
        self.homes.iter().map(|home| (home.home(), home.plan()))
    }

    /// `config` with the secrets of the stack before: sequence numbers, timestamps and cookies are
    /// made with them.
    pub fn with_secrets(&self, config: Config) -> Config {
        Config {
            secret: self.secret,
            common_secret: self.common_secret,
            ..config
        }
    }
}

/// # Errors
/// `Unsupported`: there are other stacks with these addresses, or a process that takes this one's
/// place when it dies.
pub(crate) fn save(tcp: &mut Tcp, app: &mut AppStreams) -> io::Result<Saved> {
    if tcp.handover.is_some() || tcp.shared.config.seat.is_some() {
        let text = "several stacks share these addresses: end them and start anew";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let homes = tcp.shared.streams.homes().save();
    let tcp = &*tcp;
    let shared = &tcp.shared;
    let slots = || tcp.conns.slots.iter();
    let held = shared.held.save();
    let ranges = |held: &Held| held.ranges(&shared.ranges);
    Ok(Saved {
        secret: shared.config.secret,
        common_secret: shared.config.common_secret,
        counters: shared.counters.clone(),
        claims: shared.net.links.claims.clone(),
        ports: tcp.ports.counters(),
        options: shared.options.save(),
        pools: shared.loss.save(),
        held_ranges: shared.held.live().map(ranges).collect(),
        held,
        slots: tcp.conns.slots.save(),
        conns: slots().filter_map(|slot| save_conn(tcp, slot)).collect(),
        listeners: tcp.setup.listeners.save(),
        waiting: save_waiting(tcp),
        half_open: tcp.setup.half_open.save(),
        half_open_at: save_half_open_timers(tcp),
        cookie_sent: tcp.setup.cookies.last_sent(),
        time_wait: tcp.time_wait.save(),
        queues: shared.queues.save(|place| tcp.conns.slot_at(place)),
        closing_with_reset: tcp.closing_with_reset.clone(),
        home_owners: tcp.home_owners.clone(),
        streams: slots()
            .filter_map(|slot| save_stream(&shared.streams, app, slot))
            .collect(),
        homes,
    })
}

fn save_conn(tcp: &Tcp, slot: u32) -> Option<SavedConn> {
    let block = tcp.conns.save(slot, &tcp.shared)?;
    let has_scoreboard = block.hot.has(Flags::SACKED);
    let sacked = tcp.shared.ranges.view(&block.cold.loss.sacked);
    Some(SavedConn {
        sacked: sacked.iter().filter(|_| has_scoreboard).collect(),
        block,
    })
}

fn save_waiting(tcp: &Tcp) -> Vec<(u32, Vec<u32>)> {
    let links = &tcp.shared.queues.backlog;
    let waiting = |slot| {
        let listener = tcp.setup.listeners.live(slot)?;
        let places = listener.waiting.iter(links);
        Some((
            slot,
            places.filter_map(|at| tcp.conns.slot_at(at)).collect(),
        ))
    };
    let all = 0..tcp.setup.listeners.used();
    all.filter_map(waiting).collect()
}

fn save_half_open_timers(tcp: &Tcp) -> Vec<(u32, Instant)> {
    let at = |slot| {
        let id = flow::id(flow::HALF_OPEN, slot);
        Some((slot, tcp.shared.wheel.deadline(id)?))
    };
    tcp.setup.half_open.slots.iter().filter_map(at).collect()
}

/// Puts into `tcp`, which is new, what another stack had. `tcp` is not to be used if it fails.
///
/// # Errors
/// `InvalidData`: it contradicts itself, or is more than the configuration of this stack allows.
pub(crate) fn restore(
    tcp: &mut Tcp,
    app: &mut AppStreams,
    now: Instant,
    saved: Saved,
    given: Given<'_>,
) -> io::Result<()> {
    if let Some(steering) = given.steering {
        tcp.flows.steer(steering);
    }
    restore_homes(tcp, &saved.homes, given.homes)?;
    let shared = &mut tcp.shared;
    shared.counters = saved.counters;
    shared.net.links.claims.restore(&saved.claims);
    tcp.ports.set_counters(&saved.ports);
    check(shared.options.restore(saved.options), "sets of options")?;
    check(shared.loss.restore(saved.pools), "logs of what was sent")?;
    check(shared.held.restore(saved.held), "ranges out of order")?;
    check(restore_held(tcp, &saved.held_ranges), "ranges out of order")?;
    check(tcp.conns.slots.restore(&saved.slots), "slots")?;
    let streams = &mut tcp.shared.streams;
    let restored = restore_streams(streams, app, &saved.streams);
    check(restored.is_ok(), "byte streams")?;
    let mut flows = Flows::default();
    restore_conns(tcp, &saved.conns, &mut flows)?;
    check(tcp.setup.listeners.restore(saved.listeners), "listeners")?;
    restore_waiting(tcp, &saved.waiting)?;
    check(
        tcp.setup.half_open.restore(saved.half_open),
        "half-open connections",
    )?;
    restore_half_open(tcp, &saved.half_open_at, &mut flows)?;
    tcp.setup.cookies.set_last_sent(saved.cookie_sent);
    tcp.setup().steer_all();
    for rest in &saved.time_wait {
        flows.enter(tcp, &rest.record.key)?;
        check(tcp.time_waits().restore(now, rest), "TIME_WAIT")?;
    }
    tcp.closing_with_reset = saved.closing_with_reset;
    tcp.home_owners = saved.home_owners;
    restore_queues(tcp, &saved.queues)
}

/// What is not in a snapshot.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    /// The memory of the streams of programs, by the numbers of their homes.
    pub homes: &'a [(u32, HomeMemory)],
    /// Is told of each flow.
    pub steering: Option<Box<dyn Steering>>,
}

fn restore_homes(
    tcp: &mut Tcp,
    saved: &[SavedHome],
    given: &[(u32, HomeMemory)],
) -> io::Result<()> {
    for home in saved {
        let memory = given.iter().find(|(number, _)| *number == home.home());
        let (_, memory) = memory.ok_or_else(|| damaged("programs"))?;
        tcp.shared.streams.homes().restore(home, memory)?;
    }
    Ok(())
}

/// Whether the streams that it names are its own.
fn has_streams(tcp: &mut Tcp, block: &SavedBlock) -> bool {
    let streams = &mut tcp.shared.streams;
    match streams.home_of(block.stream) {
        0 => block.stream == block.slot,
        _ => streams.homes().is_of(block.stream, block.slot),
    }
}

/// The endpoints that are in use, each once.
#[derive(Debug, Default)]
struct Flows(BTreeSet<FlowKey>);

impl Flows {
    fn enter(&mut self, tcp: &mut Tcp, key: &FlowKey) -> io::Result<()> {
        check(self.0.insert(*key), "endpoints")?;
        let entered = tcp.flows.enter(key);
        let refused = || io::Error::other("the link does not steer what the stack before had");
        entered.then_some(()).ok_or_else(refused)
    }
}

fn restore_held(tcp: &mut Tcp, ranges: &[Vec<Range>]) -> bool {
    let shared = &mut tcp.shared;
    let slots: Vec<u32> = shared.held.slots().collect();
    let mut fill = |(&slot, ranges): (&u32, &Vec<Range>)| {
        let held = shared.held.at_mut(slot);
        held.is_some_and(|held| held.set_ranges(&mut shared.ranges, ranges))
    };
    slots.len() == ranges.len() && slots.iter().zip(ranges).all(&mut fill)
}

fn restore_conns(tcp: &mut Tcp, conns: &[SavedConn], flows: &mut Flows) -> io::Result<()> {
    tcp.conns.leave_empty();
    let mut missing: BTreeSet<u32> = tcp.conns.slots.iter().collect();
    for SavedConn { block, sacked } in conns {
        let is_sound = missing.remove(&block.slot) && block.is_sound() && has_streams(tcp, block);
        check(is_sound, "connections")?;
        restore_conn(tcp, block, sacked, flows)?;
    }
    check(missing.is_empty(), "connections")
}

fn restore_conn(
    tcp: &mut Tcp,
    block: &SavedBlock,
    sacked: &[Range],
    flows: &mut Flows,
) -> io::Result<()> {
    let mut block = *block;
    let wheel_at = std::mem::replace(&mut block.hot.wheel_at, Instant::FAR);
    block.hot.remove(ON_LISTS);
    let mut scoreboard = RangeSet::default();
    let filled = tcp.shared.ranges.restore(&mut scoreboard, sacked);
    let is_whole = filled && block.hot.has(Flags::SACKED) != sacked.is_empty();
    check(is_whole, "scoreboards")?;
    block.cold.loss.sacked = scoreboard;
    let hash = tcp.flows.hash(&block.key);
    let queues = &mut tcp.shared.queues;
    check(tcp.conns.restore(&block, hash, queues), "connections")?;
    if block.hot.has(Flags::DETACHED) {
        return Ok(());
    }
    flows.enter(tcp, &block.key)?;
    let id = flow::id(flow::CONNECTION, block.slot);
    tcp.flows.insert(hash, id);
    if let Some(mut conn) = tcp.conns.view(block.slot, &mut tcp.shared) {
        conn.wake_at(wheel_at);
    }
    Ok(())
}

fn restore_waiting(tcp: &mut Tcp, waiting: &[(u32, Vec<u32>)]) -> io::Result<()> {
    for (listener, slots) in waiting {
        for &slot in slots {
            let conn = tcp.conns.slots.has(slot);
            let conn = conn
                .then(|| tcp.conns.view(slot, &mut tcp.shared))
                .flatten();
            let conn =
                conn.filter(|conn| conn.has(Flags::BACKLOG) && conn.cold.listener == *listener);
            let conn = conn.ok_or_else(|| damaged("accept queues"))?;
            let links = &mut conn.sh.queues.backlog;
            tcp.setup
                .listeners
                .enter_backlog(*listener, links, conn.place);
        }
    }
    Ok(())
}

fn restore_half_open(
    tcp: &mut Tcp,
    timers: &[(u32, Instant)],
    flows: &mut Flows,
) -> io::Result<()> {
    let slots: Vec<u32> = tcp.setup.half_open.slots.iter().collect();
    for slot in slots {
        let record = tcp.setup.half_open.at(slot).copied();
        let record = record.ok_or_else(|| damaged("half-open connections"))?;
        let listener = tcp.setup.listeners.at_mut(u32::from(record.listener));
        listener
            .ok_or_else(|| damaged("half-open connections"))?
            .half_open += 1;
        flows.enter(tcp, &record.key)?;
        let hash = tcp.flows.hash(&record.key);
        tcp.flows.insert(hash, flow::id(flow::HALF_OPEN, slot));
        tcp.shared.queues.grow_half_open(slot);
    }
    for &(slot, at) in timers {
        check(tcp.setup.half_open.slots.has(slot), "timers")?;
        tcp.shared
            .wheel
            .schedule(flow::id(flow::HALF_OPEN, slot), at);
    }
    Ok(())
}

fn restore_queues(tcp: &mut Tcp, saved: &SavedQueues) -> io::Result<()> {
    for &record in &saved.syn_acks {
        check(tcp.setup.half_open.slots.has(record), "lists")?;
        let port = tcp.setup.half_open.at(record).map(|record| record.port);
        let port = port.ok_or_else(|| damaged("lists"))?;
        tcp.shared.queues.push_syn_ack(port, record);
    }
    for (list, slots) in [
        (Output::Control, &saved.control),
        (Output::Data, &saved.data),
    ] {
        on_each(tcp, slots, |conn| conn.lists().join(list))?;
    }
    on_each(tcp, &saved.acks, |conn| {
        conn.lists().join_acks();
    })?;
    // Who waited for a neighbour asks for it again: neighbours are learnt anew.
    on_each(tcp, &saved.parked, |conn| conn.unpark())?;
    on_each(tcp, &saved.orphans, |conn| {
        if conn.has(Flags::APP_CLOSED) && !conn.has(Flags::BACKLOG) {
            conn.sh.queues.push_orphan(conn.place);
        }
    })?;
    on_each_known(tcp, &saved.news, |conn| {
        conn.sh.queues.push_news(conn.place)
    })
}

/// Of each of these connections, which TCP is not done with.
fn on_each(tcp: &mut Tcp, slots: &[u32], mut then: impl FnMut(&mut Conn<'_>)) -> io::Result<()> {
    on_each_known(tcp, slots, |conn| {
        if !conn.has(Flags::DETACHED) {
            then(conn);
        }
    })
}

fn on_each_known(
    tcp: &mut Tcp,
    slots: &[u32],
    mut then: impl FnMut(&mut Conn<'_>),
) -> io::Result<()> {
    for &slot in slots {
        let is_there = tcp.conns.slots.has(slot);
        let conn = is_there.then(|| tcp.conns.view(slot, &mut tcp.shared));
        then(&mut conn.flatten().ok_or_else(|| damaged("lists"))?);
    }
    Ok(())
}
