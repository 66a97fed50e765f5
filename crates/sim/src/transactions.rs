//! Short transactions between two stacks over memory: what one costs, without time, threads or
//! system calls.
//!
//! The server side is one function, so that a profiler can be told to count only what happens in
//! it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::config::{Address, Interface, Seat, StaticNeighbour};
use mtcp_core::{AppStreams, Command, Config, ConnId, Event, PortId, Ready, Reply, Stack, Token};
use wire::frame::{BURST, Capabilities, FrameSink, MacAddr, RxChecksum, RxFrame, RxMeta, TxMeta};
use wire::time::Instant;

const PORT: PortId = PortId(0);
const SERVICE: u16 = 80;
/// Bytes of a message.
const MESSAGE: usize = 64;
/// What requests are made of: the last of a connection, and those before it.
const LAST: u8 = b'q';
const ANOTHER: u8 = b'm';
/// Frames that a turn can send.
const FRAMES: usize = 256;
/// Bytes of a frame, more than any that is sent here.
const FRAME: usize = 1600;
/// Time between turns.
const TURN: Duration = Duration::from_micros(10);
/// Turns without an end after which nothing will end any more.
const TURNS_MAX: u64 = 1_000_000;

/// Frames on their way in one direction.
#[derive(Debug)]
struct Wire {
    frames: Vec<Vec<u8>>,
    lengths: Vec<usize>,
}

impl Wire {
    fn new() -> Self {
        Self {
            frames: vec![vec![0; FRAME]; FRAMES],
            lengths: Vec::with_capacity(FRAMES),
        }
    }
}

impl FrameSink for Wire {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(frame) = self.frames.get_mut(self.lengths.len()) else {
            return false;
        };
        let TxMeta { len, .. } = fill(frame);
        if len > 0 {
            self.lengths.push(len);
        }
        true
    }
}

/// A stack, its streams, and the frames it sends.
#[derive(Debug)]
struct Side {
    stack: Stack,
    app: AppStreams,
    sent: Wire,
}

impl Side {
    fn new(own: u8, peer: u8, connections: u32, seat: Option<Seat>) -> io::Result<Self> {
        let config = config(own, peer, connections);
        let (stack, app) = Stack::new(Config { seat, ..config })?;
        Ok(Self {
            stack,
            app,
            sent: Wire::new(),
        })
    }

    /// Takes what `wire` carries.
    fn receive(&mut self, now: Instant, wire: &mut Wire) {
        let meta = RxMeta {
            checksum: RxChecksum::Trusted,
            ..RxMeta::default()
        };
        let mut frames = wire.frames.iter().zip(&wire.lengths);
        let mut left = wire.lengths.len();
        while left > 0 {
            let burst: [RxFrame<'_>; BURST] = std::array::from_fn(|_| {
                let bytes = frames.next().and_then(|(frame, len)| frame.get(..*len));
                RxFrame {
                    bytes: bytes.unwrap_or_default(),
                    meta,
                }
            });
            let count = left.min(BURST);
            self.stack
                .receive(now, PORT, burst.get(..count).unwrap_or_default());
            left -= count;
        }
        wire.lengths.clear();
        self.stack.advance(now);
    }

    fn transmit(&mut self, now: Instant) {
        self.stack.transmit(now, PORT, &mut self.sent);
        // Nothing, as nothing comes to the wrong stack here.
        self.stack.transmit(now, PortId::SIBLINGS, &mut self.sent);
    }

    /// Commands here are about connections that are there; one that is refused shows as a
    /// transaction that does not end.
    fn execute(&mut self, now: Instant, command: Command) -> Option<Reply> {
        self.stack.execute(now, command).ok()
    }
}

fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host).into()
}

