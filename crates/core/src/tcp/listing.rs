//! Where the sockets of a stack are, one table behind the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::flow::FlowKey;
use crate::info::State;
use crate::listing::{ListLimits, ListedSocket};
use crate::tcp::Tcp;
use crate::tcp::flags::Flags;

/// The tables in the order in which they are listed; the number of one is above the slot in a
/// place.
const TABLES: [Table; 4] = [
    Table::Listeners,
    Table::HalfOpen,
    Table::Connections,
    Table::TimeWait,
];

#[derive(Clone, Copy, Debug)]
enum Table {
    Listeners,
    HalfOpen,
    Connections,
    TimeWait,
}

/// Whether the sockets of an owner are wanted.
type IsWanted<'a> = &'a dyn Fn(u32) -> bool;

/// See [`crate::Stack::list_sockets`].
pub fn list(
    tcp: &mut Tcp,
    from: u64,
    limits: ListLimits,
    is_wanted: IsWanted<'_>,
    sockets: &mut Vec<ListedSocket>,
) -> Option<u64> {
    let (mut number, mut slot) = (from >> 32, from as u32);
    let (mut looks, most) = (limits.looks, sockets.len() + limits.sockets);
    while let Some(&table) = TABLES.get(usize::try_from(number).ok()?) {
        while slot < used(tcp, table) {
            if looks == 0 || sockets.len() >= most {
                return Some(number << 32 | u64::from(slot));
            }
            looks -= 1;
            sockets.extend(socket(tcp, table, slot, is_wanted));
            slot += 1;
        }
        (number, slot) = (number + 1, 0);
    }
    None
}

/// Slots from here on were never used.
fn used(tcp: &Tcp, table: Table) -> u32 {
    match table {
        Table::Listeners => tcp.setup.listeners.used(),
        Table::HalfOpen => tcp.setup.half_open.slots.high_water(),
        Table::Connections => tcp.conns.slots.high_water(),
        Table::TimeWait => tcp.time_wait.used(),
    }
}

fn socket(tcp: &mut Tcp, table: Table, slot: u32, is_wanted: IsWanted<'_>) -> Option<ListedSocket> {
    match table {
        Table::Listeners => listener(tcp, slot, is_wanted),
        Table::HalfOpen => half_open(tcp, slot, is_wanted),
        Table::Connections => connection(tcp, slot, is_wanted),
        Table::TimeWait => time_wait(tcp, slot, is_wanted),
    }
}

fn listener(tcp: &Tcp, slot: u32, is_wanted: IsWanted<'_>) -> Option<ListedSocket> {
    let listener = tcp.setup.listeners.live(slot)?;
    let owner = tcp.home_owners.of(listener.home);
    let any: IpAddr = match listener.local {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    is_wanted(owner).then(|| ListedSocket {
        local: listener.local,
        remote: SocketAddr::new(any, 0),
        state: State::Listen,
        recv_queue: listener.waiting.len(),
        send_queue: listener.backlog,
        owner,
        home: Some(listener.home),
    })
}

fn half_open(tcp: &Tcp, slot: u32, is_wanted: IsWanted<'_>) -> Option<ListedSocket> {
    let records = &tcp.setup.half_open;
    let is_live = records.slots.has(slot);
    let record = records.at(slot).filter(|_| is_live)?;
    let listener = tcp.setup.listeners.at(record.listener.into())?;
    let owner = tcp.home_owners.of(listener.home);
    is_wanted(owner).then(|| without_program(&record.key, State::SynReceived, owner))
}

fn time_wait(tcp: &Tcp, slot: u32, is_wanted: IsWanted<'_>) -> Option<ListedSocket> {
    let owner = tcp.time_wait.owner(slot);
    if !is_wanted(owner) {
        return None;
    }
    let record = tcp.time_wait.at(slot)?;
    Some(without_program(&record.key, State::TimeWait, owner))
}

/// One that is no more than a record.
fn without_program(key: &FlowKey, state: State, owner: u32) -> ListedSocket {
    ListedSocket {
        local: key.local(),
        remote: key.remote(),
        state,
        recv_queue: 0,
        send_queue: 0,
        owner,
        home: None,
    }
}

fn connection(tcp: &mut Tcp, slot: u32, is_wanted: IsWanted<'_>) -> Option<ListedSocket> {
    if !tcp.conns.slots.has(slot) {
        return None;
    }
    let stream = tcp.conns.stream(slot);
    let home = tcp.shared.streams.home_of(stream);
    let owner = tcp.home_owners.of(home);
    if !is_wanted(owner) {
        return None;
    }
    // One that is packed is idle, and its program has it.
    let (state, flags) = tcp
        .conns
        .hot_in(slot)
        .map_or((State::Established, Flags::empty()), |hot| {
            (hot.state, hot.flags)
        });
    // Segments find what is left of it, or nothing.
    if state == State::Closed || flags.contains(Flags::DETACHED) {
        return None;
    }
    let key = tcp.conns.key(slot);
    let streams = &mut tcp.shared.streams;
    streams.turn_to(stream);
    let has_program = !flags.intersects(Flags::BACKLOG | Flags::UNANNOUNCED | Flags::APP_CLOSED);
    Some(ListedSocket {
        recv_queue: streams.recv_unread(stream),
        send_queue: streams.send_len(stream) + unacked_control(state),
        home: has_program.then_some(home),
        ..without_program(&key, state, owner)
    })
}

/// The SYN or FIN of ours that the peer has not acknowledged.
fn unacked_control(state: State) -> u32 {
    u32::from(matches!(
        state,
        State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
    ))
}