fn config(own: u8, peer: u8, connections: u32) -> Config {
    let mac = |host| MacAddr([2, 0, 0, 0, 0, host]);
    Config {
        interfaces: vec![Interface {
            mac: mac(own),
            capabilities: Capabilities {
                mtu: 1500,
                queues: 1,
                tx_checksum: true,
                tx_gso: 0,
                loops: false,
            },
            addresses: vec![Address {
                addr: address(own),
                prefix_len: 24,
            }],
        }],
        neighbours: vec![StaticNeighbour {
            addr: address(peer),
            prefix_len: 32,
            mac: mac(peer),
            port: PORT,
        }],
        secret: [own; 32],
        max_connections: connections * 2 + 16,
        huge_pages: false,
        ..Config::default()
    }
}

/// A server and a client with so many connections at a time: each sends 64 bytes and is answered
/// with 64 bytes, so many times, and ends with the server's FIN and the client's RST.
#[derive(Debug)]
pub struct Transactions {
    client: Side,
    server: Side,
    now: Instant,
    concurrency: u32,
    messages: u32,
    /// Requests that the client's connections have yet to send, by slot.
    left: Vec<u32>,
    live: u32,
    done: u64,
    turns: u64,
}

impl Transactions {
    /// Two stacks that know each other, the server listening. `seat`: either is one of several with
    /// its addresses.
    ///
    /// # Errors
    /// Memory could not be reserved, or the server cannot listen.
    pub fn new(concurrency: u32, messages: u32, seat: Option<Seat>) -> io::Result<Self> {
        let mut transactions = Self {
            client: Side::new(1, 2, concurrency, seat)?,
            server: Side::new(2, 1, concurrency, seat)?,
            now: Instant::ZERO,
            concurrency,
            messages,
            left: Vec::new(),
            live: 0,
            done: 0,
            turns: 0,
        };
        let listen = Command::Listen {
            token: Token(0),
            local: SocketAddr::new(address(2), SERVICE),
            only_v6: false,
            backlog: concurrency + 16,
            options: options(),
        };
        let listening = transactions.server.execute(Instant::ZERO, listen);
        listening.ok_or_else(|| io::Error::other("the server cannot listen"))?;
        Ok(transactions)
    }

    /// Runs until so many more transactions have ended; how many turns it took.
    ///
    /// # Errors
    /// They do not end.
    pub fn run(&mut self, count: u64) -> io::Result<u64> {
        let (goal, first) = (self.done + count, self.turns);
        let mut last = (self.done, self.turns);
        while self.done < goal {
            self.now += TURN;
            self.turns += 1;
            self.client_turn();
            server_turn(&mut self.server, &mut self.client.sent, self.now);
            if self.done != last.0 {
                last = (self.done, self.turns);
            } else if self.turns - last.1 > TURNS_MAX {
                return Err(io::Error::other("the transactions do not end"));
            }
        }
        Ok(self.turns - first)
    }

    /// All that the client does in a turn; see `server_turn`.
    #[inline(never)]
    fn client_turn(&mut self) {
        let now = self.now;
        self.client.receive(now, &mut self.server.sent);
        while let Some(event) = self.client.stack.poll_event() {
            if let Event::Ready { conn, ready, .. } = event {
                self.client_event(conn, ready);
            }
        }
        while self.live < self.concurrency && self.connect() {}
        self.client.transmit(now);
    }

    fn connect(&mut self) -> bool {
        let connect = Command::Connect {
            token: Token(1),
            local: None,
            remote: SocketAddr::new(address(2), SERVICE),
            options: options(),
        };
        let connecting = self.client.execute(self.now, connect).is_some();
        self.live += u32::from(connecting);
        connecting
    }

    fn client_event(&mut self, conn: ConnId, ready: Ready) {
        if ready.contains(Ready::CONNECTED) {
            self.begin(conn);
        }
        if ready.intersects(Ready::EOF | Ready::ERROR) {
            let complete = self.take_answer(conn);
            self.client.app.release(conn.slot);
            self.client.execute(self.now, Command::Abort(conn));
            self.live -= 1;
            self.done += u64::from(complete);
        } else if self.take_answer(conn) {
            self.ask(conn);
        }
    }

    fn begin(&mut self, conn: ConnId) {
        let slot = conn.slot as usize;
        if self.left.len() <= slot {
            self.left.resize(slot + 1, 0);
        }
        self.left[slot] = self.messages;
        self.ask(conn);
    }

    /// Sends a request, and says in it whether it is the last.
    fn ask(&mut self, conn: ConnId) {
        let left = &mut self.left[conn.slot as usize];
        *left = left.saturating_sub(1);
        let kind = if *left == 0 { LAST } else { ANOTHER };
        self.client.app.write(conn.slot, &[kind; MESSAGE]);
        self.client.execute(self.now, Command::Send(conn));
    }

    /// Whether an answer was there. None are read that are not whole, unless nothing more comes.
    fn take_answer(&mut self, conn: ConnId) -> bool {
        let mut answer = [0; MESSAGE];
        let app = &mut self.client.app;
        app.readable(conn.slot) >= MESSAGE as u32 && app.read(conn.slot, &mut answer) == MESSAGE
    }
}

fn options() -> Options {
    Options {
        nodelay: true,
        ..Options::default()
    }
}

/// All that the server does for one burst of frames. Never part of its caller, so that it can be
/// counted by itself.
#[inline(never)]
fn server_turn(server: &mut Side, from: &mut Wire, now: Instant) {
    server.receive(now, from);
    while let Some(event) = server.stack.poll_event() {
        match event {
            Event::Accepted { conn, .. } => {
                let token = Token(2);
                server.execute(now, Command::Accept { conn, token });
                answer(server, conn, now);
            }
            Event::Ready { conn, ready, .. } if ready.contains(Ready::ERROR) => {
                server.app.release(conn.slot);
                server.execute(now, Command::Abort(conn));
            }
            Event::Ready { conn, .. } => answer(server, conn, now),
        }
    }
    server.transmit(now);
}

/// Answers the request once it is there, and closes after the last.
fn answer(server: &mut Side, conn: ConnId, now: Instant) {
    let mut request = [0; MESSAGE];
    if !server.app.holds(conn.slot) || server.app.readable(conn.slot) < MESSAGE as u32 {
        return;
    }
    server.app.read(conn.slot, &mut request);
    server.app.write(conn.slot, &[b'x'; MESSAGE]);
    server.execute(now, Command::Send(conn));
    if request[0] == LAST {
        server.app.release(conn.slot);
        server.execute(now, Command::Close(conn));
    }
}

/// Runs transactions on so many servers that share an interface, each with a client of its own:
/// `count` in all at least, a few of each in turn. How many they were.
///
/// # Errors
/// As [`Transactions`].
pub fn side_by_side(stacks: u8, concurrency: u32, messages: u32, count: u64) -> io::Result<u64> {
    let one = |index| {
        let seat = Seat {
            index,
            seats: stacks,
            bequeaths: false,
        };
        Transactions::new(concurrency, messages, (stacks > 1).then_some(seat))
    };
    let mut all = (0..stacks).map(one).collect::<io::Result<Vec<_>>>()?;
    let sum = |all: &[Transactions]| all.iter().map(|one| one.done).sum::<u64>();
    while sum(&all) < count {
        for transactions in &mut all {
            transactions.run(concurrency.into())?;
        }
    }
    Ok(sum(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing in it depends on the clock or on chance: what is counted once is counted always.
    #[test]
    fn the_same_transactions_take_the_same_turns() {
        let turns = |concurrency, messages| {
            let mut transactions = Transactions::new(concurrency, messages, None).unwrap();
            transactions.run(500).unwrap()
        };
        assert_eq!(turns(8, 1), turns(8, 1));
        assert!(turns(1, 1) > turns(100, 1));
        // The handshake takes the time of a message.
        assert!(turns(8, 20) > 10 * turns(8, 1));
    }

    #[test]
    fn stacks_that_share_an_interface_do_as_much() {
        for stacks in [1, 3, 8] {
            let done = side_by_side(stacks, 8, 1, 500).unwrap();
            assert!(
                (500..500 + 16 * u64::from(stacks)).contains(&done),
                "{done}"
            );
        }
        assert!(side_by_side(200, 8, 1, 500).is_err());
    }
}
